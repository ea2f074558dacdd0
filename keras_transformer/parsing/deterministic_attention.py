"""Layers that read the vectors of words: deterministic attention, and the tagger."""

from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Shape, Tensor
from keras_transformer.decoding.search_loop import StepInputs
from keras_transformer.errors import UserError
from keras_transformer.validation import positive_number


@keras.saving.register_keras_serializable(package="keras_transformer")
class DeterministicAttention(keras.layers.Layer):
    """Attend to the next word, whose position is counted and not learned.

    If each output token of a kind, a leaf, stands for one word of the source, in order, the index
    of the next word is the number of leaves so far (Ma et al., 2017; Liu, Zhu and Shi, 2018). The
    vector of this word, which the decoder adds to its input, is the mean of the encoder's outputs
    over the word's tokens. There are no weights.

    ```
    n_j = number of leaves among y_1 ... y_j
    c_j = mean of h_i over the tokens i of word n_j
    ```

    The end token of the source counts as one more word: it comes next when all words have their
    leaves. After that, c_j is 0.

    Args:
        word_start_ids: ids of the source tokens that begin a word, without the end token. Tokens
            before the first of them belong to no word.
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
        UserError: if a list of ids is empty or contains an invalid id.
    """

    def __init__(
        self,
        word_start_ids: Iterable[int],
        leaf_ids: Iterable[int],
        end_id: int = 2,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.word_start_ids = _sorted_ids("word_start_ids", word_start_ids)
        self.leaf_ids = _sorted_ids("leaf_ids", leaf_ids)
        self.end_id = end_id

    def call(
        self, encoder_sequence: Tensor, encoder_token_ids: Tensor, decoder_token_ids: Tensor
    ) -> Tensor:
        words = self.word_vectors(encoder_sequence, encoder_token_ids)
        return self.vectors_at(words, self.next_words(decoder_token_ids))

    def word_vectors(self, encoder_sequence: Tensor, encoder_token_ids: Tensor) -> Tensor:
        """Return the vectors of all words, then the end token's, then zeros.

        Args:
            encoder_sequence: float tensor `(batch, source, hidden_dim)`.
            encoder_token_ids: int tensor `(batch, source)`.

        Returns:
            Float tensor `(batch, source, hidden_dim)`, since there are at most `source` words.
        """
        starts = _is_one_of(encoder_token_ids, [*self.word_start_ids, self.end_id])
        starts = ops.cast(starts, "int32")
        word_of_token = ops.where(encoder_token_ids > 0, ops.cumsum(starts, axis=1) - 1, -1)
        weights = ops.one_hot(word_of_token, ops.shape(word_of_token)[1], dtype=self.compute_dtype)
        sums = ops.matmul(ops.swapaxes(weights, 1, 2), encoder_sequence)
        return sums / ops.maximum(ops.sum(weights, axis=1), 1)[..., None]

    def next_words(self, decoder_token_ids: Tensor) -> Tensor:
        """Return the index of the word that comes next after each token.

        Args:
            decoder_token_ids: int tensor `(batch, target)`.

        Returns:
            Int32 tensor `(batch, target)`.
        """
        return ops.cumsum(ops.cast(self.is_leaf(decoder_token_ids), "int32"), axis=1)

    def is_leaf(self, token_ids: Tensor) -> Tensor:
        """Return whether target tokens stand for a word.

        Args:
            token_ids: int tensor of any shape.

        Returns:
            Bool tensor of the same shape.
        """
        return _is_one_of(token_ids, self.leaf_ids)

    def vectors_at(self, word_vectors: Tensor, next_words: Tensor) -> Tensor:
        """Return the vectors of the words at some indices.

        Args:
            word_vectors: float tensor `(batch, source, hidden_dim)`, the result of `word_vectors`.
            next_words: int tensor `(batch, target)`.

        Returns:
            Float tensor `(batch, target, hidden_dim)`. The vector is zero if there is no such word,
            because an unconstrained search may predict more leaves than there are words.
        """
        # A product, because the gradient of a gather is slow on CPUs. (PyTorch's `one_hot` rejects
        # indices after the last word.)
        words = ops.arange(ops.shape(word_vectors)[1], dtype="int32")
        is_word = ops.equal(ops.expand_dims(next_words, -1), words)
        return ops.matmul(ops.cast(is_word, self.compute_dtype), word_vectors)

    def compute_mask(self, inputs: Any, previous_mask: Any) -> None:
        return None  # The mask has the source's positions, but the outputs have the target's.

    def compute_output_shape(
        self,
        encoder_sequence_shape: Shape,
        encoder_token_ids_shape: Shape,
        decoder_token_ids_shape: Shape,
    ) -> Shape:
        return (*decoder_token_ids_shape, encoder_sequence_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "word_start_ids": self.word_start_ids,
            "leaf_ids": self.leaf_ids,
            "end_id": self.end_id,
        }


def _sorted_ids(name: str, token_ids: Iterable[int]) -> list[int]:
    token_ids = np.asarray(token_ids).ravel()
    if not len(token_ids) or token_ids.dtype.kind not in "iu" or token_ids.min() < 0:
        raise UserError(f"`{name}` must be one or more token ids. Received: {token_ids}")
    return sorted(set(token_ids.tolist()))


class NextWordInputs(StepInputs):
    """The `StepInputs` of a model with deterministic attention.

    The constant data are the vectors of each sentence's words. The data of a hypothesis is the
    index of its next word: int32 `(batch, beam)`.

    Args:
        layer: a `DeterministicAttention`.
    """

    def __init__(self, layer: DeterministicAttention):
        self.layer = layer

    def of_source(self, encoder_sequence: Tensor, encoder_token_ids: Tensor) -> Tensor:
        return self.layer.word_vectors(encoder_sequence, encoder_token_ids)

    def first(self, batch: Tensor, beam: int) -> Tensor:
        return ops.zeros((batch, beam), "int32")

    def arguments(self, source: Tensor, state: Tensor) -> dict[str, Tensor]:
        return {"word_vectors": source, "next_words": state}

    def advance(self, state: Tensor, parents: Tensor, tokens: Tensor) -> Tensor:
        is_leaf = ops.cast(self.layer.is_leaf(tokens), "int32")
        return ops.take_along_axis(state, parents, axis=1) + is_leaf


@keras.saving.register_keras_serializable(package="keras_transformer")
class WordTagger(keras.layers.Layer):
    """Predict a word's tag from the encoder's output for the word.

    If each leaf of the output stands for one word of the source, and has its tag, the tag is
    predicted by a softmax over the leaves, from the vector c of the word that
    `DeterministicAttention` attends to. The projection of the decoder's output to logits (section
    3.4) also projects c, so there are no weights. The decoder predicts tags too; the tagger adds a
    loss to its training, and predicts tags without a search.

    ```
    log q_v = c · E_v - log Σ_u exp(c · E_u)    for leaves u, v
    ```

    Args:
        leaf_ids: ids of the target tokens that stand for a word.
        loss_weight: weight of the tagger's cross-entropy in the loss.
        **kwargs: `name`, `dtype` and the other arguments of `keras.layers.Layer`.

    Call arguments:
        logits: float tensor `(..., vocabulary_size)`: the projections of words.

    Returns:
        Float tensor `(..., leaves)`: log q.

    Raises:
        UserError: if the weight is not positive.
    """

    def __init__(
        self,
        leaf_ids: Iterable[int],
        loss_weight: float = 1.0,
        **kwargs: Any,
    ):
        super().__init__(**kwargs)
        self.leaf_ids = sorted({int(leaf_id) for leaf_id in leaf_ids})
        positive_number("loss_weight", loss_weight)
        self.loss_weight = loss_weight

    def call(self, logits: Tensor) -> Tensor:
        return ops.log_softmax(ops.take(logits, np.array(self.leaf_ids), axis=-1), axis=-1)

    def losses(self, log_probs: Tensor, y_true: Tensor) -> Tensor:
        """Return the tagger's weighted cross-entropy of each true token, 0 if it is not a leaf.

        Args:
            log_probs: float tensor `(batch, target, leaves)`.
            y_true: int tensor `(batch, target)`.

        Returns:
            Float tensor `(batch, target)`.
        """
        y_true = ops.cast(y_true, "int32")
        is_true = ops.equal(y_true[..., None], np.array(self.leaf_ids, "int32"))
        return -self.loss_weight * ops.sum(ops.where(is_true, log_probs, 0.0), axis=-1)

    def compute_output_shape(self, logits_shape: Shape) -> Shape:
        return (*logits_shape[:-1], len(self.leaf_ids))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "leaf_ids": self.leaf_ids,
            "loss_weight": self.loss_weight,
        }


def _is_one_of(token_ids: Tensor, some_ids: Sequence[int]) -> Tensor:
    """Return whether each token id is one of some known ids.

    Args:
        token_ids: int tensor.
        some_ids: Python integers, at least one.

    Returns:
        Bool tensor of the shape of `token_ids`.
    """
    size = max(some_ids) + 2  # The last entry stands for all larger ids.
    is_some = np.isin(np.arange(size), some_ids)
    return ops.take(is_some, ops.minimum(token_ids, size - 1), axis=0)
