"""Begin a training with the tokenizer, the architecture and the weights of a preset (`init`)."""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
from keras import ops

from keras_transformer.convert.foreign_transformer import ForeignTransformer
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.decoding.search import Search
from keras_transformer.errors import UserError
from keras_transformer.models.quantization import is_quantized
from keras_transformer.models.transformer import Transformer
from keras_transformer.models.variants import ModelOptions
from keras_transformer.presets.format import PresetConfig
from keras_transformer.presets.storage import new_model, read_preset, validate_vocabularies
from keras_transformer.training.processes import Processes
from keras_transformer.weights.shards import load_folder_weights

# Options of the model that the preset does not decide.
_FREE = ("dropout", "label_smoothing", "precision", "zero_start")


def validate_init(options: Any) -> None:
    """Validate that no option is given that the preset of `init` decides.

    Args:
        options: `TrainingOptions`.

    Raises:
        UserError: if such an option is given, or as `initial_preprocessor`.
    """
    initial_preset.cache_clear()  # the folder may have another preset since an earlier training
    init = options.run.init
    if init is None:
        return
    given = {
        field.name: value
        for stage in (options.model, options.vocabulary)
        for field in dataclasses.fields(stage)
        if field.name not in _FREE and (value := getattr(stage, field.name)) != field.default
    }
    if given:
        raise UserError(
            f"{', '.join(f'`{name}`' for name in given)} must be left out with `init`, because the "
            f"preset decides them. Received: {', '.join(f'{x}={y}' for x, y in given.items())}"
        )
    initial_preprocessor(init)


@functools.lru_cache(1)
def initial_preset(init: str | Path) -> tuple[PresetConfig, Path]:
    """Return the contents of the preset that a training begins with, without the weights.

    Args:
        init: a preset folder, or another name that `Translator.from_preset` accepts.

    Returns:
        The tuple `(contents, path)` of its `PresetConfig` and a `Path`.

    Raises:
        UserError: if the preset does not exist or is damaged.
    """
    from keras_transformer.convert.conversion_cache import as_preset

    path = as_preset(init)
    contents = read_preset(path)
    validate_vocabularies(contents)
    return contents, path


def initial_preprocessor(init: str | Path) -> TranslationPreprocessor:
    """Return the preprocessor of the preset that a training begins with.

    Args:
        init: as for `initial_preset`.

    Raises:
        UserError: if the preset has no tokenizer; as `initial_preset`.
    """
    contents, path = initial_preset(init)
    if contents.preprocessor is None:
        raise UserError(
            "A training must begin with a preset that has a tokenizer. "
            f"Received: init={str(path)!r}, without one."
        )
    return contents.preprocessor


def initial_search(init: str | Path | None) -> Search | None:
    """Return the search of the preset that a training begins with, or None if there is none."""
    if init is None:
        return None
    return initial_preset(init)[0].make_search()


def make_initial_model(
    init: str | Path,
    vocabulary_size: int,
    options: ModelOptions,
    processes: Processes,
    model_class: type[Transformer] = Transformer,
    **expected: Any,
) -> Transformer:
    """Return the model of a preset, with its weights.

    Args:
        init: as for `initial_preset`.
        vocabulary_size: the expected size of the vocabulary: the preset's, or with the reserved
            symbols after it.
        options: `ModelOptions`. Only precision and the method `fine_tuned` are used.
        processes: the `Processes` that train together.
        model_class: `Transformer`, or a class derived from it.
        **expected: the expected values of further arguments of `model_class`.

    Returns:
        A model of `model_class`.

    Raises:
        UserError: if the preset's model is of another class or has other arguments.
    """
    contents, path = initial_preset(init)
    changed = dataclasses.replace(contents, hyperparameters=initial_hyperparameters(init, options))
    found = new_model(model_class, changed, options.precision)
    if is_quantized(found):
        raise UserError(f"A training cannot begin with a quantized model. Received: {path}")
    may_be_foreign = model_class is Transformer and type(found) is ForeignTransformer
    if type(found) is not model_class and not may_be_foreign:
        raise UserError(
            f"`init` must be a preset of a {model_class.__name__}. "
            f"Received: init={str(path)!r}, of a {type(found).__name__}."
        )
    expected = {"vocabulary_size": vocabulary_size, "source_vocabulary_size": None, **expected}
    # A translator's vocabularies are the preset's own, or these with reserved symbols.
    may_extend = model_class is Transformer and not initial_preprocessor(init).has_symbols
    for name, value in expected.items():
        is_extended = may_extend and name.endswith("vocabulary_size")
        if value != found.hyperparameters.get(name) and not is_extended:
            raise UserError(
                f"The model of {path} has another `{name}` than these options and texts make. A "
                "parser must be trained with the `linearization`, `tags`, `tag_loss_weight` and "
                "`deterministic_attention` of its preset."
            )
    load_initial_weights(found, init, processes)
    is_extended = vocabulary_size != found.hyperparameters["vocabulary_size"]
    return _with_new_tokens(found, expected) if is_extended else found


def load_initial_weights(model: Transformer, init: str | Path, processes: Processes) -> None:
    """Load the weights of a preset into the model that a training with LoRA made of it.

    Args:
        model: the model.
        init: as for `initial_preset`.
        processes: the `Processes` that train together.
    """
    path = initial_preset(init)[1]
    processes.load(model, lambda: load_folder_weights(model, path))


def _with_new_tokens(model: Transformer, sizes: dict[str, Any]) -> Transformer:
    """Return a model of larger vocabularies, whose new rows have random weights."""
    larger = type(model)(**{**model.hyperparameters, **sizes, "dtype": model.dtype_policy})
    for variable, known in zip(larger.weights, model.weights):
        values = np.array(ops.convert_to_numpy(variable))
        values[tuple(map(slice, known.shape))] = ops.convert_to_numpy(known)
        variable.assign(values)
    return larger


def initial_hyperparameters(init: str | Path, options: ModelOptions) -> dict[str, Any]:
    """Return the model's arguments in a preset, changed by `ModelOptions`."""
    return options.fine_tuned(initial_preset(init)[0].hyperparameters)
