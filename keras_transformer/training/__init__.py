"""The stages of a training, in the order of the paper's section 5: `kt.training`.

`kt.Translator.train` and `kt.ConstituencyParser.train` call all of them (and the recipes).
A stage is a function of explicit arguments; what it leaves to choose is a dataclass of options.

- `TrainingOptions`: the options of all stages together.
- `mutable_on_resume`: marks an option that may have another value when a training goes on.
- `begin_training`: where the training stands, as a `Run`. (`begin_run`: of its parts, `RunOptions`
  and `DeviceOptions`.)
- Corpus, vocabulary, token store and planned batches are in `kt.data`; `make_tokenizer` and
  `make_batches` call the last three, and `check_data` holds a resumed training to its text.
- `make_model`: the model (section 3), compiled. Of its parts: `ModelOptions` and
  `get_hyperparameters`, `make_optimizer` with
  `OptimizerOptions` (5.3), `compile_model`.
- `fit`: train, validate and write checkpoints (5.2), with `FitOptions` and `CheckpointOptions`;
  it returns `Fitted`.
- `average_weights`: average the last checkpoints (6.1); `validate`: loss and metrics of them.
- `save_training`: results, model card and preset. (Of its parts: `training_facts`,
  `write_results`, `model_card`.)

For another loop, with Keras's own `fit`:

- `NoamSchedule`, `CooldownSchedule`, `paper_optimizer`, `WholeBatchOptimizer` (5.3).
- `LabelSmoothedCrossentropy` (5.4), `TokenAccuracy`, `Perplexity`.
- `RollingCheckpoints`, `stop_on_signals`, `LimitInFlightBatches`, `LogProgress`, `LogScore`,
  `ShowProgress`, `SkipNonFinite`, `StopOnNonFinite`: callbacks, and what goes with them.
- `TrainingState`, `find_start`: the whole state of a training in a file.
- `average_checkpoints`, `list_checkpoints`, `load_weights`, `save_weights`: files of weights.
- `Devices`, `choose_devices`, `use_devices`, `make_deterministic`: devices that share each batch.
- `Processes`: several that train together (JAX), of which the first writes.
- `training_flops`: what a training costs.
- `TrainingStopped`: what a signal raises out of `fit`.
"""

from keras_transformer.namespace import load_on_demand

_HOMES = {
    # All stages
    "TrainingOptions": "tasks.pipeline",
    "begin_training": "tasks.pipeline",
    "make_tokenizer": "tasks.pipeline",
    "make_batches": "tasks.pipeline",
    "make_model": "tasks.pipeline",
    "save_training": "tasks.pipeline",
    "mutable_on_resume": "options",
    # Where a training stands
    "RunOptions": "training.context",
    "Run": "training.context",
    "begin_run": "training.context",
    "check_data": "training.context",
    "DeviceOptions": "training.distribution",
    "Devices": "training.distribution",
    "Processes": "training.processes",
    "choose_devices": "training.distribution",
    "make_deterministic": "training.distribution",
    "use_devices": "training.distribution",
    "TrainingState": "training.training_state",
    "find_start": "training.training_state",
    # Model and optimizer
    "ModelOptions": "models.variants",
    "get_hyperparameters": "models.variants",
    "OptimizerOptions": "training.optimizer",
    "make_optimizer": "training.optimizer",
    "paper_optimizer": "training.optimizer",
    "WholeBatchOptimizer": "training.whole_batch_optimizer",
    "CooldownSchedule": "training.schedules",
    "NoamSchedule": "training.schedules",
    "LabelSmoothedCrossentropy": "training.losses",
    "TokenAccuracy": "training.metrics",
    "Perplexity": "training.metrics",
    "compile_model": "training.trainer",
    # Fit and average
    "FitOptions": "training.trainer",
    "Fitted": "training.trainer",
    "fit": "training.trainer",
    "average_weights": "training.trainer",
    "validate": "training.trainer",
    "CheckpointOptions": "training.rolling_checkpoints",
    "RollingCheckpoints": "training.rolling_checkpoints",
    "stop_on_signals": "training.signals",
    "TrainingStopped": "errors",
    "LimitInFlightBatches": "training.callbacks",
    "LogScore": "training.callbacks",
    "StopOnNonFinite": "training.callbacks",
    "LogProgress": "training.progress",
    "ShowProgress": "training.progress",
    "SkipNonFinite": "training.progress",
    "average_checkpoints": "training.checkpoints",
    "list_checkpoints": "training.checkpoints",
    "load_weights": "training.checkpoints",
    "save_weights": "training.checkpoints",
    # Results
    "training_flops": "training.cost",
    "training_facts": "training.results",
    "write_results": "training.results",
    "model_card": "training.results",
}

__all__ = [*_HOMES]
__getattr__, __dir__ = load_on_demand(__name__, _HOMES)
