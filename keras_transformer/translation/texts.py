"""Texts of any length as sentences, which a model reads, and what stands between them."""

import dataclasses
import heapq
import importlib
import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from keras_transformer.data.preprocessor import SourceCheck
from keras_transformer.data.text_lines import split_sentences, without_surrogates
from keras_transformer.errors import UserError
from keras_transformer.language_codes import is_language_code
from keras_transformer.protection.alignment import Link
from keras_transformer.protection.pieces import joined
from keras_transformer.protection.protected import Protected, protect
from keras_transformer.protection.spans import MarkedText
from keras_transformer.validation import check_choice, check_strings

if TYPE_CHECKING:
    from keras_transformer.documents.text_part import TextPart
    from keras_transformer.translation.translator import Translator

SPLITS = ("sentences", "lines", None)
MARKUPS = ("html", "markdown")

Markup = Literal["html", "markdown"]
Result = tuple[Any, float]  # a translation, a string or a `MarkedText`, and its score
Links = Mapping[tuple[str, str], Sequence[Link]]

# The line breaks of `str.splitlines`.
_LINE_BREAK = re.compile("\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
# "- ", "1) ", "(a) ". The splitter takes "1." for a sentence, which has no letter.
_BULLET = re.compile(r"\s*(?:[-*+•◦▪‣·–—]|\(?(?:\d{1,3}|[a-z])\))\s+")
# Where a long sentence may be divided: after the punctuation of a clause, or else at white space.
_CLAUSE_ENDS = (re.compile(r"(?<=[,;:،؛])\s+|(?<=[，、；：])"), re.compile(r"\s+"))
# The marks that end a sentence, and what may follow them.
_FINAL = re.compile(r"\s*[.!?…。．｡！？।॥؟۔։።]+$")
_ENDS = re.compile(r"[.!?…。．｡！？।॥؟۔։።:;：；]\W*$")
_FIRST_WORD = re.compile(r"\s*(<[^<>]+>|\S+)\s*")


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

    def _all_links(self, translations, links):
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
        texts: list of `SplitText`: the units of a text with markup, or the text itself.
        token_ids: list of lists of ids, one per sentence, as the encoder reads them.
        check: the `SourceCheck` of the text.
        same_ends: whether the translation of a sentence without a final mark has none.
        part: the `TextPart` of a text with markup, or None.
    """

    source: str | MarkedText
    texts: list[SplitText]
    token_ids: list[list[int]]
    check: SourceCheck
    same_ends: bool = False
    part: "TextPart | None" = None

    @property
    def sentences(self) -> list[str]:
        """The sentences that are translated one by one."""
        return [sentence for text in self.texts for sentence in text.sentences]

    num_sentences = property(lambda self: self.check.num_sentences)
    is_cut = property(lambda self: self.check.is_cut)
    is_divided = property(lambda self: self.check.is_divided)
    is_unknown = property(lambda self: self.check.is_unknown)
    has_unknown = property(lambda self: self.check.has_unknown)
    unknown = property(lambda self: self.check.unknown)

    @property
    def text(self) -> str:
        """The words of the text, for a detection of its language."""
        if self.part is not None:
            return "\n".join(unit.marked.text for unit in self.part.units)
        return self.source if isinstance(self.source, str) else self.source.text

    def join(self, translations: Sequence[str], links: Links | None = None) -> Any:
        """Return the text with a translation in the place of each sentence.

        Args:
            translations: list of strings, one per sentence.
            links: as for `SplitText.join`.

        Returns:
            A string, or a `MarkedText` with the spans of the text if it is one.
        """
        found = iter(translations)
        texts = [x.join([*itertools.islice(found, len(x.sentences))], links) for x in self.texts]
        if self.part is not None:
            return self.part.rendered(texts, self.part.language_edits())
        return texts[0].text if isinstance(self.source, str) else texts[0]

    def linked_pairs(self, rows: Sequence[Sequence[Result]]) -> Iterator[tuple[str, str, int]]:
        """Yield the sentences and translations whose links `join` uses, with the index of each.

        Args:
            rows: for each sentence, a list of pairs (translation, score).
        """
        index = 0
        for text in self.texts:
            for sentence in text.sentences:
                for translation, _ in rows[index]:
                    if text.protected and text.protected.needs_links(sentence, translation):
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


def prepare_texts(
    translator: "Translator",
    texts: Iterable[Any],
    split: str | None,
    first: int = 0,
    same_ends: bool = False,
) -> list[PreparedText]:
    """Return the result of `Translator.prepare`.

    Args:
        translator: a `Translator`.
        texts: list of strings, `MarkedText` and `PreparedText`.
        split: as for `split_text`.
        first: the index of the first text, for error messages.
        same_ends: see `PreparedText`.
    """
    texts = list(texts)
    new = [x for x in enumerate(texts, first) if not isinstance(x[1], PreparedText)]
    units = [_units(translator, text, index) for index, text in new]
    found = [[_split(translator, x, tags, split) for x in row] for row, _, tags in units]
    pairs = iter(_with_ids(translator, [text for row in found for text, _ in row], split))
    for (index, text), (_, part, _), row in zip(new, units, found):
        own = [*itertools.islice(pairs, len(row))]
        texts[index - first] = _prepared(translator, text, part, row, own, same_ends)
    return texts


def _units(
    translator: "Translator", text: Any, index: int
) -> tuple[Sequence[str | MarkedText], "TextPart | None", str]:
    """Return the units of a text, its `TextPart` if it has markup, and the tags before it."""
    if isinstance(text, MarkedText):
        return [dataclasses.replace(text, text=without_surrogates(text.text))], None, ""
    (text,) = check_strings("sentences", [text], index)
    text = without_surrogates(text)
    size = _tags_length(translator, text)
    part = _part(translator, text[size:])
    units = [text[size:]] if part is None else [unit.marked for unit in part.units]
    return units, part, text[:size]


def _prepared(translator, text, part, found, pairs, same_ends) -> PreparedText:
    preprocessor, limit = translator.preprocessor, translator.source_limit()
    token_ids = [ids for _, rows in pairs for ids in rows]
    checks = preprocessor.check_source_ids(token_ids, limit)
    is_divided = any(unit.is_divided for unit, _ in pairs)
    has_unknown = any(check.has_unknown for check in checks)
    unknown = "".join(sorted({*"".join(x for _, x in found)})) if has_unknown else ""
    check = SourceCheck.of_text(checks, is_divided, unknown)
    ids = preprocessor.as_sources(token_ids, limit)
    return PreparedText(text, [unit for unit, _ in pairs], ids, check, same_ends, part)


def _part(translator: "Translator", text: str) -> "TextPart | None":
    """Return a text with markup as a `TextPart`."""
    if translator.markup is None:
        return None
    module = importlib.import_module(f"keras_transformer.documents.{translator.markup}")
    part = getattr(module, f"{translator.markup}_part")(text)
    languages = (translator.metadata.get(side) for side in ("source", "target"))
    part.source_lang, part.target_lang = (x if is_language_code(x) else None for x in languages)
    return part


def protected_text(
    translator: "Translator",
    text: str | MarkedText,
    split: str | None,
    source: Protected | None = None,
) -> tuple[Protected, str]:
    """Return a text as `Protected`, and the characters in it that the vocabulary lacks.

    Args:
        translator: a `Translator`.
        text: a text, whose markup is spans.
        split: as for `split_text`. A text that is not split is read as it is by a model without
            reserved symbols, unless there are patterns.
        source: the text whose translation it is: see `protect`.
    """
    preprocessor, patterns = translator.preprocessor, translator.kept_patterns
    plain = text if isinstance(text, str) else text.text
    unknown = preprocessor.unknown_characters(plain)
    is_read = split is None and isinstance(text, str) and not patterns
    if is_read and not preprocessor.has_symbols:
        return Protected(plain, MarkedText(plain)), unknown
    lacked = "" if split is None else "".join(filter(_is_symbol, unknown))
    found = protect(*(text, patterns, preprocessor.has_symbols), source=source, lacked=lacked)
    return found, "".join(x for x in unknown if x in found.text)


def read_text(
    translator: "Translator", text: str, split: str | None, source: Protected | None = None
) -> Protected:
    """Return a text as `Protected`, as one sentence with all the units of its markup.

    Args:
        translator: a `Translator`.
        text: a string.
        split: as for `protected_text`.
        source: likewise.
    """
    units, part, tags = _units(translator, text, 0)
    parts = [x for unit in units for x in ("\n\n", unit)][1:]
    whole = units[0] if part is None else joined(parts)
    found = protected_text(translator, whole, split, source)[0]
    return dataclasses.replace(found, text=tags + found.text)


def tags_and_texts(translator: "Translator", text: str) -> str:
    """Return a text with the texts of its markup after its tags, where they are left out.

    So a tag is the same if an attribute is translated, or declares the other language.

    Args:
        translator: a `Translator`.
        text: a string.
    """
    if (part := _part(translator, text)) is None:
        return text
    units = [unit.marked for unit in part.units]
    tags = [MarkedText("", [(0, span) for _, span in unit.spans]) for unit in units]
    return "\n".join([part.rendered(tags, part.language_edits()), *(unit.text for unit in units)])


def _is_symbol(letter: str) -> bool:
    """Return whether a character stands for itself: no letter, digit or mark of a sentence."""
    kind = unicodedata.category(letter)[0]
    return kind in "SC" or (kind == "P" and not letter.isascii() and not _ENDS.match(letter))


def _split(
    translator: "Translator", text: str | MarkedText, tags: str, split: str | None
) -> tuple[SplitText, str]:
    """Return the sentences of a text, and the characters in it that the vocabulary lacks."""
    protected, unknown = protected_text(translator, text, split)
    language = str(translator.metadata.get("source", "en"))
    found = split_text(protected.text, split, language, not protected.marked.is_wrapped)
    is_whole = isinstance(text, str) and not (protected.pieces or protected.replaced)
    tags = tags if split is None else _LINE_BREAK.sub(" ", tags)
    return (
        dataclasses.replace(
            found,
            sentences=[tags + sentence for sentence in found.sentences],
            protected=None if is_whole else protected,
            tags=tags,
        ),
        unknown,
    )


def _tags_length(translator: "Translator", text: str) -> int:
    """Return the length of the tags that a text begins with."""
    names, length = translator.metadata.get("tags", ()), 0
    while match := _FIRST_WORD.match(text, length):
        is_tag = match[1] in names or (
            match[1][0] == "<" and translator.preprocessor.is_tag(match[1])
        )
        if not is_tag or match.end() == len(text):
            break
        length = match.end()
    return length


def _with_ids(
    translator: "Translator", texts: Sequence[SplitText], split: str | None
) -> Iterator[tuple[SplitText, list[list[int]]]]:
    """Yield texts, whose long sentences are divided, with all ids of each sentence."""
    preprocessor = translator.preprocessor
    limits = translator.source_limit(), translator.metadata.get("longest_source")
    room = preprocessor.room(min((x for x in limits if x is not None), default=None))
    rows = iter(preprocessor.token_ids([x for text in texts for x in text.sentences]))

    def fits(sentence: str) -> bool:
        (ids,) = preprocessor.token_ids([sentence])
        return room is None or len(ids) <= room

    for text in texts:
        ids = [*itertools.islice(rows, len(text.sentences))]
        is_long = [room is not None and len(x) > room for x in ids]
        if split is not None and any(is_long):
            text = text_with_divided(text, is_long, fits)
            if text.is_divided:
                ids = preprocessor.token_ids(text.sentences)
        yield text, ids


def text_with_divided(
    text: SplitText, is_long: Iterable[bool], fits: Callable[[str], bool]
) -> SplitText:
    """Return a text whose long sentences are divided.

    A sentence is divided between clauses if it has several, or else between words.

    Args:
        text: a `SplitText`.
        is_long: for each sentence, whether to divide it.
        fits: function of a sentence that returns whether it need not be divided.
    """
    sentences, between, tags = [], [text.between[0]], text.tags
    for sentence, space, divide in zip(text.sentences, text.between[1:], is_long):
        rest, position = sentence[len(tags) :], 0
        for part in _divided(rest, lambda x: fits(tags + x)) if divide else [rest]:
            start = rest.index(part, position)
            if position:
                between.append(rest[position:start])
            sentences.append(tags + part)
            position = start + len(part)
        between.append(space)
    is_divided = len(sentences) > len(text.sentences)
    return dataclasses.replace(text, sentences=sentences, between=between, is_divided=is_divided)


def split_text(
    text: str,
    split: str | None,
    language: str = "en",
    breaks_end_sentences: bool = True,
) -> SplitText:
    """Split a text into the parts that a model translates.

    Args:
        text: a string.
        split: `"sentences"`, `"lines"`, or None for the whole text as one part.
        language: the code of the text's language: see `kt.data.split_sentences`.
        breaks_end_sentences: whether a sentence ends with its line, as in plain text.

    Returns:
        A `SplitText`. Joined, its sentences and `between` are the text, character by character.
    """
    if split is None:
        return SplitText([text], ["", ""])
    sentences, between, end = [], [], 0
    for start, stop in _spans(text, split, language, breaks_end_sentences):
        sentences.append(text[start:stop])
        between.append(text[end:start])
        end = stop
    return SplitText(sentences, [*between, text[end:]])


def with_same_end(translation: str, sentence: str) -> str:
    """Return a translation without a final mark if its sentence has none.

    Args:
        translation: a string.
        sentence: the string that was translated.
    """
    if _ENDS.search(sentence):
        return translation
    return _FINAL.sub("", translation) or translation


def check_split(split: str | None) -> None:
    """Raise a `UserError` if there is no such way to split a text."""
    if split not in SPLITS:
        raise UserError(f'`split` must be "sentences", "lines" or None. Received: split={split!r}')


def check_markup(markup: str | None) -> None:
    """Raise a `UserError` if there is no such markup."""
    if markup is not None:
        check_choice("markup", markup, MARKUPS)


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
