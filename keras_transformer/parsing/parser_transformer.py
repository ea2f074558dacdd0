"""The model of a constituency parser: a `Transformer` whose decoder reads the next word."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import keras

from keras_transformer.annotations import DType, Tensor
from keras_transformer.errors import UserError
from keras_transformer.models.config import TransformerConfig
from keras_transformer.models.encoder_decoder import Decoder
from keras_transformer.models.transformer import Transformer
from keras_transformer.parsing.deterministic_attention import (
    DeterministicAttention,
    NextWordInputs,
    WordTagger,
)
from keras_transformer.validation import positive_number


@dataclass(frozen=True, kw_only=True)
class ParserConfig(TransformerConfig):
    """The hyperparameters of a `ParserTransformer`, whose docstring describes each of them.

    Raises:
        UserError: if a value is out of its range, or two values contradict each other.
    """

    word_start_ids: Sequence[int] | None = None
    leaf_ids: Sequence[int] | None = None
    tag_loss_weight: float | None = None

    def __post_init__(self):
        super().__post_init__()
        for name in ("word_start_ids", "leaf_ids"):
            token_ids = getattr(self, name)
            if token_ids is not None:
                self._set(name, [int(token_id) for token_id in token_ids])
        starts, leaves = self.word_start_ids, self.leaf_ids
        if (starts is None) != (leaves is None):
            raise UserError(
                "`word_start_ids` and `leaf_ids` must be given together. "
                f"Received: word_start_ids={starts}, leaf_ids={leaves}"
            )
        if starts is None or leaves is None:
            if self.tag_loss_weight is not None:
                raise UserError(
                    "`tag_loss_weight` requires `leaf_ids`: the tagger reads the vectors of "
                    "deterministic attention. "
                    f"Received: tag_loss_weight={self.tag_loss_weight}"
                )
            return
        if self.tag_loss_weight is not None:
            positive_number("tag_loss_weight", self.tag_loss_weight)
        source_size = self.source_vocabulary_size or self.vocabulary_size
        _validate_ids("word_start_ids", starts, source_size)
        _validate_ids("leaf_ids", leaves, self.vocabulary_size)


class ParserDecoder(Decoder):
    """A decoder that reads the vector of the next word, with an optional tagger of words."""

    def __init__(self, config: ParserConfig, token_embedding: Any, dtype: DType):
        super().__init__(config, token_embedding, dtype)
        self.deterministic_attention: DeterministicAttention | None = None
        self.tagger: WordTagger | None = None
        if config.leaf_ids is None or config.word_start_ids is None:
            return
        self.deterministic_attention = DeterministicAttention(
            config.word_start_ids, config.leaf_ids, dtype=dtype, name="deterministic_attention"
        )
        if config.tag_loss_weight is not None:
            self.tagger = WordTagger(
                config.leaf_ids, config.tag_loss_weight, dtype="float32", name="tagger"
            )

    def added_to_embeddings(
        self, encoder_sequence: Tensor, encoder_token_ids: Tensor, token_ids: Tensor
    ) -> Tensor | None:
        if self.deterministic_attention is None:
            return None
        return self.deterministic_attention(encoder_sequence, encoder_token_ids, token_ids)

    def loss_factors(self, sequence: Tensor, added: Tensor) -> tuple[Tensor, Tensor, Any]:
        factors = self.logit_factors(sequence)
        if self.tagger is None:
            return *factors, None
        return *factors, functools.partial(self.tagger.losses, self.tag_log_probs(added))

    def tag_log_probs(self, words: Tensor) -> Tensor:
        """Return the log-probabilities of the tags of words, `(batch, n, leaves)`.

        Args:
            words: float tensor `(batch, n, hidden_dim)`, the vectors of the words.

        Raises:
            UserError: if there is no tagger.
        """
        if self.tagger is None:
            raise UserError("The model has no tagger: it needs a `tag_loss_weight`.")
        return self.tagger(self.logits(words))


@keras.saving.register_keras_serializable(package="keras_transformer")
class ParserTransformer(Transformer):
    """A `Transformer` from words to the symbols of a tree.

    Each target token of a kind, a leaf, stands for one word of the source, in order. So the next
    word is known at each step, and its vector is added to the decoder's input
    (`kt.parsing.DeterministicAttention`). The paper attends only by learned weights, as this model
    does without `leaf_ids`.

    Args:
        *args: arguments of `Transformer`, such as `vocabulary_size`.
        word_start_ids: ids of the source tokens that begin a word; required with `leaf_ids`.
        leaf_ids: ids of the target tokens that stand for a word; required with `word_start_ids`.
        tag_loss_weight: adds a tagger (`kt.parsing.WordTagger`), which predicts the tag of a word
            from the encoder's output for the word alone, and whose cross-entropy has this weight in
            the loss.
        dtype: as for `Transformer`.
        name: name of the model.
        trainable: whether training changes the weights.
        **kwargs: further arguments of `Transformer`.

    Call arguments:
        inputs: as for `Transformer`.
        training: whether to apply dropout.

    Returns:
        Float32 tensor `(batch, target, vocabulary_size)`, as for `Transformer`.

    Raises:
        UserError: as `Transformer`; or if the arguments of words, leaves and tags contradict each
            other.
    """

    decoder: ParserDecoder
    config_class = ParserConfig
    decoder_class = ParserDecoder
    backbone_name = "ParserTransformerBackbone"

    def __init__(
        self,
        *args: Any,
        word_start_ids: Sequence[int] | None = None,
        leaf_ids: Sequence[int] | None = None,
        tag_loss_weight: float | None = None,
        dtype: Any = None,
        name: str | None = None,
        trainable: bool = True,
        **kwargs: Any,
    ):
        config = ParserConfig(
            *args,
            **kwargs,
            word_start_ids=word_start_ids,
            leaf_ids=leaf_ids,
            tag_loss_weight=tag_loss_weight,
        )
        self._build_graph(config, dtype, name, trainable)

    @property
    def deterministic_attention(self) -> DeterministicAttention | None:
        """The layer that counts words, or None without `leaf_ids`."""
        return self.decoder.deterministic_attention

    @property
    def step_inputs(self) -> NextWordInputs | None:
        """The further inputs of a search's steps, or None without `leaf_ids`."""
        layer = self.deterministic_attention
        return None if layer is None else NextWordInputs(layer)

    @property
    def fused_steps_reason(self) -> str | None:
        if self.decoder.tagger is None:
            return None
        return (
            "The loss of the tagger requires fused steps. Without them, create the model without "
            "`tag_loss_weight`."
        )

    def decode(
        self,
        *args: Any,
        word_vectors: Tensor | None = None,
        next_words: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run the decoder stack, as `Transformer.decode`.

        Args:
            *args: as for `Transformer.decode`.
            word_vectors: with a `cache`, the result of the method `word_vectors`.
            next_words: with a `cache`, int tensor `(batch, target)`: the number of leaves up to
                each of the `decoder_token_ids`.
            **kwargs: as for `Transformer.decode`.

        Returns:
            As `Transformer.decode`.

        Raises:
            UserError: as `Transformer.decode`; or if `word_vectors` and `next_words` are missing
                next to a `cache`.
        """
        if self.deterministic_attention is not None and kwargs.get("cache") is not None:
            if word_vectors is None or next_words is None:
                raise UserError(
                    "A model with `leaf_ids` needs `word_vectors` and `next_words` with a cache, "
                    "because it cannot count leaves step by step. Received only `cache`."
                )
            kwargs["added"] = self.deterministic_attention.vectors_at(word_vectors, next_words)
        return super().decode(*args, **kwargs)

    def word_vectors(self, encoder_sequence: Tensor, encoder_token_ids: Tensor) -> Tensor:
        """Return the vectors of words that step-by-step decoding needs next to its cache.

        Args:
            encoder_sequence: float tensor `(batch, source, hidden_dim)`, the result of `encode`.
            encoder_token_ids: int tensor `(batch, source)`.

        Returns:
            Float tensor `(batch, source, hidden_dim)`, one vector per word of the source; `()` for
            a model without `leaf_ids`.
        """
        if self.deterministic_attention is None:
            return ()
        return self.deterministic_attention.word_vectors(encoder_sequence, encoder_token_ids)

    def tag(self, encoder_token_ids: Tensor) -> Tensor:
        """Predict the tags of words. The model needs a `tag_loss_weight`.

        Args:
            encoder_token_ids: int tensor `(batch, source)`.

        Returns:
            Float32 tensor `(batch, source, leaves)`: for each word of the source, the
            log-probabilities of all leaves in the order of their ids. Further entries have no
            meaning.

        Raises:
            UserError: if the model has no tagger.
        """
        encoded = self.encode(encoder_token_ids)
        return self.decoder.tag_log_probs(self.word_vectors(encoded, encoder_token_ids))


def _validate_ids(name: str, token_ids: Sequence[int], size: int) -> None:
    largest = max(token_ids, default=0)
    if largest >= size:
        raise UserError(f"`{name}` must be below {size}, the vocabulary size. Received: {largest}")
