import keras


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
