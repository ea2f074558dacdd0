"""Words split by Moses's rules and by byte-pair encoding: the tokens of fairseq's models."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write, read_json
from keras_transformer.reserved_ids import END_ID, UNKNOWN_ID

_END_OF_WORD = "</w>"
# The text of an unknown token, as in SentencePiece.
_UNKNOWN = "⁇" + _END_OF_WORD
_ENTRIES = {"language": str, "lowercase": bool, "tokens": list, "merges": list}


class MosesTokenizer:
    """A tokenizer by Moses's rules and byte-pair encoding (Sennrich et al., 2016).

    It has the methods of a `Tokenizer` that a task needs. Moses's rules cannot be expressed as a
    SentencePiece model: they run in Python, in the packages `sacremoses` and `tokenizers`, and are
    not part of a SavedModel that takes strings.

    Args:
        tokens: list of strings in the order of their ids: padding, start, end, unknown, and the
            pieces. Pieces at the end of a word end with `"</w>"`.
        merges: list of pairs of strings, in the order in which they are merged.
        language: a language code of Moses's rules, such as `"en"`.
        lowercase: whether text is lowercased first.

    Raises:
        UserError: if the packages cannot be imported, a token occurs twice, or a merge is not a
            pair.
    """

    # As in `Tokenizer`.
    preset_class, preset_file = "MosesTokenizer", "vocabulary.json"

    def __init__(
        self,
        tokens: Iterable[str],
        merges: Iterable[Sequence[str]],
        language: str,
        lowercase: bool = False,
    ):
        self.tokens = list(tokens)
        self.merges = [tuple(merge) for merge in merges]
        self.language = language
        self.lowercase = lowercase
        self._ids = {token: i for i, token in enumerate(self.tokens)}
        if len(self._ids) < len(self.tokens) or len(self.tokens) <= UNKNOWN_ID:
            raise UserError(
                f"`tokens` must contain at least {UNKNOWN_ID + 1} distinct tokens. Received: "
                f"{len(self.tokens)} tokens, {len(self._ids)} of them distinct"
            )
        if not all(len(merge) == 2 and all(merge) for merge in self.merges):
            raise UserError("`merges` must be pairs of non-empty strings.")
        self._moses = _Moses(language)
        self._pairs = _byte_pairs(self._ids, self.merges)

    @classmethod
    def from_file(cls, path: str | PathLike) -> "MosesTokenizer":
        """Load a tokenizer that `save` has written.

        Args:
            path: the file.

        Returns:
            A `MosesTokenizer`.

        Raises:
            UserError: if the file does not exist, or is damaged.
        """
        path = Path(path)
        if not path.is_file():
            raise UserError(f"Cannot find the tokenizer {path}. Check the path.")
        config = read_json(path)
        if not isinstance(config, dict) or not all(
            isinstance(config.get(name), kind) for name, kind in _ENTRIES.items()
        ):
            raise UserError(f"{path} is damaged. Expected the entries {', '.join(_ENTRIES)}.")
        for name in ("tokens", "merges"):
            if not all(isinstance(entry, str) for entry in config[name]):
                raise UserError(f'{path} is damaged. Expected a list of strings in "{name}".')
        merges = [merge.split(" ") for merge in config["merges"]]
        try:
            return cls(config["tokens"], merges, config["language"], config["lowercase"])
        except UserError as error:
            raise UserError(f"{path}: {error}") from error

    def save(self, path: str | PathLike) -> None:
        """Write the tokenizer to a JSON file, completely or not at all.

        Args:
            path: the file.
        """
        with atomic_write(path) as new:
            new.write_text(self._as_json(), "utf-8")

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of the file that `save` writes."""
        return hashlib.sha256(self._as_json().encode("utf-8")).hexdigest()

    @property
    def vocabulary_size(self) -> int:
        return len(self.tokens)

    @property
    def proto(self) -> NoReturn:
        """The SentencePiece model, which does not exist for this tokenizer.

        Raises:
            UserError: always.
        """
        raise UserError(
            "A Moses tokenizer has no SentencePiece model with which a SavedModel or another "
            "engine could split text. Pass token ids from the `tokenizer`, or use a model with a "
            "SentencePiece tokenizer."
        )

    def tokens_to_ids(self, symbols: Iterable[str]) -> list[int]:
        """Return the ids of tokens.

        Args:
            symbols: list of strings.

        Returns:
            A list of integers.

        Raises:
            UserError: if one of them is not a token of the vocabulary.
        """
        for symbol in symbols:
            if symbol not in self._ids:
                raise UserError(f"The vocabulary has no token {symbol!r}.")
        return [self._ids[symbol] for symbol in symbols]

    def encode(self, sentences: Iterable[str]) -> list[list[int]]:
        """Convert strings to lists of ids, without start and end tokens.

        Args:
            sentences: list of strings.

        Returns:
            A list of lists of ids.
        """
        return [self._encode(sentence) for sentence in sentences]

    def ids_to_tokens(self, token_ids: Iterable[int]) -> list[str]:
        """Return the tokens with these ids: a list of strings.

        Args:
            token_ids: iterable of ids.
        """
        return [self.tokens[int(token_id)] for token_id in token_ids]

    def is_unknown(self, token_ids: Iterable[int]) -> bool:
        """Return whether a text has no known token.

        Args:
            token_ids: the text's ids, as `encode` returns them.

        Returns:
            Whether all of its tokens are the unknown token. False if there are none.
        """
        return {*token_ids} == {UNKNOWN_ID}

    def decode(self, token_ids: Iterable[Iterable[int]]) -> list[str]:
        """Convert ids back to strings, without padding, start and end tokens.

        Args:
            token_ids: an iterable of sequences of ids, such as an int array `(batch, length)`.

        Returns:
            A list of strings.
        """
        return [self._decode([int(i) for i in ids]) for ids in token_ids]

    def _encode(self, sentence: str) -> list[int]:
        words = self._moses.words(sentence.lower() if self.lowercase else sentence)
        pieces = [piece for word in words if word for piece in self._pairs.tokenize(word)]
        # Parts of merges that are not tokens have ids beyond the vocabulary.
        return [piece.id if piece.id < len(self.tokens) else UNKNOWN_ID for piece in pieces]

    def _decode(self, token_ids: list[int]) -> str:
        pieces = [_UNKNOWN if i == UNKNOWN_ID else self.tokens[i] for i in token_ids if i > END_ID]
        return self._moses.text("".join(pieces).replace(_END_OF_WORD, " ").split())

    def _as_json(self) -> str:
        config = {
            "language": self.language,
            "lowercase": self.lowercase,
            "tokens": self.tokens,
            "merges": [" ".join(merge) for merge in self.merges],
        }
        return json.dumps(config, ensure_ascii=False, indent=0) + "\n"


class _Moses:
    """Moses's normalization, tokenization and detokenization for one language."""

    def __init__(self, language: str):
        try:
            import sacremoses
        except ImportError as error:
            raise _not_installed(error) from error
        self._normalizer = sacremoses.MosesPunctNormalizer(
            language, pre_replace_unicode_punct=True, post_remove_control_chars=True
        )
        self._tokenizer = sacremoses.MosesTokenizer(language)
        self._detokenizer = sacremoses.MosesDetokenizer(language)

    def words(self, text: str) -> list[str]:
        return self._tokenizer.tokenize(
            self._normalizer.normalize(text), aggressive_dash_splits=True, escape=True
        )

    def text(self, words: list[str]) -> str:
        return self._detokenizer.detokenize(words)


def _byte_pairs(ids: dict[str, int], merges: Any) -> Any:
    """Return the `tokenizers.models.BPE` of a vocabulary.

    It needs each part of each merge as a token. Parts that the vocabulary lacks are added at its
    end.
    """
    try:
        from tokenizers.models import BPE
    except ImportError as error:
        raise _not_installed(error) from error
    parts = [part for pair in merges for part in (*pair, "".join(pair))]
    more = [part for part in dict.fromkeys(parts) if part not in ids]
    vocabulary = {**ids, **{part: len(ids) + i for i, part in enumerate(more)}}
    unknown = next(token for token, i in ids.items() if i == UNKNOWN_ID)
    return BPE(vocabulary, merges, end_of_word_suffix=_END_OF_WORD, unk_token=unknown)


def _not_installed(error: ImportError) -> UserError:
    return UserError(
        "Cannot split words by Moses's rules: the packages `sacremoses` and `tokenizers` cannot be "
        f"imported ({error}). Install them: pip install sacremoses tokenizers"
    )
