"""The options that the trainings of all tasks share."""

from dataclasses import dataclass, field

from keras_transformer.data.batch_planner import BatchingOptions
from keras_transformer.data.tokenizer import VocabularyOptions
from keras_transformer.models.variants import ModelOptions
from keras_transformer.training.stage_options import (
    CheckpointOptions,
    DeviceOptions,
    FitOptions,
    OptimizerOptions,
    RunOptions,
)


@dataclass(kw_only=True)
class TrainingOptions:
    """Options of a training, grouped by its stages.

    Attributes:
        run: `RunOptions`: the output folder, and whether the training resumes.
        vocabulary: `kt.data.VocabularyOptions`.
        batching: `kt.data.BatchingOptions`.
        model: `ModelOptions`.
        optimizer: `OptimizerOptions`.
        fitting: `FitOptions`: the number of updates, and the interval of validation.
        checkpoints: `CheckpointOptions`.
        devices: `DeviceOptions`.
    """

    run: RunOptions
    vocabulary: VocabularyOptions = field(default_factory=VocabularyOptions)
    batching: BatchingOptions = field(default_factory=BatchingOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    optimizer: OptimizerOptions = field(default_factory=OptimizerOptions)
    fitting: FitOptions = field(default_factory=FitOptions)
    checkpoints: CheckpointOptions = field(default_factory=CheckpointOptions)
    devices: DeviceOptions = field(default_factory=DeviceOptions)

    # The names of the scores that are computed at each interval besides loss, accuracy and
    # perplexity, or None if they are not known before `fit`.
    scores = None

    def validate(self) -> None:
        """Check the options.

        Raises:
            UserError: if options of two stages contradict each other.
        """
        # These modules import Keras.
        from keras_transformer.training.optimizer import make_schedule
        from keras_transformer.training.stopping import check_choice_of_checkpoints

        make_schedule(self.optimizer, 1, self.fitting.steps)
        uses_ema = self.optimizer.ema is not None
        check_choice_of_checkpoints(self.checkpoints, self.scores, uses_ema)
