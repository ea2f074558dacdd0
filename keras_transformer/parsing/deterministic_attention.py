import keras
import numpy as np
from keras import ops

from keras_transformer.errors import UserError
from keras_transformer.layers.tensor_ops import is_one_of


@keras.saving.register_keras_serializable(package="keras_transformer")
class DeterministicAttention(keras.layers.Layer):
    """Look at the word that comes next, whose place is counted and not learned.

    Where each output token of a kind, a leaf, stands for one word of the source, in order, the next
    word is the one whose index is the number of leaves so far (Ma et al., 2017; Liu, Zhu and Shi,
    2018). Its vector, for the decoder to add to its input, is the mean of the encoder's outputs
    over its tokens. There are no weights.

    ```
    n_j = number of leaves among y_1 ... y_j
    c_j = mean of h_i over the tokens i of word n_j
    ```

    The end token of the source counts as one more word: it comes next when all words have their
    leaves. After that, c_j is 0.

    Args:
        word_start_ids: ids of the source tokens that begin a word, without the end token's. A token
            before the first of them belongs to no word.
        leaf_ids: ids of the target tokens that stand for a word.
        end_id: id of the source's end token.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        encoder_sequence: float tensor `(batch, source, hidden_dim)`: h, the encoder's output.
        encoder_token_ids: int tensor `(batch, source)`, padded with 0.
        decoder_token_ids: int tensor `(batch, target)`: y, the target shifted right.

    Returns:
        Float tensor `(batch, target, hidden_dim)`: c.

    Raises:
        UserError: if there are no ids of one kind, or one is no id.
    """

    def __init__(self, word_start_ids, leaf_ids, end_id=2, **kwargs):
        super().__init__(**kwargs)
        self.word_start_ids = _checked("word_start_ids", word_start_ids)
        self.leaf_ids = _checked("leaf_ids", leaf_ids)
        self.end_id = end_id

    def call(self, encoder_sequence, encoder_token_ids, decoder_token_ids):
        words = self.word_vectors(encoder_sequence, encoder_token_ids)
        return self.vectors_at(words, self.next_words(decoder_token_ids))

    def word_vectors(self, encoder_sequence, encoder_token_ids):
        """The vectors of all words, the end token's after the last, then zeros.

        Args:
            encoder_sequence: float tensor `(batch, source, hidden_dim)`.
            encoder_token_ids: int tensor `(batch, source)`.

        Returns:
            Float tensor `(batch, source, hidden_dim)`: there are no more words than tokens.
        """
        starts = is_one_of(encoder_token_ids, [*self.word_start_ids, self.end_id])
        starts = ops.cast(starts, "int32")
        word_of_token = ops.where(encoder_token_ids > 0, ops.cumsum(starts, axis=1) - 1, -1)
        weights = ops.one_hot(word_of_token, ops.shape(word_of_token)[1], dtype=self.compute_dtype)
        sums = ops.matmul(ops.swapaxes(weights, 1, 2), encoder_sequence)
        return sums / ops.maximum(ops.sum(weights, axis=1), 1)[..., None]

    def next_words(self, decoder_token_ids):
        """The index of the word that comes next after each token: int32 `(batch, target)`.

        Args:
            decoder_token_ids: int tensor `(batch, target)`.
        """
        return ops.cumsum(ops.cast(self.is_leaf(decoder_token_ids), "int32"), axis=1)

    def is_leaf(self, token_ids):
        """Whether target tokens stand for a word: a bool tensor of their shape.

        Args:
            token_ids: int tensor of any shape.
        """
        return is_one_of(token_ids, self.leaf_ids)

    def vectors_at(self, word_vectors, next_words):
        """The vectors of some words.

        Args:
            word_vectors: float tensor `(batch, source, hidden_dim)`, what `word_vectors` returns.
            next_words: int tensor `(batch, target)`.

        Returns:
            Float tensor `(batch, target, hidden_dim)`: zeros for a word that there is not, as where
            an unconstrained search has put more leaves than there are words.
        """
        # A product: the gradient of a gather is slow on CPUs. (PyTorch's `one_hot` refuses what is
        # beyond the last word.)
        words = ops.arange(ops.shape(word_vectors)[1], dtype="int32")
        is_word = ops.equal(ops.expand_dims(next_words, -1), words)
        return ops.matmul(ops.cast(is_word, self.compute_dtype), word_vectors)

    def compute_mask(self, inputs, previous_mask):
        return None  # The mask has the positions of the source, the outputs those of the target.

    def compute_output_shape(
        self, encoder_sequence_shape, encoder_token_ids_shape, decoder_token_ids_shape
    ):
        return (*decoder_token_ids_shape, encoder_sequence_shape[-1])

    def get_config(self):
        return {
            **super().get_config(),
            "word_start_ids": self.word_start_ids,
            "leaf_ids": self.leaf_ids,
            "end_id": self.end_id,
        }


def _checked(name, token_ids):
    token_ids = np.asarray(token_ids).ravel()
    if not len(token_ids) or token_ids.dtype.kind not in "iu" or token_ids.min() < 0:
        raise UserError(f"`{name}` must be ids of tokens, one at least. Received: {token_ids}")
    return sorted(set(token_ids.tolist()))


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
