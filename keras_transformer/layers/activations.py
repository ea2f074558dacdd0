import keras

from keras_transformer.errors import UserError


def get_activation(activation):
    """The function of a name, a configuration or a function.

    Raises:
        UserError: if there is none.
    """
    try:
        return keras.activations.get(activation)
    except (TypeError, ValueError) as error:
        raise UserError(
            "`activation` must be a function, or the name of one of Keras's activations. "
            f"Received: activation={activation!r}"
        ) from error


def serialize_activation(activation):
    """The name of one of Keras's activations, or the configuration of another function.

    It is what `keras.activations.serialize` gives, which imports TensorFlow wherever that is
    installed, under any backend: seconds, for a name.

    Args:
        activation: what `keras.activations.get` gives.
    """
    name = getattr(activation, "__name__", "")
    if getattr(keras.activations, name, None) is activation:
        return name
    return keras.activations.serialize(activation)
