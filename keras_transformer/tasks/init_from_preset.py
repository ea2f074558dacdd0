"""Begin a training with what a preset holds: tokenizer, architecture and weights (`init`)."""

import dataclasses
import functools
from pathlib import Path

from keras_transformer.errors import UserError
from keras_transformer.models.quantization import is_quantized
from keras_transformer.models.transformer import Transformer
from keras_transformer.options import fixed_settings
from keras_transformer.presets.location import locate
from keras_transformer.presets.storage import (
    check_vocabularies,
    load_preset_weights,
    new_model,
    read_preset,
)

# Options whose place the preset takes.
_DECIDED = (
    *("variant", "scale", "num_layers", "num_decoder_layers", "vocabulary_size"),
    *("source_vocabulary_size", "vocabulary_sentences", "vocabulary_type", "normalization"),
    *("character_coverage", "byte_fallback"),
)


def check_init(options):
    """Raise a `UserError` if options are given that the preset of `init` decides.

    Args:
        options: `TrainingOptions`.
    """
    initial_preset.cache_clear()  # the folder may have another preset since an earlier training
    init = options.run.init
    if init is None:
        return
    defaults = _defaults(options)
    given = {
        name: value
        for name, value in fixed_settings(options).items()
        if name in _DECIDED and value != defaults[name]
    }
    if given:
        raise UserError(
            f"The preset that `init` names decides {', '.join(f'`{name}`' for name in given)}: "
            f"leave out what is given: {', '.join(f'{x}={y}' for x, y in given.items())}"
        )
    initial_preset(init)


@functools.lru_cache(1)
def initial_preset(init):
    """What a preset to begin with holds beside its weights, and its path.

    Args:
        init: a preset folder, or a name as of `preset_location.locate`.

    Returns:
        The tuple `(contents, path)` of its `PresetConfig` and a `Path`.

    Raises:
        UserError: if there is no such preset, it is damaged, or no training can begin with it.
    """
    path = Path(locate(init))
    contents = read_preset(path)
    if contents.tokenizer is None:
        raise UserError(f"A training cannot begin with a preset of no tokenizer. Received: {path}")
    check_vocabularies(contents)
    return contents, path


def make_initial_model(
    init, vocabulary_size, options, processes, model_class=Transformer, **expected
):
    """The model of a preset, with its weights.

    Args:
        init: as for `initial_preset`.
        vocabulary_size: what it must be.
        options: `ModelOptions`, of which dropout and precision count.
        processes: the `Processes` that train together.
        model_class: `Transformer`, or a class derived from it.
        **expected: further arguments of `Transformer`, as they must be.

    Returns:
        A `Transformer`.

    Raises:
        UserError: if the preset's model is another.
    """
    contents, path = initial_preset(init)
    changed = dataclasses.replace(contents, hyperparameters=initial_hyperparameters(init, options))
    found = new_model(model_class, changed, options.precision)
    if is_quantized(found):
        raise UserError(f"A training cannot begin with a quantised model. Received: {path}")
    others = dict.fromkeys(
        ("source_vocabulary_size", "word_start_ids", "leaf_ids", "untagged_leaf_id")
    )
    for name, value in {"vocabulary_size": vocabulary_size, **others, **expected}.items():
        if found.hyperparameters.get(name) != value:
            raise UserError(
                f"The model of {path} has another `{name}` than these options and texts make. A "
                "parser goes on with the `linearization`, `tags`, `tag_loss_weight` and "
                "`deterministic_attention` that it has."
            )
    load_preset_weights(found, path, processes)
    return found


def initial_hyperparameters(init, options):
    """The arguments of `Transformer` that a preset has, with the dropout of `ModelOptions`."""
    hyperparameters = dict(initial_preset(init)[0].hyperparameters)
    if options.dropout is not None:
        hyperparameters["dropout"] = options.dropout
    return hyperparameters


def initial_symbols(init, symbols, linearization):
    """The symbols of a preset's trees, which must have those of the new ones.

    Args:
        init: as for `initial_preset`.
        symbols: list of the symbols of the trees to train on.
        linearization: their `Linearization`.

    Returns:
        A list of symbols.

    Raises:
        UserError: if the preset is of other trees.
    """
    contents, path = initial_preset(init)
    known = contents.metadata.get("symbols")
    if known is None:
        raise UserError(f"{path} does not hold a parser: it has no symbols of trees.")
    saved = contents.metadata.get("linearization", linearization.serialize())
    if saved != linearization.serialize():
        raise UserError(
            f"The parser of {path} was trained on trees as {saved}. Pass the `linearization` and "
            f"`keep_tags` that they have. Received: {linearization.serialize()}"
        )
    missing = sorted({*symbols} - {*known})
    if missing:
        raise UserError(
            f"The trees have symbols that the parser of {path} does not know: "
            f"{', '.join(missing[:10])}{', ...' if missing[10:] else ''}. Train without `init`."
        )
    return known


def _defaults(options):
    """The defaults of all options, by name."""
    defaults = {}
    for field in dataclasses.fields(options):
        if dataclasses.is_dataclass(field.type):
            defaults |= _defaults(getattr(options, field.name))
        else:
            defaults[field.name] = field.default
    return defaults
