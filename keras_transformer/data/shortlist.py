"""Shortlists of the tokens that a translation may have, as Marian writes them."""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.data.lexical_translation import lexical_probabilities
from keras_transformer.data.text_files import readable
from keras_transformer.errors import UserError, brief
from keras_transformer.reserved_ids import END_ID, PAD_ID
from keras_transformer.validation import not_negative, positive_integer

_MAGIC = 0xF11A48D5013417F5
_ARRAYS = ("offsets", "token_ids", "frequent")  # of a preset's file
_MOST_LINKS = 10_000_000  # of `from_pairs`: pairs of words in the same pair of sentences
_HEADER = 6  # numbers of 8 bytes: magic, checksum, first, best, number of offsets, number of ids


class Shortlist(NamedTuple):
    """The target tokens that are likely in the translation of each source token.

    A search that only scores these tokens is faster.
    """

    offsets: np.ndarray
    """Int array `(source tokens + 1,)`: where the tokens of each source token begin in `token_ids`,
    and where the last end."""
    token_ids: np.ndarray
    """Int array: ids of target tokens."""
    frequent: np.ndarray
    """Int array: ids of the target tokens that every translation may have."""
    name: str = ""
    """Name of the file that it was read from."""

    def __repr__(self) -> str:
        count = len(self.offsets) - 1
        return f"<Shortlist {self.name}: {len(self.token_ids):,} ids of {count:,} source tokens>"

    @classmethod
    def from_pairs(
        cls,
        sources: Any,
        targets: Any,
        source_size: int,
        num_frequent: int = 50,
        num_best: int = 50,
        same: Sequence[tuple[int, int]] = (),
    ) -> "Shortlist":
        """Make a shortlist of the most probable translations of each token, by
        `lexical_probabilities`.

        Args:
            sources: list of int arrays, or `TokenSequences`: the token ids of sentences. If there
                are many, a sample of them is used.
            targets: list of int arrays, the token ids of their translations.
            source_size: the number of tokens of the source's vocabulary.
            num_frequent: the number of target tokens that every translation may have, the most
                frequent ones.
            num_best: the largest number of candidates for a source token.
            same: pairs of a source token and the target token with the same spelling, a further
                candidate. A search adds it by itself if both sides share one vocabulary.
        """
        numbers = range(len(sources))
        step = 1 + sum(len(sources[i]) * len(targets[i]) for i in numbers) // _MOST_LINKS
        sources, targets = ([side[i] for i in numbers[::step]] for side in (sources, targets))
        links = lexical_probabilities(sources, targets)
        spelled = np.array([*same], int).reshape(-1, 2).T
        source, target, probabilities = (
            np.concatenate(pair) for pair in zip((*spelled, np.ones(spelled.shape[1])), links)
        )
        frequency = np.bincount(np.concatenate(targets))
        frequent = np.sort(np.argsort(-frequency, kind="stable")[:num_frequent])
        best = _most_probable(source, target, probabilities, source_size, num_best)
        return cls(*best, frequent, f"lex.{num_frequent}.{num_best}")

    @classmethod
    def from_marian(cls, path: str | Path, source_size: int, target_size: int) -> "Shortlist":
        """Read a binary file of Marian, such as `lex.50.50.enpt.s2t.bin`, with Marian's ids.

        Args:
            path: the file.
            source_size: the number of tokens of the source's vocabulary.
            target_size: the number of tokens of the target's vocabulary.

        Raises:
            UserError: if the file is damaged or does not fit the vocabularies.
        """
        path = Path(path)
        data = path.read_bytes()
        numbers = np.frombuffer(data[: len(data) // 8 * 8], "<u8")
        if len(numbers) < _HEADER or numbers[0] != _MAGIC:
            raise UserError(
                f"{path} is damaged, or not a binary shortlist of Marian. Expected a file that "
                f"begins with the number {_MAGIC:#x}."
            )
        _, checksum, first, _, num_offsets, num_ids = numbers[:_HEADER].tolist()
        if (size := 8 * (_HEADER + num_offsets) + 4 * num_ids) != len(data):
            raise UserError(
                f"{path} is damaged or cut short. Expected {size:,} bytes, by its header. "
                f"Received: {len(data):,}"
            )
        if _checksum(numbers[2:]) != checksum:
            raise UserError(f"{path} is damaged: its checksum is wrong. Copy or download it again.")
        offsets = numbers[_HEADER : _HEADER + num_offsets].astype("i8")
        token_ids = np.frombuffer(data, "<u4", num_ids, size - 4 * num_ids)
        shortlist = cls(offsets, token_ids, np.arange(min(first, target_size)), path.name)
        return shortlist.validate(path, source_size, target_size)

    @classmethod
    def from_marian_text(
        cls,
        path: str | Path,
        source_tokens: Sequence[str],
        target_tokens: Sequence[str],
        num_frequent: int = 100,
        num_best: int = 100,
        threshold: float = 0.0,
    ) -> "Shortlist":
        """Read a text file of Marian, such as `lex.s2t.gz`, whose lines are
        `target source probability`.

        Lines of tokens that a vocabulary lacks are ignored, also of `NULL`, the empty word.

        Args:
            path: the file, plain or compressed by gzip.
            source_tokens: the tokens of the source's vocabulary, in the order of their ids.
            target_tokens: the tokens of the target's vocabulary, in the order of their ids.
            num_frequent: the number of target tokens that every translation may have, the first
                ones of the vocabulary (Marian's `first`).
            num_best: the largest number of candidates for a source token (Marian's `best`).
            threshold: candidates are more probable than this number.

        Raises:
            UserError: if the file cannot be read or has other lines.
        """
        positive_integer("num_frequent", num_frequent)
        positive_integer("num_best", num_best)
        not_negative("threshold", threshold)
        known = [{x.encode(): i for i, x in enumerate(y)} for y in (source_tokens, target_tokens)]
        links: dict[tuple[int, int], float] = {}
        with readable(Path(path)) as file:
            for number, line in enumerate(file, 1):
                try:
                    target, source, value = line.split()
                    probability = float(value)
                except ValueError:
                    expected = f"{path}, line {number}: expected `target source probability`. "
                    raise UserError(f"{expected}Received: {brief(line)}") from None
                link = known[0].get(source, -1), known[1].get(target, -1)
                if min(link) >= 0 and probability > threshold:
                    links[link] = max(probability, links.get(link, 0.0))
        sources, targets = np.array([*links], int).reshape(-1, 2).T
        values = np.array([*links.values()])
        offsets, ids = _most_probable(sources, targets, values, len(source_tokens), num_best)
        frequent = np.arange(min(num_frequent, len(target_tokens)))
        return cls(offsets, ids, frequent, Path(path).name)

    def save_as_marian(self, path: str | Path) -> None:
        """Write a binary file of Marian for vocabularies with the ids of this package.

        In Marian, the frequent tokens are the first ones of the vocabulary. Others become
        candidates of the end token, which every source has.

        Args:
            path: the file, such as `lex.s2t.bin`.
        """
        lists = np.split(self.token_ids, self.offsets[1:-1])
        frequent = np.union1d(self.frequent, np.arange(END_ID + 1))
        first = int(np.argmin(np.append(frequent == np.arange(len(frequent)), False)))
        lists[END_ID] = np.union1d(lists[END_ID], frequent[first:])
        # Marian refuses the offset of a token at the end of the file.
        lists[-1] = lists[-1] if len(lists[-1]) else frequent[:1]
        offsets = np.cumsum([0, *map(len, lists)])
        numbers = [first, max(map(len, lists)), len(offsets), offsets[-1], *offsets]
        body = np.array(numbers, "<u8").tobytes() + np.concatenate(lists).astype("<u4").tobytes()
        checksum = _checksum(np.frombuffer(body[: len(body) // 8 * 8], "<u8"))
        Path(path).write_bytes(np.array([_MAGIC, checksum], "<u8").tobytes() + body)

    @classmethod
    def load(cls, path: str | Path, source_size: int, target_size: int) -> "Shortlist":
        """Load a file that `save` wrote.

        Args:
            path: the file.
            source_size: the number of tokens of the source's vocabulary.
            target_size: the number of tokens of the target's vocabulary.

        Raises:
            UserError: if the file is missing, damaged or does not fit the vocabularies.
        """
        try:
            with np.load(path) as arrays:
                offsets, token_ids, frequent = (arrays[name].astype("i8") for name in _ARRAYS)
                shortlist = cls(offsets, token_ids, frequent, str(arrays["name"]))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise UserError(f"{path} is missing or damaged: {error}") from error
        return shortlist.validate(path, source_size, target_size)

    def save(self, path: str | Path) -> None:
        """Write a compressed file of NumPy.

        Args:
            path: the file, such as `shortlist.npz`.
        """
        arrays: dict[str, Any] = {"name": np.array(self.name)}
        for name, array in zip(_ARRAYS, self[:3]):
            arrays[name] = array.astype(np.min_scalar_type(array.max(initial=0)))
        np.savez_compressed(path, **arrays)

    def validate(self, path: str | Path, source_size: int, target_size: int) -> "Shortlist":
        """Return the shortlist, after validating that it fits two vocabularies.

        Args:
            path: the file, for errors.
            source_size: the number of tokens of the source's vocabulary.
            target_size: the number of tokens of the target's vocabulary.

        Raises:
            UserError: if it does not.
        """
        count = len(self.offsets) - 1
        largest = np.concatenate([self.token_ids, self.frequent]).max(initial=0)
        if count != source_size or largest >= target_size:
            raise UserError(
                f"{path} and the vocabulary do not match. Expected {source_size:,} source tokens, "
                f"and ids below {target_size:,}. Received: {count:,} tokens, and the id {largest:,}"
            )
        steps = np.diff(self.offsets, prepend=0, append=len(self.token_ids))
        if steps[0] or steps[-1] or steps.min() < 0:
            raise UserError(f"{path} is damaged: its offsets must rise to {len(self.token_ids):,}.")
        return self

    def candidates(self, token_ids: np.ndarray, target_size: int) -> np.ndarray:
        """Return which target tokens the translation of each source may have.

        Args:
            token_ids: int array `(batch, source)`: sources, padded with 0.
            target_size: the number of tokens of the target's vocabulary.

        Returns:
            Bool array `(batch, target_size)`.
        """
        is_candidate = np.zeros((len(token_ids), target_size), bool)
        is_candidate[:, self.frequent] = True
        rows, columns = np.nonzero(token_ids != PAD_ID)
        tokens = token_ids[rows, columns]
        lengths = np.diff(self.offsets)[tokens]
        ends = np.cumsum(lengths)
        places = np.repeat(self.offsets[tokens] - ends + lengths, lengths)
        places += np.arange(len(places))
        is_candidate[np.repeat(rows, lengths), self.token_ids[places]] = True
        return is_candidate

    def in_order(self, source_rows: np.ndarray, new_ids: np.ndarray) -> "Shortlist":
        """Return the shortlist of vocabularies in another order.

        Args:
            source_rows: int array `(new source tokens,)`: the present id of each source token.
            new_ids: int array `(target tokens,)`: the new id of each target token.
        """
        lengths = np.diff(self.offsets)[source_rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.offsets[source_rows] - offsets[:-1], lengths)
        token_ids = new_ids[self.token_ids[places + np.arange(len(places))]]
        order = np.lexsort([token_ids, np.repeat(np.arange(len(lengths)), lengths)])
        return Shortlist(offsets, token_ids[order], np.sort(new_ids[self.frequent]), self.name)


def _most_probable(
    source: np.ndarray, target: np.ndarray, probabilities: np.ndarray, size: int, num_best: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return `offsets` and `token_ids` of the most probable target tokens of each source token."""
    order = np.lexsort([-probabilities, source])
    counts = np.bincount(source, minlength=size)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    best = order[rank < num_best]
    best = best[np.lexsort([target[best], source[best]])]
    return np.concatenate([[0], np.cumsum(np.minimum(counts, num_best))]), target[best]


def _checksum(numbers: np.ndarray) -> int:
    """Return Marian's hash of numbers, which is Boost's `hash_combine`."""
    seed, mask = 0, 2**64 - 1
    for number in numbers.tolist():
        seed ^= (number + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & mask
    return seed
