"""Quantization of a whole model: weights as integers of 8 bits, a fourth of the size.

The policy of a quantized model is Keras's `"int8_from_float32"`, and a `DTypePolicyMap` where only
some of its layers are quantized. A model has `quantizable_layers()`, a list of its `Dense` and
`ReversibleEmbedding` layers.
"""

import contextlib
import warnings

import keras

from keras_transformer.errors import UserError
from keras_transformer.memory import collect_new_objects_only

_MODE = "int8"


def check_quantizable(model, mode, config):
    """Check the arguments of `Transformer.quantize`, and that the model can be quantized.

    Raises:
        UserError: see `Transformer.quantize`.
    """
    if mode != _MODE or not _is_default(config):
        raise UserError(
            f"A model can be quantised to {_MODE!r}, with the default `config`, for a saved "
            f"model would not hold another. Received: mode={mode!r}, config={config!r}"
        )
    if is_quantized(model):
        raise UserError("The model is quantised already.")
    if any(layer.lora_enabled for layer in model.quantizable_layers()):
        raise UserError("The model has LoRA. Save it, and quantise what was saved.")


@contextlib.contextmanager
def quiet_quantization():
    """Within the block, Keras quantizes without warnings of layers that it leaves as they are."""
    with warnings.catch_warnings(), collect_new_objects_only():
        # Keras warns of norms and dropout, in which there is nothing to quantize.
        warnings.filterwarnings("ignore", "Layer .* does not have a `quantize` method")
        yield


def is_quantized(model):
    """Return whether any layer of a model is quantized."""
    return any(layer.quantization_mode for layer in model.quantizable_layers())


def policy_of(model):
    """Return the dtype policy that a model like this one is made with."""
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


def as_policy_map(dtype):
    """Return the policy before quantization as `default_policy`, and quantized layers by path."""
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


def with_default_policy(dtype, default):
    """Return a policy that quantizes the same layers, and computes in another dtype."""
    return keras.dtype_policies.DTypePolicyMap(default, dict(as_policy_map(dtype)))


def quantize_by_policy(model, policy):
    """Quantize the layers that a `DTypePolicyMap` names.

    Raises:
        UserError: if it gives a layer another policy.
    """
    for path, layer_policy in policy.items():
        if layer_policy.quantization_mode != _MODE:
            raise UserError(
                f"In a map of dtype policies, those of layers must be of {_MODE!r}: all layers "
                f"compute in its default policy. Received: {path!r} with {layer_policy.name!r}"
            )
    if len(policy):
        # Layers without weights have no path.
        model.quantize(_MODE, filters=lambda x: x.path and policy[x.path].quantization_mode)


def _is_default(config):
    # Keras puts the default where there is none. Its own comparison would import TensorFlow.
    return config is None or _parts(config) == _parts(keras.quantizers.Int8QuantizationConfig())


def _parts(config):
    quantizers = config.weight_quantizer, config.activation_quantizer
    return [type(config), *((type(x), x and x.get_config()) for x in quantizers)]
