"""The stages of a training, in the order of the paper's section 5: `kt.training`.

`kt.Translator.train` and `kt.ConstituencyParser.train` call all of them (and the recipes).
A stage is a function of explicit arguments; what it leaves to choose is a dataclass of options.

- `TrainingOptions`, `TranslatorTrainingOptions`, `ParserTrainingOptions`: the options of all stages
  together.
- `may_change`: marks an option that may have another value when a training goes on.
- `begin_training`: where the training stands, as a `Run`. (`begin_run`: of its parts, `RunOptions`
  and `DeviceOptions`.)
- Corpus, vocabulary, token store and planned batches are in `kt.data`; `make_tokenizer` and
  `make_batches` call the last three, and `check_data` holds a resumed training to its text.
- `make_tokenizers`, with `TranslatorVocabularyOptions`: a translator's vocabulary, or two, as
  `Tokenizers`; `make_translation_batches`, `long_pairs`, `tags_of`, `parts_of`: what follows of
  them.
- `make_linearization`, `make_tree_pairs`, `constituents_first`, `make_tree_tokenizer`,
  `parser_hyperparameters`, `parser_metadata`, `quick_parser`: what trees need, with
  `TreeOptions` and `ParsingOptions`.
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
- `RollingCheckpoints`, `stop_on_signals`, `KeepPace`, `LogProgress`, `LogScore`,
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
    "TrainingOptions": "tasks.training",
    "begin_training": "tasks.training",
    "make_tokenizer": "tasks.training",
    "make_batches": "tasks.training",
    "make_model": "tasks.training",
    "save_training": "tasks.training",
    "TranslatorTrainingOptions": "tasks.train_translator",
    "TranslatorVocabularyOptions": "tasks.train_translator",
    "Tokenizers": "tasks.train_translator",
    "make_tokenizers": "tasks.train_translator",
    "make_translation_batches": "tasks.train_translator",
    "long_pairs": "tasks.train_translator",
    "tags_of": "tasks.train_translator",
    "parts_of": "tasks.train_translator",
    "ParserTrainingOptions": "tasks.train_parser",
    "TreeOptions": "tasks.tree_options",
    "ParsingOptions": "tasks.train_parser",
    "make_linearization": "tasks.tree_options",
    "make_tree_pairs": "tasks.train_parser",
    "constituents_first": "tasks.train_parser",
    "make_tree_tokenizer": "tasks.train_parser",
    "parser_hyperparameters": "tasks.train_parser",
    "parser_metadata": "tasks.train_parser",
    "quick_parser": "tasks.train_parser",
    "may_change": "options",
    # Where a training stands
    "RunOptions": "training.run",
    "Run": "training.run",
    "begin_run": "training.run",
    "check_data": "training.run",
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
    "compile_model": "training.fitting",
    # Fit and average
    "FitOptions": "training.fitting",
    "Fitted": "training.fitting",
    "fit": "training.fitting",
    "average_weights": "training.fitting",
    "validate": "training.fitting",
    "CheckpointOptions": "training.rolling_checkpoints",
    "RollingCheckpoints": "training.rolling_checkpoints",
    "stop_on_signals": "training.signals",
    "TrainingStopped": "errors",
    "KeepPace": "training.callbacks",
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
