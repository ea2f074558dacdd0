"""Quantization of a whole model to 8-bit integers, a fourth of the size.

The policy of a quantized model is Keras's `"int8_from_float32"`, or a `DTypePolicyMap` if only some
of its layers are quantized.
"""

import contextlib
import gc
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import keras

from keras_transformer.annotations import DType
from keras_transformer.errors import UserError

logger = logging.getLogger(__name__)

_MODE = "int8"


def is_quantized(model: Any) -> bool:
    """Return whether any layer of a model is quantized."""
    return any(layer.quantization_mode for layer in model.quantizable_layers())


def get_dtype_policy(model: Any) -> keras.DTypePolicy | keras.dtype_policies.DTypePolicyMap:
    """Return the dtype policy that makes a model with the same quantized layers."""
    layers = model.quantizable_layers()
    for layer in layers:
        if layer.quantization_mode not in (None, _MODE):
            raise UserError(
                f"Cannot save a model with layers that are quantized to "
                f"{layer.quantization_mode!r}. Expected {_MODE!r}."
            )
    paths = [layer.path for layer in layers if layer.quantization_mode]
    if not paths:
        return model.dtype_policy
    policy = keras.dtype_policies.get(f"{_MODE}_from_{model.dtype_policy.name}")
    if len(paths) == len(layers):
        return policy
    return keras.dtype_policies.DTypePolicyMap(
        model.dtype_policy.name, {path: policy for path in paths}
    )


def as_policy_map(dtype: DType) -> keras.dtype_policies.DTypePolicyMap:
    """Return a map of quantized layers, with the policy before quantization as its default."""
    policy = keras.dtype_policies.get(dtype)
    if isinstance(policy, keras.dtype_policies.DTypePolicyMap):
        default, policies = policy.default_policy, policy
    elif policy.quantization_mode is None:
        default, policies = policy, {}
    else:
        default, policies = policy.get_config()["source_name"], {".*": policy}
    policy_map = keras.dtype_policies.DTypePolicyMap(default)
    for path, layer_policy in policies.items():
        policy_map[path] = layer_policy  # as an object, if it is a name
    return policy_map


def with_default_policy(
    dtype: DType, default: keras.DTypePolicy
) -> keras.dtype_policies.DTypePolicyMap:
    """Return a policy that quantizes the same layers, with another dtype of the computation."""
    return keras.dtype_policies.DTypePolicyMap(default, dict(as_policy_map(dtype)))


def quantize_by_policy(model: Any, policy: keras.dtype_policies.DTypePolicyMap) -> None:
    """Quantize the layers that a `DTypePolicyMap` names.

    Raises:
        UserError: if a layer has an unsupported policy.
    """
    for path, layer_policy in policy.items():
        if layer_policy.quantization_mode != _MODE:
            raise UserError(
                f"The layers' policies in a map of dtype policies must be of {_MODE!r}; all layers "
                "compute in the default policy. "
                f"Received: {path!r} with {layer_policy.name!r}"
            )
    if len(policy):
        # Layers without weights have no path.
        model.quantize(_MODE, filters=lambda x: x.path and policy[x.path].quantization_mode)


def validate_quantizable(model: Any, mode: str | None, config: Any) -> None:
    """Raise a `UserError` unless `Transformer.quantize` can quantize the model."""
    if mode != _MODE or not _is_default(config):
        raise UserError(
            f"Models can be quantized to {_MODE!r}, with the default `config`, because saved "
            f"models do not contain another. Received: mode={mode!r}, config={config!r}"
        )
    if is_quantized(model):
        raise UserError("Cannot quantize a model that is quantized already.")
    if any(layer.lora_enabled for layer in model.quantizable_layers()):
        raise UserError(
            "Cannot quantize a model with LoRA. Save it, load it, and quantize the loaded model."
        )


def note_slow_products() -> None:
    """Log a notice if integer products are slower than float32's on this backend."""
    if (backend := keras.backend.backend()) != "jax":
        logger.info(
            "An int8 model is smaller, but on a CPU it is not faster with %s, whose integer "
            'products are slower than those of float32. Use JAX, or format="ctranslate2" of '
            "`export`.",
            backend,
        )


@contextlib.contextmanager
def quiet_quantization() -> Iterator[None]:
    """Ignore Keras's warnings about norms and dropout, which have nothing to quantize."""
    with warnings.catch_warnings(), _collect_new_objects_only():
        warnings.filterwarnings("ignore", "Layer .* does not have a `quantize` method")
        yield


def _is_default(config: Any) -> bool:
    # Keras passes the default for None. Its own comparison would import TensorFlow.
    return config is None or _parts(config) == _parts(keras.quantizers.Int8QuantizationConfig())


def _parts(config: Any) -> list[Any]:
    quantizers = config.weight_quantizer, config.activation_quantizer
    return [type(config), *((type(x), x and x.get_config()) for x in quantizers)]


@contextlib.contextmanager
def _collect_new_objects_only() -> Iterator[None]:
    """Within the block, let the garbage collector examine only objects that are made in it.

    Keras calls `gc.collect()` for each layer that it quantizes. A process that has imported a
    backend has hundreds of thousands of objects, and each call would examine all of them.
    """
    if gc.get_freeze_count():
        yield  # The process has frozen objects itself, and `unfreeze` would undo that.
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
