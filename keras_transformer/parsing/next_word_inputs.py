"""The vector of the next word as a further input of the decoder, during a search."""

from keras import ops


class NextWordInputs:
    """The `StepInputs` of a model with deterministic attention.

    The constant data are the vectors of each sentence's words. The data of a hypothesis is the
    index of its next word: int32 `(batch, beam)`.

    Args:
        layer: a `DeterministicAttention`.
    """

    def __init__(self, layer):
        self.layer = layer

    def of_source(self, encoder_sequence, encoder_token_ids):
        return self.layer.word_vectors(encoder_sequence, encoder_token_ids)

    def first(self, batch, beam):
        return ops.zeros((batch, beam), "int32")

    def arguments(self, source, state):
        return {"word_vectors": source, "next_words": state}

    def advance(self, state, parents, tokens):
        is_leaf = ops.cast(self.layer.is_leaf(tokens), "int32")
        return ops.take_along_axis(state, parents, axis=1) + is_leaf
