"""Texts as a model reads them, and their translations, assembled from those of the sentences."""

import heapq
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.protection.alignment import Link
from keras_transformer.protection.protected import Protected
from keras_transformer.protection.spans import MarkedText
from keras_transformer.translation.word_links import word_links
from keras_transformer.untranslated import SYMBOLS

if TYPE_CHECKING:
    from keras_transformer.documents.text_part import TextPart
    from keras_transformer.translation.translator import Translator

Result = tuple[Any, float]  # a translation, a string or a `MarkedText`, and its score
Links = Mapping[tuple[str, str], Sequence[Link]]

# The marks that end a sentence, and what may follow them.
_FINAL = re.compile(r"\s*[.!?…。．｡！？।॥؟۔։።]+$")
SENTENCE_END = re.compile(r"[.!?…。．｡！？।॥؟۔։።:;：；]\W*$")
# A reserved symbol, with white space that is not needed without it.
_SYMBOL = re.compile(rf"[{''.join(SYMBOLS)}]\s|\s?[{''.join(SYMBOLS)}]")


class Sentence(NamedTuple):
    """A sentence of a text, for the search."""

    text: str
    token_ids: list[int]
    number: int  # of the text, and of the sentence in it
    same_end: bool


@dataclass(frozen=True)
class SplitText:
    """The sentences of a text, and what stands around them.

    Attributes:
        sentences: list of strings without white space around them, or the whole text. Each begins
            with `tags`.
        between: list of strings, one more than there are sentences: the white space, bullets and
            numbers before, between and after the sentences.
        is_divided: whether a sentence was longer than the model was trained on, and was divided
            between clauses or words.
        protected: the `Protected` whose text this is; None if nothing was taken out of it.
        tags: tags before the text, which the model reads before each of its sentences.
    """

    sentences: list[str]
    between: list[str]
    is_divided: bool = False
    protected: Protected | None = None
    tags: str = ""

    def join(self, translations: Sequence[str], links: Links | None = None) -> MarkedText:
        """Return the text with a translation in the place of each sentence.

        Args:
            translations: list of strings, one per sentence.
            links: dict of (sentence, translation) -> the list of links between them, by which the
                parts are put back that were taken out. Without it, these have proportional places.
        """
        first, *rest = self.between
        text = first + "".join(itertools.chain.from_iterable(zip(translations, rest)))
        if self.protected is None:
            return MarkedText(text)
        return self.protected.restore(text, self._all_links(translations, links or {}))

    def _all_links(self, translations: Sequence[str], links: Links) -> Iterator[Link]:
        """Yield the links of all sentences and of what stands between them, in the whole text."""
        start = other = 0
        for between, pair in itertools.zip_longest(self.between, zip(self.sentences, translations)):
            size = len(between)
            yield start, start + size, other, other + size
            start, other = start + size, other + size
            if pair:
                start -= len(self.tags)
                for s0, s1, t0, t1 in links.get(pair, ()):
                    if s0 >= len(self.tags):
                        yield start + s0, start + s1, other + t0, other + t1
                start, other = (x + len(text) for x, text in zip((start, other), pair))


@dataclass(frozen=True)
class PreparedText:
    """A text as a model reads it: without the parts that are kept, in sentences, as ids.

    Attributes:
        source: the text, a string or a `MarkedText`.
        units: list of `SplitText`: the units of a text with markup, or the text itself.
        token_ids: list of lists of ids, one per sentence, as the encoder reads them.
        is_cut: whether a sentence is longer than `max_source_length`, and is cut.
        is_unknown: whether the vocabulary contains no token of the text.
        has_unknown: whether the vocabulary lacks a part of a sentence.
        unknown: the characters that the vocabulary lacks, without those that are copied.
        same_ends: whether the translation of a sentence without a final mark has none.
        part: the `TextPart` of a text with markup, or None.
    """

    source: str | MarkedText
    units: list[SplitText]
    token_ids: list[list[int]]
    is_cut: bool = False
    is_unknown: bool = False
    has_unknown: bool = False
    unknown: str = ""
    same_ends: bool = False
    part: "TextPart | None" = None

    @property
    def sentences(self) -> list[str]:
        """The sentences that are translated one by one."""
        return [sentence for unit in self.units for sentence in unit.sentences]

    @property
    def is_divided(self) -> bool:
        """Whether a sentence is longer than those of the training, and is divided into parts."""
        return any(unit.is_divided for unit in self.units)

    @property
    def text(self) -> str:
        """The words of the text, for a detection of its language."""
        if self.part is not None:
            return "\n".join(unit.marked.text for unit in self.part.units)
        return self.source if isinstance(self.source, str) else self.source.text

    def numbered_sentences(self, number: int) -> Iterator[Sentence]:
        """Yield the sentences for a search.

        The first one has the text's number, the further ones have numbers that no other text has.
        So samples do not depend on how a stream is divided.

        Args:
            number: the number of the text in the stream.
        """
        for index, (sentence, ids) in enumerate(zip(self.sentences, self.token_ids)):
            yield Sentence(sentence, ids, (number + (index << 20)) % 2**31, self.same_ends)

    def linked_pairs(self, rows: Sequence[Sequence[Result]]) -> Iterator[tuple[str, str, int]]:
        """Yield the sentences and translations whose links `join` uses, with the index of each.

        Args:
            rows: for each sentence, a list of pairs (translation, score).
        """
        index = 0
        for unit in self.units:
            for sentence in unit.sentences:
                for translation, _ in rows[index]:
                    if unit.protected and unit.protected.needs_links(sentence, translation):
                        yield sentence, translation, index
                index += 1

    def n_best(
        self, results: Sequence[Sequence[Result]], num_results: int, links: Links | None = None
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
        if not results:
            return [(self.join([]), 0.0)] * num_results
        if len(results) == 1:
            return [(self.join([text], links), score) for text, score in results[0]]
        best: list[tuple[tuple[str, ...], float]] = [((), 0.0)]
        for found in results:
            pairs = itertools.product(best, found or [("", -math.inf)])
            sums = (((*texts, text), total + score) for (texts, total), (text, score) in pairs)
            # Stable, so that the first translation of each sentence wins a tie.
            best = heapq.nlargest(num_results, sums, key=lambda item: item[1])
        return [(self.join(texts, links), total) for texts, total in best]

    def join(self, translations: Sequence[str], links: Links | None = None) -> Any:
        """Return the text with a translation in the place of each sentence.

        Args:
            translations: list of strings, one per sentence.
            links: as for `SplitText.join`.

        Returns:
            A string, or a `MarkedText` with the spans of the text if it is one.
        """
        found = iter(translations)
        texts = [x.join([*itertools.islice(found, len(x.sentences))], links) for x in self.units]
        if self.part is not None:
            return self.part.rendered(texts, self.part.language_edits())
        return texts[0].text if isinstance(self.source, str) else texts[0]


def assemble(
    translator: "Translator",
    texts: Sequence[PreparedText],
    outputs: Iterable[tuple[Sentence, list[tuple[Any, float]] | None]],
    num_results: int,
) -> list[list[Result]]:
    """Return the best translations of texts, from the outputs of a search for their sentences.

    Args:
        translator: a `Translator`.
        texts: list of `PreparedText`.
        outputs: for each sentence of all texts, the pair of the `Sentence` and its outputs, as
            pairs (ids, score); None for a sentence that was not searched.
        num_results: the number of translations per text.
    """
    blank = [((), 0.0)] * num_results
    found = (
        _decoded(translator.preprocessor, sentence, blank if ids is None else ids)
        for sentence, ids in outputs
    )
    rows = [list(itertools.islice(found, len(text.token_ids))) for text in texts]
    links = _links_of_sentences(translator, texts, rows)
    return [text.n_best(row, num_results, links) for text, row in zip(texts, rows)]


def _decoded(
    preprocessor: TranslationPreprocessor, sentence: Sentence, outputs: list[tuple[Any, float]]
) -> list[tuple[str, float]]:
    """Return the translations of a sentence, as pairs (text, score), from pairs (ids, score)."""
    source = sentence.text
    texts = preprocessor.decode([ids for ids, _ in outputs], source)
    if preprocessor.has_symbols:  # in place of nothing that the source has
        texts = [
            _SYMBOL.sub(lambda x: x[0] if x[0].strip() in source else "", text) for text in texts
        ]
    if sentence.same_end:
        texts = [with_same_end(text, source) for text in texts]
    return list(zip(texts, [score for _, score in outputs]))


def with_same_end(translation: str, sentence: str) -> str:
    """Return a translation without a final mark if its sentence has none.

    Args:
        translation: a string.
        sentence: the string that was translated.
    """
    if SENTENCE_END.search(sentence):
        return translation
    return _FINAL.sub("", translation) or translation


def _links_of_sentences(
    translator: "Translator",
    texts: Sequence[PreparedText],
    rows: Sequence[Sequence[Sequence[Result]]],
) -> Links:
    """Return the links of the sentences of texts from which parts were taken out."""
    source_ids = {
        (sentence, translation): text.token_ids[index]
        for text, row in zip(texts, rows)
        for sentence, translation, index in text.linked_pairs(row)
    }
    if not source_ids:
        return {}
    sources, translations = zip(*source_ids)
    links = word_links(translator, sources, translations, [*source_ids.values()])
    return dict(zip(source_ids, links))
