# All stages
from keras_transformer.training.stage_options import CheckpointOptions as CheckpointOptions
from keras_transformer.training.stage_options import FitOptions as FitOptions
from keras_transformer.training.stage_options import OptimizerOptions as OptimizerOptions
from keras_transformer.tasks.pipeline import TrainingOptions as TrainingOptions
from keras_transformer.tasks.pipeline import begin_training as begin_training
from keras_transformer.tasks.pipeline import make_batches as make_batches
from keras_transformer.tasks.pipeline import make_model as make_model
from keras_transformer.option_fields import mutable_on_resume as mutable_on_resume

# Where a training stands
from keras_transformer.training.context import TrainingContext as TrainingContext
from keras_transformer.training.distribution import Devices as Devices
from keras_transformer.training.distribution import choose_devices as choose_devices
from keras_transformer.training.distribution import make_deterministic as make_deterministic
from keras_transformer.training.training_state import TrainingState as TrainingState

# Model and optimizer
from keras_transformer.models.variants import ModelOptions as ModelOptions
from keras_transformer.training.optimizer import paper_optimizer as paper_optimizer
from keras_transformer.training.optimizer import CooldownSchedule as CooldownSchedule

# Fit and average
from keras_transformer.training.rolling_checkpoints import RollingCheckpoints as RollingCheckpoints
from keras_transformer.errors import TrainingStopped as TrainingStopped
from keras_transformer.training.callbacks import LogScore as LogScore
from keras_transformer.training.fit_progress import LogProgress as LogProgress
from keras_transformer.training.fit_progress import ShowProgress as ShowProgress
from keras_transformer.weights.checkpoints import average_checkpoints as average_checkpoints
from keras_transformer.weights.weights_file import load_weights as load_weights
from keras_transformer.weights.weights_file import save_weights as save_weights

# Results
from keras_transformer.training.cost import training_flops as training_flops
