"""A tokenized corpus on disk, read through memory maps."""

import contextlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from keras_transformer.data.mixtures import epoch_counts
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.text_files import Pair
from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write
from keras_transformer.progress import bar

_FORMAT = 1
_SIDES = ("source", "target")
_CHUNK = 10_000  # sentence pairs that are tokenized at a time


class SentenceEncoder(Protocol):
    """The part of a tokenizer that a `TokenStore` needs."""

    @property
    def vocabulary_size(self) -> int: ...

    def encode(self, sentences: Iterable[str], /) -> Iterable[Sequence[int]]: ...


class TokenStore:
    """Sentence pairs as token ids, in a folder:

    - `source.tokens`, `target.tokens`: the concatenated ids of all sentences, uint16 (uint32 if the
      vocabulary needs it), without start and end tokens.
    - `source.lengths`, `target.lengths`: int32, one per sentence.
    - `store.json`: the number of pairs, the dtype, a fingerprint of text and tokenizers, and for
      each text of a `Mixture` the number of its pairs, in total and per epoch.

    Args:
        path: the folder.

    Attributes:
        fingerprint: identifies the text, the tokenizers and the limit.
        num_overlong_pairs: the number of pairs that were skipped because one of their sentences has
            too many tokens.
        parts: list of `(pairs, count)`: the number of pairs of each text, in order, and the number
            of them in an epoch.

    Raises:
        UserError: if the folder is not a complete store.
    """

    def __init__(self, path: str | PathLike):
        path = Path(path)
        info = _read_info(path)
        if info is None:
            raise UserError(
                f"Cannot find a token store in {path}. Expected one that this version has written."
            )
        self.fingerprint = info["fingerprint"]
        self.num_overlong_pairs = info.get("left_out", 0)
        self.parts = info.get("parts", [[info["pairs"]] * 2])
        self.source, self.target = (
            TokenSequences(path / f"{side}.tokens", path / f"{side}.lengths", info["dtype"])
            for side in _SIDES
        )
        for side, sequences in zip(_SIDES, (self.source, self.target)):
            if len(sequences) != info["pairs"]:
                raise UserError(
                    f"{path} is damaged. Expected {info['pairs']} pairs. Received: "
                    f"{len(sequences)} {side} sentences. Delete the folder to make it again."
                )

    def __len__(self) -> int:
        return len(self.source)

    def __repr__(self) -> str:
        tokens = [int(side.lengths.sum()) for side in (self.source, self.target)]
        return f"<TokenStore: {len(self):,} pairs, {tokens[0]:,} and {tokens[1]:,} tokens>"

    @classmethod
    def build(
        cls,
        path: str | PathLike,
        pairs: Iterable[Pair],
        tokenizer: SentenceEncoder,
        fingerprint: str = "",
        target_tokenizer: SentenceEncoder | None = None,
        max_tokens: int | None = None,
    ) -> "TokenStore":
        """Tokenize pairs of strings into a new store, which replaces any file or folder at `path`.

        Args:
            path: the folder to make.
            pairs: iterable of (source, target) strings, which is read once, a few thousand at a
                time. For a `Mixture`, all pairs of its texts are read, independent of their ratios.
            tokenizer: a `Tokenizer`.
            fingerprint: a string that identifies text and tokenizer, stored with the tokens.
            target_tokenizer: the tokenizer of the targets. Defaults to `tokenizer`.
            max_tokens: skip pairs if one of their sentences has more tokens. Defaults to no limit.

        Returns:
            The `TokenStore`.
        """
        tokenizers = (tokenizer, target_tokenizer or tokenizer)
        largest = max(x.vocabulary_size for x in tokenizers)
        dtype = "uint16" if largest <= 1 << 16 else "uint32"
        with atomic_write(path) as folder:
            folder.mkdir()
            texts, ratios = getattr(pairs, "texts", [pairs]), getattr(pairs, "ratios", None)
            total = sum(map(len, texts)) if hasattr(pairs, "__len__") else None
            with bar("tokenizing", "pairs", total) as progress:
                written = _write(folder, texts, tokenizers, dtype, max_tokens, progress)
            counts, left_out = written
            info = {"format": _FORMAT, "pairs": sum(counts), "dtype": dtype}
            info |= {"fingerprint": fingerprint, "left_out": left_out}
            info["parts"] = [*zip(counts, epoch_counts(counts, ratios))]
            (folder / "store.json").write_text(json.dumps(info), "utf-8")
        return cls(path)

    @classmethod
    def build_once(
        cls,
        path: str | PathLike,
        text: ParallelText,
        tokenizer: SentenceEncoder,
        target_tokenizer: SentenceEncoder | None = None,
        max_tokens: int | None = None,
    ) -> "TokenStore":
        """Return a store that was made from the same text and tokenizer, or build one.

        Args:
            path: the folder.
            text: a `ParallelText`, or another iterable of pairs of strings with a method
                `fingerprint()`.
            tokenizer: a `Tokenizer`.
            target_tokenizer: as for `build`.
            max_tokens: as for `build`.

        Returns:
            The `TokenStore`.
        """
        how = text, tokenizer, target_tokenizer, max_tokens
        # A damaged store is built again.
        return cls.find(path, *how) or cls.build(
            path, text, tokenizer, _fingerprint(*how), target_tokenizer, max_tokens
        )

    @classmethod
    def find(
        cls,
        path: str | PathLike,
        text: ParallelText,
        tokenizer: SentenceEncoder,
        target_tokenizer: SentenceEncoder | None = None,
        max_tokens: int | None = None,
    ) -> "TokenStore | None":
        """Return the complete store that was made from a text and a tokenizer, if there is one.

        Args:
            path: the folder.
            text: as for `build_once`.
            tokenizer: a `Tokenizer`.
            target_tokenizer: as for `build`.
            max_tokens: as for `build`.

        Returns:
            The `TokenStore`, or None.
        """
        info = _read_info(Path(path))
        fingerprint = _fingerprint(text, tokenizer, target_tokenizer, max_tokens)
        if info is not None and info["fingerprint"] == fingerprint:
            with contextlib.suppress(ValueError):
                return cls(path)
        return None


class TokenSequences:
    """Token ids of many sentences, in a memory-mapped file.

    Args:
        tokens_path: file of the concatenated ids.
        lengths_path: file of the int32 lengths.
        dtype: dtype of the ids.
    """

    def __init__(self, tokens_path: str | PathLike, lengths_path: str | PathLike, dtype: str):
        for path in (tokens_path, lengths_path):
            if not Path(path).is_file():
                raise UserError(
                    f"{path} is missing. Delete the folder of the token store to make it again."
                )
        self.lengths = np.fromfile(lengths_path, "int32")
        self._starts = np.concatenate([[0], np.cumsum(self.lengths, dtype="int64")])
        size = Path(tokens_path).stat().st_size // np.dtype(dtype).itemsize
        if size != self._starts[-1]:
            raise UserError(
                f"{tokens_path} is damaged. Expected {self._starts[-1]} ids. Received: {size} ids. "
                "Delete the folder of the token store to make it again."
            )
        # An empty file cannot be memory-mapped.
        self._tokens = np.memmap(tokens_path, dtype, "r") if size else np.zeros(0, dtype)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> np.ndarray:
        return np.asarray(self._tokens[self._starts[index] : self._starts[index + 1]], "int32")

    def padded(self, indices: np.ndarray, length: int) -> np.ndarray:
        """Return sentences as an int32 array `(len(indices), length)`, 0 after the last token."""
        positions = np.arange(length)
        inside = positions < self.lengths[indices][:, None]
        positions_in_file = np.where(inside, self._starts[indices][:, None] + positions, 0)
        if not len(self._tokens):
            return np.zeros(positions_in_file.shape, "int32")
        return np.where(inside, self._tokens[positions_in_file], 0).astype("int32")


def _fingerprint(
    text: ParallelText, tokenizer: Any, target_tokenizer: Any, max_tokens: int | None
) -> str:
    # The encoder of trees has no fingerprint: it depends only on the text and the other tokenizer.
    tokenizers = (x for x in (tokenizer, target_tokenizer) if hasattr(x, "fingerprint"))
    digests = dict.fromkeys(x.fingerprint() for x in tokenizers)
    limit = [] if max_tokens is None else [f"{max_tokens} tokens"]
    return " ".join([text.fingerprint(), *digests, *limit])


def _read_info(path: Path) -> dict[str, Any] | None:
    """Return the content of `store.json`, or None if there is no store of this version."""
    try:
        info = json.loads((path / "store.json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return info if isinstance(info, dict) and info.get("format") == _FORMAT else None


def _write(
    folder: Path,
    texts: Sequence[Iterable[Pair]],
    tokenizers: Sequence[SentenceEncoder],
    dtype: str,
    max_tokens: int | None,
    progress: Any,
) -> tuple[list[int], int]:
    """Write the tokens of all texts.

    Returns:
        The number of pairs of each text in the store, and the number of all skipped pairs.
    """
    counts, left_out = [0] * len(texts), 0
    names = [f"{side}.{part}" for side in _SIDES for part in ("tokens", "lengths")]
    files = {name: open(folder / name, "wb") for name in names}
    try:
        for number, chunk in _chunks(texts):
            encoded = [x.encode(side) for x, side in zip(tokenizers, zip(*chunk))]
            kept = [
                pair
                for pair in zip(*encoded)
                if not max_tokens or max(map(len, pair)) <= max_tokens
            ]
            counts[number] += len(kept)
            left_out += len(chunk) - len(kept)
            for side, token_ids in zip(_SIDES, zip(*kept)):
                lengths = np.array([len(ids) for ids in token_ids], "int32")
                # Do not use `tofile`: its error does not mention a full disk.
                files[f"{side}.lengths"].write(lengths.data)
                flat = np.fromiter(itertools.chain.from_iterable(token_ids), dtype)
                files[f"{side}.tokens"].write(flat.data)
            progress.update(len(chunk))
    finally:
        for file in files.values():
            file.close()
    return counts, left_out


def _chunks(texts: Sequence[Iterable[Pair]]) -> Iterator[tuple[int, list[Pair]]]:
    """Yield the index of each text with some of its pairs at a time."""
    for number, text in enumerate(texts):
        pairs = iter(text)
        while chunk := list(itertools.islice(pairs, _CHUNK)):
            yield number, chunk
