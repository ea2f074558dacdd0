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
    """Mixin of the backbones, which precedes the class of the model.

    It is not derived from `Transformer`, because Keras changes the bases of functional models and
    fails if it meets a class twice.
    """

    logits_dtype = None

    def __init__(self, *, dtype=None, quantization=None, **hyperparameters):
        if quantization is not None:
            dtype = with_default_policy(quantization, as_policy_map(dtype).default_policy)
        super().__init__(**hyperparameters, dtype=dtype)  # pyright: ignore[reportCallIssue] mixin

    def get_config(self):
        config = super().get_config()  # pyright: ignore[reportAttributeAccessIssue] mixin
        if is_quantized(self):
            config[QUANTIZATION] = keras.dtype_policies.serialize(policy_of(self))
        return config


_from_preset = keras_hub.models.Backbone.from_preset.__func__


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerBackbone(_Backbone, Transformer, keras_hub.models.Backbone):
    """A `kt.Transformer` that is also a `keras_hub.models.Backbone`.

    It has the arguments, weights and methods of `kt.Transformer`, including `encode` and `decode`,
    and `from_preset` and `save_to_preset` of KerasHub's class. It returns logits in the dtype that
    its layers compute in, as KerasHub expects of a backbone.

    Args:
        dtype: as for `kt.Transformer`.
        quantization: dtype policy of the quantized layers, which takes precedence over `dtype`.
            KerasHub loads backbones with its own `dtype` instead of the saved one.
        **hyperparameters: the other arguments of `kt.Transformer`.

    Raises:
        UserError: as `kt.Transformer`.
    """

    # The preset's class may be another one: KerasHub looks.
    from_preset = classmethod(_from_preset)  # pyright: ignore[reportAssignmentType] more arguments


@keras.saving.register_keras_serializable(package="keras_transformer")
class ParserTransformerBackbone(_Backbone, ParserTransformer, keras_hub.models.Backbone):
    """A `kt.parsing.ParserTransformer` that is also a `keras_hub.models.Backbone`.

    Args:
        dtype: as for `TransformerBackbone`.
        quantization: as for `TransformerBackbone`.
        **hyperparameters: the other arguments of `kt.parsing.ParserTransformer`.

    Raises:
        UserError: as `kt.parsing.ParserTransformer`.
    """

    from_preset = classmethod(_from_preset)  # pyright: ignore[reportAssignmentType] more arguments
