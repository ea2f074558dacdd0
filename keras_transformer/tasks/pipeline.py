"""What the trainings of all tasks share: their options, and the stages that need nothing else.

The stages are those of `keras_transformer.data` and `keras_transformer.training`, called in the
order of the paper's section 5.
"""

import logging
from dataclasses import dataclass, field
from typing import NamedTuple

from keras_transformer.compilation_cache import keep_in_user_folder
from keras_transformer.data.batching import BatchingOptions, TokenBatches, plan_batches
from keras_transformer.data.staged_batches import StagedBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.data.tokenizer import Tokenizer, VocabularyOptions
from keras_transformer.data.tokenizer import make_tokenizer as write_tokenizer
from keras_transformer.errors import UserError
from keras_transformer.files import check_replaceable
from keras_transformer.models.transformer import Transformer
from keras_transformer.models.variants import ModelOptions, get_hyperparameters
from keras_transformer.options import check_options, fixed_settings
from keras_transformer.presets.format import PARTS as PRESET_PARTS
from keras_transformer.tasks.init_from_preset import (
    check_init,
    initial_hyperparameters,
    initial_preset,
    make_initial_model,
)
from keras_transformer.training.context import RunOptions, begin_run
from keras_transformer.training.distribution import DeviceOptions
from keras_transformer.training.early_stopping import check_choice_of_checkpoints
from keras_transformer.training.optimizer import OptimizerOptions, make_optimizer, make_schedule
from keras_transformer.training.results import model_card, training_facts, write_results
from keras_transformer.training.rolling_checkpoints import CheckpointOptions
from keras_transformer.training.trainer import FitOptions, compile_model

logger = logging.getLogger(__name__)

_MODEL = "model"  # the preset, in the output folder


@dataclass(kw_only=True)
class TrainingOptions:
    """Options of every training: those of its stages.

    Attributes:
        run: `RunOptions`: where it writes, and whether it goes on.
        vocabulary: `kt.data.VocabularyOptions`.
        batching: `kt.data.BatchingOptions`.
        model: `ModelOptions`.
        optimizer: `OptimizerOptions`.
        fitting: `FitOptions`: how long, and how often it validates.
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

    # The names of what is computed at each interval besides loss, accuracy and perplexity, or None
    # if it is not known before `fit`.
    scores = None

    def check(self):
        """Check the options.

        Raises:
            UserError: if options of two stages do not go together.
        """
        make_schedule(self.optimizer, 1, self.fitting.steps)
        uses_ema = self.optimizer.ema is not None
        check_choice_of_checkpoints(self.checkpoints, self.scores, uses_ema)


class Batches(NamedTuple):
    """The planned batches of both texts."""

    train: TokenBatches | StagedBatches
    val: TokenBatches


def begin_training(options):
    """Begin or resume the training that `TrainingOptions` describe: see `begin_run`.

    Args:
        options: `TrainingOptions`, or a class derived from them.

    Returns:
        A `Run`.

    Raises:
        UserError: if an option is out of its range, there are no such devices, or the folder holds
            another training, or a `model` that is more than a preset.
    """
    keep_in_user_folder()
    check_options(options)
    check_init(options)
    settings = fixed_settings(options)
    run = begin_run(options.run, options.devices, options.fitting.steps, settings)
    _check_model_folder(run.folder / _MODEL, options.run)
    return run


def _check_model_folder(path, options):
    """Before the training, and not when it is to be saved."""
    check_replaceable(path, PRESET_PARTS)
    if path.exists() and not (options.resume or options.overwrite):
        raise UserError(
            f"{path} is the model of an earlier training. Pass `overwrite=True` to replace it, or "
            "another `output_dir`."
        )


def make_tokenizer(
    sentences, options, run, user_defined_symbols=(), name="tokenizer.spm", targets=()
):
    """Train the vocabulary of a training (section 5.1), or read a resumed training's, or that of
    the preset that the training begins with.

    Of several processes, process 0 does, and gives it to the others.

    Args:
        sentences: iterable of strings, source and target together for a shared vocabulary.
        options: `VocabularyOptions`.
        run: the `Run`.
        user_defined_symbols: strings that are always one token.
        name: the file in the run's folder.
        targets: iterable of those sentences that the model is to write.

    Returns:
        A `Tokenizer`.

    Raises:
        UserError: as `kt.data.make_tokenizer`; if the preset's vocabulary lacks one of the symbols.
    """

    def proto():
        if init := run.settings["init"]:
            tokenizer = initial_preset(init)[0].tokenizer
            tokenizer.ids_of(list(user_defined_symbols))  # raises an error if it lacks one
        else:
            tokenizer = write_tokenizer(
                sentences,
                options,
                run.folder / name,
                keep=run.is_resumed,
                user_defined_symbols=user_defined_symbols,
                targets=targets,
            )
        return tokenizer.proto.decode("latin-1")  # as text: byte for byte

    return Tokenizer(run.processes.first(proto).encode("latin-1"))


def make_batches(
    train,
    val,
    tokenizer,
    options,
    run,
    target_tokenizer=None,
    first=None,
    max_tokens=None,
    source_end=True,
):
    """Tokenise the texts once, and plan the batches of both (section 5.1).

    Args:
        train: pairs of strings to train on, such as a `ParallelText`.
        val: pairs to validate on.
        tokenizer: the `Tokenizer`.
        options: `TrainingOptions`.
        run: the `Run`.
        target_tokenizer: what encodes the targets. Defaults to `tokenizer`.
        first: tuple of pairs and a number of updates: what to train on so long at first, before
            `train`. None: on `train` from the beginning.
        max_tokens: leave out pairs of which a sentence has more tokens. None: none.
        source_end: whether sources end with the end token.

    Returns:
        `Batches`.

    Raises:
        UserError: if the longest pair does not fit into a batch.
    """
    texts = {"train": train, "val": val}
    if first:
        texts["first"], updates = first
    tokenizers = tokenizer, target_tokenizer or tokenizer
    sampling = options.batching.subword_sampling
    samplers = _samplers(*tokenizers, sampling) if sampling else None
    stores = dict(zip(texts, _tokenise(texts, (*tokenizers, max_tokens), run)))
    return Batches(
        *plan_batches(
            stores["train"],
            stores["val"],
            options.batching,
            accumulate=options.optimizer.accumulate,
            seed=run.seed,
            num_replicas=run.devices.num_replicas,
            shard=run.devices.shard,
            few_shapes_first=run.settings["few_shapes_first"],
            first=(stores["first"], updates) if first else None,
            samplers=samplers,
            source_end=source_end,
        )
    )


def _samplers(source, target, strength):
    """What segments both sides in other ways; one piece, if they share a vocabulary."""
    sampler = source.sampler(strength)
    return sampler, sampler if target is source else target.sampler(strength)


def _tokenise(texts, how, run):
    """The `TokenStore` of each text: those of process 0, or a process's own if it sees none.

    Args:
        texts: dict of the texts by their names.
        how: tuple of the tokenizers and the limit that a `TokenStore` takes.
        run: the `Run`.
    """
    processes, shared = run.processes, run.folder / "tokens"
    own = run.folder / f"process-{processes.index}" / "tokens"

    def build(folder):
        return [TokenStore.build_once(folder / x, texts[x], *how) for x in texts]

    def find_or_build():
        found = [TokenStore.find(shared / x, texts[x], *how) for x in texts]
        return build(own) if None in found else found

    stores = processes.each(lambda: build(shared) if processes.is_writer else None)
    stores = processes.each(lambda: stores or find_or_build())
    for name, store in zip(texts, stores):
        _tell_left_out(name, store, how[-1])
    return stores


def _tell_left_out(name, store, max_tokens):
    if not store.num_left_out:
        return
    told = f"{name}: {store.num_left_out:,} pairs have a sentence of more than {max_tokens} tokens"
    if not len(store):
        raise UserError(f"{told}, and no other is left. Pass a larger `max_tokens`.")
    logger.info("%s and are left out; %s are kept.", told, f"{len(store):,}")


def make_model(vocabulary_size, options, run, model_class=Transformer, **overrides):
    """The model (section 3) with its optimizer (5.3) and regularisation (5.4), where it stands.

    Args:
        vocabulary_size: size of the vocabulary.
        options: `TrainingOptions`.
        run: the `Run`.
        model_class: `Transformer`, or a class derived from it.
        **overrides: arguments of `model_class` that replace those of the options.

    Returns:
        A compiled `Transformer`.

    Raises:
        UserError: if an option is out of its range, or the training that goes on had another model.
    """
    hyperparameters = _hyperparameters(options)
    with run.devices.scope():
        if init := options.run.init:
            model = make_initial_model(
                init, vocabulary_size, options.model, run.processes, model_class, **overrides
            )
        else:
            model = model_class.from_options(options.model, vocabulary_size, **overrides)
        optimizer = make_optimizer(
            options.optimizer,
            hyperparameters["hidden_dim"],
            options.fitting.steps,
            loss_scaling=model.dtype_policy.compute_dtype == "float16",
        )
    at_once = options.fitting.steps_per_execution
    compile_model(model, optimizer, hyperparameters["label_smoothing"], run, at_once)
    return model


def _hyperparameters(options):
    """Those of the model and its training."""
    chosen = get_hyperparameters(options.model)
    if options.run.init is None:
        return chosen
    of_preset = initial_hyperparameters(options.run.init, options.model)
    return {**chosen, **{name: of_preset[name] for name in chosen.keys() & of_preset.keys()}}


def save_training(task, facts, title, lines, options, run, batches, fitted):
    """Write the results, and the preset in `model` with its model card: in process 0.

    Args:
        task: a `Translator` or another task with the trained model.
        facts: dict of JSON values for `results.json`, `"command"` for the card among them if there
            was one.
        title: title of the model card.
        lines: further lines of the card, such as scores.
        options: `TrainingOptions`.
        run: the `Run`.
        batches: `Batches`.
        fitted: what `fit` returned.
    """
    hyperparameters = _hyperparameters(options)
    facts = {
        **facts,
        **training_facts(task.model, batches.train, run, fitted, hyperparameters),
        "interval": options.fitting.interval,
    }

    def write():
        write_results(facts, fitted.history, run.folder)
        task.save_to_preset(run.folder / _MODEL, card=model_card(title, facts, lines))
        logger.info("The model is in %s.", run.folder / _MODEL)

    run.processes.first(write)
    if run.lock is not None:
        run.lock.release()  # The `Run` may live on, in a notebook.
