"""A training on pairs of sequences, as sections 5 and 6.1 describe it: what the recipes share."""

import hashlib
import importlib.util
import json
import shlex
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import keras

from keras_transformer.command_line import CommonOptions, resume_command
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.files import remove_leftovers, whole
from keras_transformer.memory import peak_memory_mib
from keras_transformer.models.transformer import Transformer
from keras_transformer.models.variants import TRAINING_ONLY, get_variant, scaled
from keras_transformer.training.callbacks import (
    LogScore,
    StopAtStep,
    StopOnNonFinite,
    breakable,
)
from keras_transformer.training.checkpoints import (
    average_checkpoints,
    list_checkpoints,
    load_weights,
)
from keras_transformer.training.cost import training_flops
from keras_transformer.training.distribution import choose_devices, make_deterministic
from keras_transformer.training.losses import LabelSmoothedCrossentropy
from keras_transformer.training.metrics import Perplexity, TokenAccuracy
from keras_transformer.training.optimizer import paper_optimizer
from keras_transformer.training.progress import LogProgress, SkipNonFinite
from keras_transformer.training.rolling_checkpoints import RollingCheckpoints, stop_on_signals
from keras_transformer.training.schedules import NoamSchedule
from keras_transformer.training.training_state import find_start
from keras_transformer.visualization import plot_training

# Options that may change when a training goes on: they do not change what it learns.
_FREE = {
    *("output_dir", "data_dir", "steps", "average", "keep", "resume", "overwrite"),
    *("checkpoint_steps", "checkpoint_minutes", "replicas", "coordinator", "process_id"),
    "compilation_cache",
}


@dataclass(kw_only=True)
class TrainingOptions(CommonOptions):
    """Options of every recipe's `train.py`."""

    output_dir: Path
    """Folder for the tokenizer, checkpoints, logs and, in model/, the trained model."""
    data_dir: Path | None = None
    """Folder that holds the corpus. Without it, a corpus that can be fetched is fetched."""
    variant: str = "tiny"
    """Size of the model: a row of Table 3, parsing, tiny or small."""
    scale: float = 1.0
    """Factor on the widths of the variant (hidden, intermediate, keys and values)."""
    num_layers: int | None = None
    """N (section 3.1), if not the variant's."""
    vocabulary_size: int = 6000
    """Size of the BPE vocabulary that source and target share (section 5.1)."""
    vocabulary_sentences: int = 1_000_000
    """Sentences to train the vocabulary on at most, source and target sentences together."""
    batch_tokens: int = 2048
    """Source tokens in a batch at most, and target tokens at most, padding included."""
    num_shapes: int = 12
    """Distinct batch shapes at most: more waste less on padding, and take longer to compile."""
    steps: int = 7500
    """Number of updates."""
    warmup_steps: int = 2000
    """Updates over which the learning rate grows (section 5.3)."""
    peak_learning_rate: float | None = 0.003
    """Learning rate at the end of the warm-up; "None" for the paper's, 1 / sqrt(hidden_dim *
    warmup_steps)."""
    dropout: float | None = None
    """P_drop (section 5.4), if not the variant's."""
    label_smoothing: float | None = None
    """epsilon_ls (section 5.4), if not the variant's."""
    interval: int = 500
    """Updates between two validations."""
    checkpoint_steps: int | None = None
    """Updates between two checkpoints. Defaults to --interval."""
    checkpoint_minutes: float | None = None
    """Minutes between two checkpoints, in place of updates. The paper's: 10 (section 6.1)."""
    average: int = 5
    """How many of the last checkpoints to average into the model (section 6.1)."""
    keep: int = 0
    """How many checkpoints to keep, if more than those to average."""
    ema: float | None = None
    """Momentum (0.999, say) of a moving average of the weights, used in place of checkpoints."""
    accumulate: int = 1
    """Batches that share an update, as one batch so many times as large."""
    clip_norm: float | None = None
    """Largest global norm of an update's gradient. Defaults to no clipping."""
    skip_nonfinite: bool = False
    """Leave out, and count, updates whose gradient is infinite or not a number."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """What the layers compute in; weights are float32. In float16 the loss is scaled."""
    deterministic: bool = False
    """The same results in each run, bit for bit, at some cost in speed."""
    resume: bool = False
    """Go on from the newest checkpoint in the output folder, exactly where it was; without one,
    begin at the beginning."""
    overwrite: bool = False
    """Begin at the beginning, in place of an earlier training in the output folder."""
    replicas: int | None = None
    """Devices that share each batch, in each process. Defaults to all GPUs, or to one CPU."""
    coordinator: str | None = None
    """HOST:PORT of process 0, when several processes train together (JAX)."""
    num_processes: int = 1
    """Processes that train together, on one machine or several: all with the same options."""
    process_id: int = 0
    """Which of them this is, from 0. The others than 0 write to process-K in the output folder."""
    seed: int = 1
    """Seed of weights, dropout and batches."""


class TrainingRun:
    """One run of a recipe. Its methods are called in the order in which they stand here.

    Args:
        options: `TrainingOptions`.

    Attributes:
        folder: where the run keeps what it makes.
        hyperparameters: those of the variant.

    Raises:
        ValueError: if options are wrong, or the output folder holds another training.
    """

    def __init__(self, options):
        self._began = time.time()
        self.options = options
        if options.deterministic:
            make_deterministic()
        self.devices = choose_devices(
            options.replicas, options.coordinator, options.num_processes, options.process_id
        )
        keras.config.set_dtype_policy(options.precision)
        keras.utils.set_random_seed(options.seed)
        self.hyperparameters = scaled(get_variant(options.variant), options.scale)
        for name in ("num_layers", "dropout", "label_smoothing"):
            if (value := getattr(options, name)) is not None:
                self.hyperparameters[name] = value
        self.folder = options.output_dir
        if options.process_id:
            self.folder /= f"process-{options.process_id}"
        remove_leftovers(self.folder)
        self._checkpoints_folder = self.folder / "checkpoints"
        self._begin = find_start(
            self._checkpoints_folder, options.steps, options.resume, options.overwrite
        )
        # What must stay as it is when the training goes on.
        self._settings = {name: x for name, x in asdict(options).items() if name not in _FREE}
        self._settings["num_replicas"] = self.devices.num_replicas
        self._begin.check_run(self._settings)

    def tokenizer(self, sentences, **options):
        """Train the tokenizer, or read the one that the run began with."""
        path = self.folder / "tokenizer.spm"
        if self._begin.step and path.is_file():
            tokenizer = Tokenizer.from_file(path)
        else:
            tokenizer = Tokenizer.train(
                sentences,
                self.options.vocabulary_size,
                max_sentences=self.options.vocabulary_sentences,
                **options,
            )
            tokenizer.save(path)
        self._settings["tokenizer"] = hashlib.sha256(tokenizer.proto).hexdigest()
        return tokenizer

    def plan_batches(self, train, val, tokenizer, target_tokenizer=None):
        """Tokenise the texts, and plan the batches of both (section 5.1)."""
        self._settings["training_text"] = train.fingerprint()
        self._begin.check_run(self._settings)
        options, replicas = self.options, self.devices.num_replicas
        train_store, val_store = (
            TokenStore.build_once(
                self.folder / "tokens" / text.split, text, tokenizer, target_tokenizer
            )
            for text in (train, val)
        )
        self.train_batches = TokenBatches(
            train_store,
            options.batch_tokens,
            options.num_shapes,
            rows_multiple=replicas,
            seed=options.seed,
            accumulate=options.accumulate,
            shard=self.devices.shard,
        )
        self.val_batches = TokenBatches(
            val_store,
            options.batch_tokens,
            num_shapes=3,
            rows_multiple=replicas,
            training=False,
            shard=self.devices.shard,
        )
        print(
            f"{len(train)} training pairs, {len(self.train_batches)} batches an epoch of "
            f"{len(self.train_batches.shapes)} shapes, "
            f"{self.train_batches.real_token_share():.1%} of the slots are tokens"
        )
        self._target_tokens = (train_store.target.lengths + 1).sum() / len(self.train_batches)

    def build_model(self, vocabulary_size):
        """The model (section 3) with the optimizer (5.3) and the regularisation (5.4)."""
        options = self.options
        smoothing = self.hyperparameters["label_smoothing"]
        sizes = {
            name: value for name, value in self.hyperparameters.items() if name not in TRAINING_ONLY
        }
        with self.devices.scope():
            model = Transformer(vocabulary_size, **sizes)
            model.compile(
                optimizer=paper_optimizer(
                    self._learning_rate(),
                    options.accumulate,
                    options.clip_norm,
                    options.ema,
                    options.skip_nonfinite,
                ),
                loss=LabelSmoothedCrossentropy(smoothing, reduction="sum"),
                weighted_metrics=[TokenAccuracy(), Perplexity()],
                jit_compile=self.devices.jit_compile,
            )
            # TensorFlow would trace a first step that makes variables twice.
            model.optimizer.build(model.trainable_variables)
            self._begin.restore(model)
        print(f"{model.count_params():,} parameters")
        return model

    def fit(self, model, score_name, score):
        """Train (section 5.2), with a score of the model at the end of each interval.

        Args:
            model: what `build_model` returned.
            score_name: the score's name in the logs, such as `"val_bleu"`.
            score: function without arguments that returns a number.
        """
        options = self.options
        checkpoints = RollingCheckpoints(
            self._checkpoints_folder,
            keep=max(options.keep, options.average),
            every_steps=options.checkpoint_steps,
            every_minutes=options.checkpoint_minutes,
            start=self._begin,
            run=self._settings,
        )
        epochs = -(-options.steps // options.interval)
        epochs_done = self._begin.step // options.interval
        if self._begin.step == options.steps:
            epochs_done = epochs
        with stop_on_signals(checkpoints, resume_command()):
            history = model.fit(
                breakable(self.train_batches.stream(checkpoints.batches)),
                shuffle=False,  # the batches are planned
                epochs=epochs,
                initial_epoch=epochs_done,
                steps_per_epoch=min(options.interval, options.steps) * options.accumulate,
                validation_data=self.val_batches,
                callbacks=[
                    LogProgress(self._target_tokens, options.steps),
                    StopAtStep(options.steps, options.interval),
                    SkipNonFinite()
                    if options.skip_nonfinite
                    else StopOnNonFinite(self.train_batches, checkpoints),
                    LogScore(score_name, score),
                    *_tensorboard(self.folder),
                    checkpoints,
                ],
                verbose=0 if options.process_id else "auto",
            )
        self.history, self.model, self._seconds_of_fit = history.history, model, checkpoints.seconds
        with whole(self.folder / "history.json") as path:
            path.write_text(json.dumps(self.history, indent=2) + "\n", "utf-8")
        with whole(self.folder / "training.png") as path:
            plot_training(self.history, path, options.interval)

    def average(self):
        """Average the last checkpoints into the model (section 6.1), and validate it.

        Returns:
            Words that say what the weights are.
        """
        weights = "moving average of the weights"  # with `ema`, `fit` leaves it in the model
        if self.options.ema is None:
            averaged = self.folder / "averaged.weights.h5"
            paths = list_checkpoints(self._checkpoints_folder)[-self.options.average :]
            average_checkpoints(paths, averaged)
            load_weights(self.model, averaged)
            weights = f"last {len(paths)} checkpoints averaged"
        self.validation = self.model.evaluate(self.val_batches, verbose=0, return_dict=True)
        return weights

    def save(self, task, facts, card_lines):
        """Write the results, and the preset with its model card.

        Args:
            task: a `Translator` or another task with the trained model.
            facts: dict of JSON values for `results.json`.
            card_lines: lines of the model card: its title, then what was scored.
        """
        optimizer, seconds = self.model.optimizer, self._seconds_of_fit
        batches = int(optimizer.batches.numpy())
        tokens, epochs = batches * self._target_tokens, batches / len(self.train_batches)
        facts = {
            **facts,
            "command": shlex.join(["python", *sys.argv]),
            "backend": keras.backend.backend(),
            "seed": self.options.seed,
            "steps": int(optimizer.iterations.numpy()),
            "skipped_updates": int(optimizer.num_skipped.numpy()),
            "parameters": self.model.count_params(),
            "hyperparameters": dict(self.hyperparameters),
            "validation": self.validation,
            "training_flops": epochs * self._epoch_flops(),
            "seconds": round(time.time() - self._began + self._begin.seconds),
            "seconds_of_fit": round(seconds),
            "target_tokens_per_second": round(float(tokens / seconds)),
            "peak_memory_mib": peak_memory_mib(),
        }
        with whole(self.folder / "results.json") as path:
            path.write_text(
                json.dumps({**facts, "history": self.history}, indent=2) + "\n", "utf-8"
            )
        title, *scores = card_lines
        run = [
            f"- command: `{facts['command']}`",
            f"- backend {facts['backend']}, seed {facts['seed']}, {facts['steps']} updates, "
            f"{facts['parameters']:,} parameters, {facts['seconds']} s in all",
        ]
        card = "\n".join([f"# {title}", "", *run, *(f"- {line}" for line in scores)]) + "\n"
        task.save_to_preset(self.folder / "model", card=card)
        cost = f"{facts['seconds']} s in all"
        if facts["peak_memory_mib"]:
            cost += f", {facts['peak_memory_mib']} MiB of memory at most"
        print(f"{cost}. The model is in {self.folder / 'model'}.")

    def _epoch_flops(self):
        store = self.train_batches.store
        lengths = (sequences.lengths + 1 for sequences in (store.source, store.target))
        vocabulary_size = self.model.hyperparameters["vocabulary_size"]
        return training_flops(self.hyperparameters, vocabulary_size, *lengths)

    def _learning_rate(self):
        options, hidden_dim = self.options, self.hyperparameters["hidden_dim"]
        if options.peak_learning_rate is None:
            return NoamSchedule(hidden_dim, options.warmup_steps)
        return NoamSchedule.from_peak(options.peak_learning_rate, hidden_dim, options.warmup_steps)


def _tensorboard(folder):
    """TensorBoard's log is written by TensorFlow, which the other backends do without."""
    if importlib.util.find_spec("tensorflow") is None:
        print("No TensorBoard log: tensorflow is not installed.")
        return []
    return [keras.callbacks.TensorBoard(folder / "tensorboard")]
