"""The text side of a translation model: sentences to token ids, and token ids to sentences."""

import dataclasses
import functools
import hashlib
import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from keras_transformer.data.sentencepiece_model import reordered_proto
from keras_transformer.data.text_lines import without_breaks
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import END_ID, UNKNOWN_ID
from keras_transformer.untranslated import SYMBOLS

if TYPE_CHECKING:
    from keras_transformer.data.moses_tokenizer import MosesTokenizer

_SPACE = "▁"  # SentencePiece's mark before a word


@dataclasses.dataclass(frozen=True)
class TranslationPreprocessor:
    """Converts sentences to the token ids that a model reads and writes, and back.

    A source is `source_prefix`, its tokens and the end token. A target is `target_prefix`, its
    tokens and the end token; the model's batches put the start token before it. A preset stores the
    preprocessor in `preprocessor.json`, so that training, translating, KerasHub's classes and every
    export treat text alike.

    ```python
    preprocessor = kt.data.TranslationPreprocessor(tokenizer, source_prefix=["<2de>"])
    preprocessor.encode_sources(["A dog runs."])  # ids of the tag, of the words, and 2 at the end
    ```

    Args:
        tokenizer: the `Tokenizer` of the targets, and of the sources if they have no other.
        source_tokenizer: the `Tokenizer` of the sources. Defaults to `tokenizer`.
        source_prefix: tokens before each source, such as the tag of a language: strings, each one
            token of `source_tokenizer`. They count in `max_source_length`.
        target_prefix: tokens that each target begins with: strings, each one token of `tokenizer`.
            Translations are returned without them.
        source_end: whether sources end with the end token.
        max_source_length: the largest number of tokens of a source, including prefix and end token.
            Longer sources are cut. None: no limit.

    Raises:
        UserError: if a prefix is not a list of strings, or `max_source_length` leaves no room for a
            token.
    """

    tokenizer: Tokenizer
    source_tokenizer: Tokenizer = None  # pyright: ignore[reportAssignmentType] set below
    source_prefix: Sequence[str] = ()
    target_prefix: Sequence[str] = ()
    source_end: bool = True
    max_source_length: int | None = 1024

    def __post_init__(self) -> None:
        prefixes = {x: _tokens(x, getattr(self, x)) for x in ("source_prefix", "target_prefix")}
        own = self.source_tokenizer is not None
        values = {"source_tokenizer": self.source_tokenizer if own else self.tokenizer}
        for name, value in {**values, **prefixes, "source_end": bool(self.source_end)}.items():
            object.__setattr__(self, name, value)
        _validate_max_source_length(self.max_source_length, len(self.source_prefix))

    def get_config(self) -> dict[str, Any]:
        """Return the JSON values of the attributes, except the tokenizers."""
        config: dict[str, Any] = {
            "source_prefix": list(self.source_prefix),
            "target_prefix": list(self.target_prefix),
        }
        # As in presets of earlier versions, unusual values alone are stored.
        if not self.source_end:
            config["source_end"] = False
        if self.max_source_length != type(self).max_source_length:
            config["max_source_length"] = self.max_source_length
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **tokenizers: Any) -> Self:
        """Return the preprocessor that `get_config` describes.

        Args:
            config: dict of JSON values. Further entries are ignored.
            **tokenizers: `tokenizer`, and `source_tokenizer` if the sources have their own.

        Raises:
            UserError: if a value is not valid.
        """
        names = ("source_prefix", "target_prefix", "source_end", "max_source_length")
        return cls(**tokenizers, **{name: config[name] for name in names if name in config})

    def validate_prefixes(self) -> None:
        """Check the tokens of the prefixes.

        Raises:
            UserError: if a token is not in the vocabulary.
        """
        for name in ("source_prefix", "target_prefix"):
            try:
                getattr(self, f"{name}_ids")
            except UserError as error:
                raise UserError(f"`{name}` must be tokens of the vocabulary. {error}") from error

    # Not computed earlier: KerasHub's tokenizers get their vocabularies late.
    @property
    def source_prefix_ids(self) -> list[int]:
        """The ids of `source_prefix`."""
        return list(self.source_tokenizer.tokens_to_ids(list(self.source_prefix)))

    @property
    def target_prefix_ids(self) -> list[int]:
        """The ids of `target_prefix`."""
        return list(self.tokenizer.tokens_to_ids(list(self.target_prefix)))

    @functools.cached_property
    def has_symbols(self) -> bool:
        """True if both vocabularies have the reserved symbols that stand for placeholders."""
        try:
            return all(x.tokens_to_ids(SYMBOLS) for x in (self.tokenizer, self.source_tokenizer))
        except UserError:
            return False

    def with_symbols(self) -> Self:
        """Return the preprocessor whose vocabularies also have the reserved symbols.

        Raises:
            UserError: if a vocabulary is not of SentencePiece.
        """
        own = self.source_tokenizer is not self.tokenizer
        return dataclasses.replace(
            self,
            tokenizer=_extended(self.tokenizer),
            source_tokenizer=_extended(self.source_tokenizer) if own else None,
        )

    @property
    def num_added(self) -> int:
        """The number of tokens of a source that do not come from its text."""
        return len(self.source_prefix) + self.source_end

    def tagged(self, *tags: str) -> Self:
        """Return the preprocessor that puts tags before each source instead of `source_prefix`.

        Args:
            *tags: strings, each a token of the source's vocabulary. Without tags, sources are
                encoded as they are.

        Raises:
            UserError: if a tag is not a token of the vocabulary.
        """
        try:
            prefix = tag_tokens(self.source_tokenizer, tags)
        except UserError as error:
            raise UserError(f"`tags` must be tokens of the vocabulary. {error}") from error
        return dataclasses.replace(self, source_prefix=prefix)

    def encode_sources(
        self, sentences: Sequence[str], max_length: int | None = None
    ) -> list[list[int]]:
        """Convert sentences to the ids that the encoder reads.

        Args:
            sentences: list of strings.
            max_length: the largest number of ids, if it is less than `max_source_length`.

        Returns:
            A list of lists of ids: prefix, tokens, end token. The list is empty for a sentence of
            white space, and for one without tokens.
        """
        return self.as_sources(self.token_ids(sentences), max_length)

    def token_ids(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return all ids of each sentence, without prefix and end token.

        Args:
            sentences: list of strings.
        """
        token_ids = self.source_tokenizer.encode(list(sentences))
        # To a tokenizer, a rare kind of white space can be an unknown character.
        return [[] if text.isspace() else ids for text, ids in zip(sentences, token_ids)]

    def as_sources(
        self, token_ids: Iterable[list[int]], max_length: int | None = None
    ) -> list[list[int]]:
        """Return the ids that the encoder reads: see `encode_sources`.

        Args:
            token_ids: the result of `token_ids`.
            max_length: as for `encode_sources`.
        """
        room, prefix = self.room(max_length), self.source_prefix_ids
        end = [END_ID] if self.source_end else []
        return [[*prefix, *ids[:room], *end] if ids else [] for ids in token_ids]

    def unknown_characters(self, text: str) -> str:
        """Return the characters of a text that the vocabulary of sources lacks, each once.

        Args:
            text: a string.
        """
        known, letters = self._known_characters, sorted({*text})
        new = [letter for letter in letters if letter not in known]
        for letter, ids in zip(new, self.token_ids(new)):
            known[letter] = UNKNOWN_ID not in ids
        return "".join(letter for letter in letters if not known[letter])

    @functools.cached_property
    def _known_characters(self) -> dict[str, bool]:
        return {}

    def is_tag(self, text: str) -> bool:
        """Return whether a text is a token of the vocabulary that is tokenized as itself.

        Args:
            text: a string such as `"<2de>"`.
        """
        if text not in self._tags:
            tokenizer = self.source_tokenizer
            try:
                is_token = bool(tokenizer.tokens_to_ids([text]))
            except UserError:
                is_token = False
            self._tags[text] = is_token and _finds([text], _tokens_in_text(tokenizer, [text]))
        return self._tags[text]

    @functools.cached_property
    def _tags(self) -> dict[str, bool]:
        return {}

    def encode_targets(self, sentences: Sequence[str]) -> list[list[int]]:
        """Convert translations to the ids that the decoder predicts: prefix, tokens, end token.

        Args:
            sentences: list of strings.

        Returns:
            A list of lists of ids.
        """
        prefix = self.target_prefix_ids
        return [[*prefix, *ids, END_ID] for ids in self.tokenizer.encode(list(sentences))]

    def decode(self, outputs: Iterable[Sequence[int]], source: str = "") -> list[str]:
        """Convert the ids of translations to text, without `target_prefix`.

        The translation of one line is one line: a line break or tab that the source does not
        contain becomes a space.

        Args:
            outputs: lists of ids, which may be padded with 0.
            source: the sentence that was translated.

        Returns:
            A list of strings.
        """
        texts = self.tokenizer.decode([ids[len(self.target_prefix) :] for ids in outputs])
        return [without_breaks(text, source) for text in texts]

    def source_encoder(self) -> Any:
        """Return the tokenizer of the sources with the prefix, to build a `TokenStore` with."""
        return _with_prefix(self.source_tokenizer, self.source_prefix)

    def target_encoder(self) -> Any:
        """Return the tokenizer of the targets with the prefix, to build a `TokenStore` with."""
        return _with_prefix(self.tokenizer, self.target_prefix)

    def room(self, max_length: int | None) -> int | None:
        """Return how many tokens of a source's text are read, or None for all.

        Args:
            max_length: as for `encode_sources`.
        """
        limits = [x for x in (self.max_source_length, max_length) if x is not None]
        return min(limits) - self.num_added if limits else None


def _extended(tokenizer: Any) -> Tokenizer:
    """Return a tokenizer with the reserved symbols after its own tokens."""
    if not isinstance(tokenizer, Tokenizer):
        raise UserError("Reserved symbols require a vocabulary of SentencePiece.")
    tokens = [*tokenizer.ids_to_tokens(range(tokenizer.vocabulary_size)), *SYMBOLS]
    return Tokenizer(reordered_proto(tokenizer.proto, [*dict.fromkeys(tokens)]))


def as_preprocessor(text_side: Any, **changes: Any) -> TranslationPreprocessor:
    """Return a `TranslationPreprocessor`, with other values of some attributes.

    Args:
        text_side: a `TranslationPreprocessor`, or the `Tokenizer` that sources and targets share.
        **changes: the attributes to replace.

    Raises:
        UserError: as `TranslationPreprocessor`.
    """
    if isinstance(text_side, TranslationPreprocessor):
        return dataclasses.replace(text_side, **changes) if changes else text_side
    return TranslationPreprocessor(text_side, **changes)


def _tokens(name: str, tokens: Any) -> tuple[str, ...]:
    is_list = isinstance(tokens, Iterable) and not isinstance(tokens, str)
    tokens = tuple(tokens) if is_list else tokens
    if not is_list or not all(isinstance(token, str) for token in tokens):
        raise UserError(
            f"`{name}` must be a list of tokens, each a string. Received: {name}={tokens!r}"
        )
    return tokens


def _validate_max_source_length(value: Any, prefix_length: int) -> None:
    if value is None:
        return
    shortest = prefix_length + 2
    if not isinstance(value, numbers.Integral) or value < shortest:
        prefix = f", after a prefix of {prefix_length}" if prefix_length else ""
        raise UserError(
            f"`max_source_length` must be an integer, {shortest} or larger (a token and the end "
            f"token{prefix}), or None for no limit. Received: max_source_length={value!r}"
        )


def _with_prefix(tokenizer: Any, prefix: Sequence[str]) -> Any:
    return PrefixedTokenizer(tokenizer, prefix) if prefix else tokenizer


def tag_tokens(tokenizer: "Tokenizer | MosesTokenizer", tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tokens that represent tags before a text.

    If a tag in a text is tokenized as itself, the result contains the marks of spaces too, such as
    `("▁", "<2fr>")`. A converted tokenizer reads a special token such as `>>fra<<` in a text as
    ordinary text. The result then consists of the tags themselves.

    Args:
        tokenizer: a `Tokenizer`, or another with its methods.
        tags: list of strings, each a token of the vocabulary.

    Returns:
        A tuple of strings.

    Raises:
        UserError: if a tag is not a token of the vocabulary.
    """
    tokenizer.tokens_to_ids(list(tags))
    in_text = _tokens_in_text(tokenizer, tags)
    return in_text if _finds(tags, in_text) else tuple(tags)


def validate_tags(tokenizer: "Tokenizer | MosesTokenizer", tags: Sequence[str]) -> None:
    """Raise a `UserError` if a tag in a text would not be tokenized as itself.

    Args:
        tokenizer: a `Tokenizer`, or another with its methods.
        tags: list of strings.

    Raises:
        UserError: if a tag is not a token of the vocabulary, or the tokenizer splits it in a text.
    """
    tokenizer.tokens_to_ids(list(tags))
    for tag in tags:
        tokens = _tokens_in_text(tokenizer, [tag])
        if not _finds([tag], tokens):
            raise UserError(
                f"The tag {tag!r} is a token of the vocabulary, but its tokenizer reads it as "
                f"ordinary text: {' '.join(tokens)}. Expected a text without tags, and a preset "
                f"whose `source_prefix` is the tag: save `translator.tagged({tag!r})` as one."
            )


def _tokens_in_text(
    tokenizer: "Tokenizer | MosesTokenizer", tags: Sequence[str]
) -> tuple[str, ...]:
    (token_ids,) = tokenizer.encode([" ".join(tags)])
    return tuple(tokenizer.ids_to_tokens(token_ids))


def _finds(tags: Sequence[str], tokens: Sequence[str]) -> bool:
    return [token for token in tokens if token.strip(_SPACE)] == list(tags)


class PrefixedTokenizer:
    """A tokenizer that puts the same tokens before each sentence, such as a language tag.

    It has the methods of a `Tokenizer` that a `TokenStore` and a training need.

    Args:
        tokenizer: a `Tokenizer`, or another with its methods.
        prefix: the tokens, as strings.

    Raises:
        UserError: if one of them is not a token of the vocabulary.
    """

    def __init__(self, tokenizer: "Tokenizer | MosesTokenizer", prefix: Iterable[str]):
        self.tokenizer = tokenizer
        self.prefix = tuple(prefix)
        self._ids = tokenizer.tokens_to_ids(list(prefix))

    @property
    def vocabulary_size(self) -> int:
        return self.tokenizer.vocabulary_size

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of the tokenizer's fingerprint and the prefix."""
        parts = " ".join([self.tokenizer.fingerprint(), *map(str, self._ids)])
        return hashlib.sha256(parts.encode()).hexdigest()

    def encode(self, sentences: Iterable[str]) -> list[list[int]]:
        """Convert strings to lists of ids, each with the ids of the prefix before it.

        Args:
            sentences: list of strings.

        Returns:
            A list of lists of ids.
        """
        return [self._ids + ids for ids in self.tokenizer.encode(sentences)]
