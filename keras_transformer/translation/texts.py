"""Texts of any length as sentences, which a model reads, and what stands between them."""

import heapq
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from keras_transformer.data.text_lines import split_sentences
from keras_transformer.errors import UserError
from keras_transformer.translation.protection import Link, Protected

SPLITS = ("sentences", "lines", None)

Result = tuple[str, float]
Links = Mapping[tuple[str, str], Sequence[Link]]

# The line breaks of `str.splitlines`.
_LINE_BREAK = re.compile("\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
# "- ", "1) ", "(a) ". The splitter takes "1." for a sentence, which has no letter.
_BULLET = re.compile(r"\s*(?:[-*+•◦▪‣·–—]|\(?(?:\d{1,3}|[a-z])\))\s+")
# Where a long sentence may be divided: after the punctuation of a clause, or else at white space.
_CLAUSE_ENDS = (re.compile(r"(?<=[,;:،؛])\s+|(?<=[，、；：])"), re.compile(r"\s+"))


@dataclass(frozen=True)
class SplitText:
    """The sentences of a text, and what stands around them.

    Attributes:
        sentences: list of strings without white space around them, or the whole text.
        between: list of strings, one more than there are sentences: the white space, bullets and
            numbers before, between and after the sentences.
        is_divided: whether a sentence was longer than the model was trained on, and was divided
            between clauses or words.
        protected: the `Protected` whose text this is; None if nothing was taken out of it.
    """

    sentences: list[str]
    between: list[str]
    is_divided: bool = False
    protected: Protected | None = None

    def join(self, translations: Sequence[str], links: Links | None = None) -> str:
        """Return the text with a translation in the place of each sentence.

        Args:
            translations: list of strings, one per sentence.
            links: dict of (sentence, translation) -> the list of links between them, by which the
                parts are put back that were taken out. Without it, these have proportional places.
        """
        first, *rest = self.between
        joined = first + "".join(itertools.chain.from_iterable(zip(translations, rest)))
        if self.protected is None:
            return joined
        return self.protected.restore(joined, self._all_links(translations, links or {}))

    def _all_links(self, translations, links):
        """Yield the links of all sentences and of what stands between them, in the whole text."""
        start = other = 0
        for between, pair in itertools.zip_longest(self.between, zip(self.sentences, translations)):
            size = len(between)
            yield start, start + size, other, other + size
            start, other = start + size, other + size
            if pair:
                for s0, s1, t0, t1 in links.get(pair, ()):
                    yield start + s0, start + s1, other + t0, other + t1
                start, other = (x + len(text) for x, text in zip((start, other), pair))

    def n_best(
        self,
        results: Sequence[Sequence[Result]],
        num_results: int,
        links: Links | None = None,
    ) -> list[Result]:
        """Combine the translations of the sentences to translations of the text.

        The score of a text is the sum of its sentences' scores. So its `num_results` best
        translations are made of the best translations of its sentences.

        Args:
            results: for each sentence, a list of pairs (translation, score), the best first. A
                sentence without any stays empty, with a score of minus infinity.
            num_results: the largest number of translations.
            links: as for `join`.

        Returns:
            A list of pairs (translation, score), the best first. For a text without sentences it
            repeats the text, with score 0.
        """
        if not self.sentences:
            return [(self.join([]), 0.0)] * num_results
        if len(self.sentences) == 1:
            return [(self.join([text], links), score) for text, score in results[0]]
        best: list[tuple[tuple[str, ...], float]] = [((), 0.0)]
        for found in results:
            pairs = itertools.product(best, found or [("", -math.inf)])
            sums = (((*texts, text), total + score) for (texts, total), (text, score) in pairs)
            # Stable, so that the first translation of each sentence wins a tie.
            best = heapq.nlargest(num_results, sums, key=lambda item: item[1])
        return [(self.join(texts, links), total) for texts, total in best]


def split_text(
    text: str,
    split: str | None,
    language: str = "en",
    fits: Callable[[str], bool] | None = None,
    breaks_end_sentences: bool = True,
) -> SplitText:
    """Split a text into the parts that a model translates.

    Args:
        text: a string.
        split: `"sentences"`, `"lines"`, or None for the whole text as one part.
        language: the code of the text's language: see `kt.data.split_sentences`.
        fits: function of a sentence that returns whether the model can read all of it. A sentence
            that does not fit is divided, between clauses if it has several, or else between words.
        breaks_end_sentences: whether a sentence ends with its line, as in plain text.

    Returns:
        A `SplitText`. Joined, its sentences and `between` are the text, character by character.
    """
    if split is None:
        return SplitText([text], ["", ""])
    sentences, between, is_divided, end = [], [], False, 0
    for start, stop in _spans(text, split, language, breaks_end_sentences):
        parts = list(_divided(text[start:stop], fits)) if fits else [text[start:stop]]
        is_divided |= len(parts) > 1
        for part in parts:
            start = text.index(part, start)
            between.append(text[end:start])
            sentences.append(part)
            start = end = start + len(part)
    return SplitText(sentences, [*between, text[end:]], is_divided)


def check_split(split: str | None) -> None:
    """Raise a `UserError` if there is no such way to split a text."""
    if split not in SPLITS:
        raise UserError(f'`split` must be "sentences", "lines" or None. Received: split={split!r}')


def _spans(text: str, split: str, language: str, breaks_end: bool) -> Iterator[tuple[int, int]]:
    """Yield start and stop of each sentence or line, without white space around it."""
    for start, stop in _lines(text) if breaks_end else [(0, len(text))]:
        if bullet := _BULLET.match(text, start, stop):
            start = bullet.end()
        line = text[start:stop]
        for part in split_sentences(line, language) if split == "sentences" else [line.strip()]:
            # The parts are in order, and nothing but white space is left out.
            start = text.index(part, start)
            # "1." before a sentence, a row of dashes: nothing to translate.
            if any(map(str.isalpha, part)):
                yield start, start + len(part)
            start += len(part)


def _lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line_break in _LINE_BREAK.finditer(text):
        yield start, line_break.start()
        start = line_break.end()
    yield start, len(text)


def _divided(sentence: str, fits: Callable[[str], bool]) -> Iterator[str]:
    """Yield the parts of a sentence that fit, each about half of a part that does not."""
    middle = len(sentence) / 2
    if not fits(sentence):
        for pattern in _CLAUSE_ENDS:
            seams = [x.span() for x in pattern.finditer(sentence) if 0 < x.end() < len(sentence)]
            if seams:
                end, start = min(seams, key=lambda seam: abs(sum(seam) / 2 - middle))
                yield from _divided(sentence[:end], fits)
                yield from _divided(sentence[start:], fits)
                return
    yield sentence
