"""The stages of a training, in the order of the paper's section 5: `kt.training`.

`kt.Translator.train`, `kt.ConstituencyParser.train` and the recipes call all of them. A stage is a
function of explicit arguments; its options are a dataclass.

- `TrainingOptions`: the options of all stages together.
- `mutable_on_resume`: marks an option that may change when a training is resumed.
- `begin_training`: creates or resumes a training; `check_data` compares the text of a resumed
  training with that of its beginning.
- `make_tokenizer` and `make_batches`: call the stages of `kt.data`.
- `make_model`: builds and compiles the model (section 3), with `ModelOptions`; `make_optimizer`,
  with `OptimizerOptions` (5.3), and `compile_model` are its parts.
- `fit`: trains, validates and writes checkpoints (5.2), with `FitOptions` and `CheckpointOptions`.
- `average_weights`: averages the last checkpoints (6.1); `validate`: their loss and metrics.
- `save_training`: writes results, model card and preset.

For a training loop of your own, with Keras's `fit`:

- `CooldownSchedule`, `paper_optimizer` (5.3).
- `RollingCheckpoints`, `LogProgress`, `LogScore`, `ShowProgress`: callbacks.
- `TrainingState`: the whole state of a training in a file.
- `average_checkpoints`, `load_weights`, `save_weights`: files of weights.
- `Devices`, `choose_devices`, `make_deterministic`: devices that share each batch.
- `training_flops`: the floating-point operations of a training.
- `TrainingStopped`: raised by `fit` when a signal stops the training.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
