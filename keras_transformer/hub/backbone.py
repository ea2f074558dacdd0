import keras
import keras_hub

from keras_transformer.models.quantization import (
    as_policy_map,
    is_quantized,
    policy_of,
    with_default_policy,
)
from keras_transformer.models.transformer import Transformer
from keras_transformer.parsing.parser_transformer import ParserTransformer
from keras_transformer.presets.format import QUANTIZATION


class _Backbone:
    """The common part of the backbones, before the class of the model."""

    logits_dtype = None

    def __init__(self, *, dtype=None, quantization=None, **hyperparameters):
        if quantization is not None:
            dtype = with_default_policy(quantization, as_policy_map(dtype).default_policy)
        super().__init__(**hyperparameters, dtype=dtype)

    def get_config(self):
        config = super().get_config()
        if is_quantized(self):
            config[QUANTIZATION] = keras.dtype_policies.serialize(policy_of(self))
        return config


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerBackbone(_Backbone, Transformer, keras_hub.models.Backbone):
    """A `kt.Transformer` that is a `keras_hub.models.Backbone` too.

    It has the arguments, the weights and the methods of the one, `encode` and `decode` among them,
    and `from_preset` and `save_to_preset` of the other. Its outputs are logits, in the dtype that
    its layers compute in, as KerasHub expects of a backbone.

    Args:
        dtype: as of `kt.Transformer`.
        quantization: dtype policy that says which layers are quantized, whatever their `dtype`.
            KerasHub loads backbones with a `dtype` of its own, and not the saved one.
        **hyperparameters: the other arguments of `kt.Transformer`.

    Raises:
        UserError: as `kt.Transformer`.
    """

    # The preset's class may be another one: KerasHub looks.
    from_preset = classmethod(keras_hub.models.Backbone.from_preset.__func__)


@keras.saving.register_keras_serializable(package="keras_transformer")
class ParserTransformerBackbone(_Backbone, ParserTransformer, keras_hub.models.Backbone):
    """A `kt.parsing.ParserTransformer` that is a `keras_hub.models.Backbone` too.

    Args:
        dtype: as for `TransformerBackbone`.
        quantization: as for `TransformerBackbone`.
        **hyperparameters: the other arguments of `kt.parsing.ParserTransformer`.

    Raises:
        UserError: as `kt.parsing.ParserTransformer`.
    """

    from_preset = classmethod(keras_hub.models.Backbone.from_preset.__func__)
