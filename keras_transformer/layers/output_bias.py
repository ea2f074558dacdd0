import keras


class OutputBias(keras.layers.Layer):
    """Add a bias to logits. The paper's projection to logits has none (section 3.4).

    Args:
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `(batch, length, vocabulary_size)`.

    Returns:
        Float tensor `(batch, length, vocabulary_size)`.
    """

    def build(self, logits_shape):
        self.bias = self.add_weight(shape=logits_shape[-1:], initializer="zeros", name="bias")

    def call(self, logits):
        return logits + self.bias
