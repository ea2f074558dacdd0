"""Training: options, schedules, callbacks and files of weights: `kt.training`.

`kt.Translator.train` and `kt.ConstituencyParser.train` train a model from its texts.

- `TrainingOptions`: the options of all stages together.
- `mutable_on_resume`: marks an option that may change when a training resumes.
- `begin_training`: starts or resumes a training; returns its `TrainingContext`, which contains the
  options and the state of the training. `make_batches` and `make_model` take it.
- `ModelOptions`, `OptimizerOptions`, `FitOptions`, `CheckpointOptions`: the options of one stage.

For a custom training loop with Keras's `fit`:

- `CooldownSchedule`, `paper_optimizer` (5.3).
- `RollingCheckpoints`, `LogProgress`, `LogScore`, `ShowProgress`: callbacks.
- `TrainingState`: the whole state of a training in a file.
- `average_checkpoints`, `load_weights`, `save_weights`: files of weights.
- `Devices`, `choose_devices`, `make_deterministic`: devices that share each batch.
- `training_flops`: the floating-point operations of a training.
- `TrainingStopped`: raised when a signal stops a training.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
