import keras
import keras_hub

from keras_transformer.models.transformer import Transformer


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerBackbone(Transformer, keras_hub.models.Backbone):
    """A `kt.Transformer` that is a `keras_hub.models.Backbone` too.

    It has the arguments, the weights and the methods of the one, `encode` and `decode` among them,
    and `from_preset` and `save_to_preset` of the other. Its outputs are logits.

    Args:
        **hyperparameters: the arguments of `kt.Transformer`.

    Raises:
        UserError: as `kt.Transformer`.
    """

    # The preset's class may be another one: KerasHub looks.
    from_preset = classmethod(keras_hub.models.Backbone.from_preset.__func__)
