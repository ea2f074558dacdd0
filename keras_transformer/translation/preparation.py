"""From texts of any length to the sentences and ids that a model reads."""

import dataclasses
import importlib
import itertools
import re
import reprlib
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from keras_transformer.data.languages import LanguageVotes
from keras_transformer.data.text_lines import split_sentences, without_surrogates
from keras_transformer.errors import UserError
from keras_transformer.language_codes import is_language_code
from keras_transformer.protection.pieces import joined
from keras_transformer.protection.protected import Protected, protect
from keras_transformer.protection.spans import MarkedText
from keras_transformer.reserved_ids import UNKNOWN_ID
from keras_transformer.tasks.task import validate_sentence
from keras_transformer.translation.prepared_text import SENTENCE_END, PreparedText, SplitText
from keras_transformer.validation import check_strings

if TYPE_CHECKING:
    from keras_transformer.documents.text_part import TextPart
    from keras_transformer.translation.translator import Translator

Markup = Literal["html", "markdown"]

_MODULES = {"html": "html_document", "markdown": "markdown"}
SPLITS = ("sentences", "lines", None)
# The line breaks of `str.splitlines`.
_LINE_BREAK = re.compile("\r\n|[\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
# "- ", "1) ", "(a) ". The splitter takes "1." for a sentence, which has no letter.
_BULLET = re.compile(r"\s*(?:[-*+•◦▪‣·–—]|\(?(?:\d{1,3}|[a-z])\))\s+")
# Where a long sentence may be divided: after the punctuation of a clause, or else at white space.
_CLAUSE_ENDS = (re.compile(r"(?<=[,;:،؛])\s+|(?<=[，、；：])"), re.compile(r"\s+"))
_FIRST_WORD = re.compile(r"\s*(<[^<>]+>|\S+)\s*")
_MOST_NAMED, _MOST_SHOWN = 5, 20  # sources and characters in a warning


def prepare_windows(
    translator: "Translator",
    windows: Iterable[Sequence[Any]],
    split: str | None,
    same_ends: bool = False,
) -> Iterator[list[PreparedText]]:
    """Prepare the windows of a stream, and warn once if texts are not translated as expected.

    Args:
        translator: a `Translator`.
        windows: iterable of lists of texts, as for `prepare_texts`.
        split: as for `split_text`.
        same_ends: see `PreparedText`.
    """
    first, is_warned, votes = 0, False, translator.language_votes()
    for window in windows:
        texts = prepare_texts(translator, window, split, first, same_ends)
        is_warned = is_warned or _warn(texts, first, translator.source_limit(), votes)
        first += len(texts)
        yield texts


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
    found = [[_split_unit(translator, x, tags, split) for x in row] for row, _, tags in units]
    # All sentences are tokenized at once.
    pairs = iter(_with_ids(translator, [unit for row in found for unit, _ in row], split))
    for (index, text), (_, part, _), row in zip(new, units, found):
        own = [*itertools.islice(pairs, len(row))]
        unknown = "".join(lacked for _, lacked in row)
        texts[index - first] = _prepared(translator, text, part, own, unknown, same_ends)
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


def _part(translator: "Translator", text: str) -> "TextPart | None":
    """Return a text with markup as a `TextPart`."""
    if translator.markup is None:
        return None
    module = importlib.import_module(f"keras_transformer.documents.{_MODULES[translator.markup]}")
    part = getattr(module, f"{translator.markup}_part")(text)
    languages = (translator.metadata.get(side) for side in ("source", "target"))
    part.source_lang, part.target_lang = (x if is_language_code(x) else None for x in languages)
    return part


def _split_unit(
    translator: "Translator", text: str | MarkedText, tags: str, split: str | None
) -> tuple[SplitText, str]:
    """Return the sentences of a text, and the characters in it that the vocabulary lacks."""
    protected, unknown = protected_text(translator, text, split)
    language = str(translator.metadata.get("source", "en"))
    found = split_text(protected.text, split, language, not protected.marked.is_wrapped)
    is_whole = isinstance(text, str) and not (protected.pieces or protected.replaced)
    tags = tags if split is None else _LINE_BREAK.sub(" ", tags)
    unit = dataclasses.replace(
        found,
        sentences=[tags + sentence for sentence in found.sentences],
        protected=None if is_whole else protected,
        tags=tags,
    )
    return unit, unknown


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
    found = protect(text, patterns, preprocessor.has_symbols, source=source, lacked=lacked)
    return found, "".join(x for x in unknown if x in found.text)


def _is_symbol(letter: str) -> bool:
    """Return whether a character stands for itself: no letter, digit or mark of a sentence."""
    kind = unicodedata.category(letter)[0]
    is_mark = kind == "P" and not letter.isascii() and not SENTENCE_END.match(letter)
    return kind in "SC" or is_mark


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
    for start, stop in _sentence_spans(text, split, language, breaks_end_sentences):
        sentences.append(text[start:stop])
        between.append(text[end:start])
        end = stop
    return SplitText(sentences, [*between, text[end:]])


def _sentence_spans(
    text: str, split: str, language: str, breaks_end_sentences: bool
) -> Iterator[tuple[int, int]]:
    """Yield start and stop of each sentence or line, without white space around it."""
    for start, stop in _line_spans(text) if breaks_end_sentences else [(0, len(text))]:
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


def _line_spans(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line_break in _LINE_BREAK.finditer(text):
        yield start, line_break.start()
        start = line_break.end()
    yield start, len(text)


def _with_ids(
    translator: "Translator", units: Sequence[SplitText], split: str | None
) -> Iterator[tuple[SplitText, list[list[int]]]]:
    """Yield units, whose long sentences are divided, with all ids of each sentence."""
    preprocessor = translator.preprocessor
    limits = translator.source_limit(), translator.metadata.get("longest_source")
    room = preprocessor.room(min((x for x in limits if x is not None), default=None))
    rows = iter(preprocessor.token_ids([x for unit in units for x in unit.sentences]))

    def fits(sentence: str) -> bool:
        (ids,) = preprocessor.token_ids([sentence])
        return room is None or len(ids) <= room

    for unit in units:
        ids = [*itertools.islice(rows, len(unit.sentences))]
        is_long = [room is not None and len(x) > room for x in ids]
        if split is not None and any(is_long):
            unit = with_divided_sentences(unit, is_long, fits)
            if unit.is_divided:
                ids = preprocessor.token_ids(unit.sentences)
        yield unit, ids


def with_divided_sentences(
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


def _prepared(
    translator: "Translator",
    text: str | MarkedText,
    part: "TextPart | None",
    pairs: Sequence[tuple[SplitText, list[list[int]]]],
    unknown: str,
    same_ends: bool,
) -> PreparedText:
    preprocessor, limit = translator.preprocessor, translator.source_limit()
    room, tokenizer = preprocessor.room(limit), preprocessor.source_tokenizer
    token_ids = [ids for _, rows in pairs for ids in rows]
    has_unknown = any(UNKNOWN_ID in ids for ids in token_ids)
    return PreparedText(
        text,
        [unit for unit, _ in pairs],
        preprocessor.as_sources(token_ids, limit),
        is_cut=room is not None and any(len(ids) > room for ids in token_ids),
        is_unknown=bool(token_ids) and all(map(tokenizer.is_unknown, token_ids)),
        has_unknown=has_unknown,
        unknown="".join(sorted({*unknown})) if has_unknown else "",
        same_ends=same_ends,
        part=part,
    )


def _warn(
    texts: Sequence[PreparedText], first: int, limit: int | None, votes: LanguageVotes
) -> bool:
    """Warn if texts are not read whole or are in another language, and return whether they are."""
    other_language = votes.add_all([text.text for text in texts])
    message = f"{_parts_not_read(texts, first, limit)} {other_language}".strip()
    if message:
        warnings.warn(message, UserWarning, stacklevel=_level_of_caller())
    return bool(message)


def _parts_not_read(texts: Sequence[PreparedText], first: int, limit: int | None) -> str:
    """Return a message about the texts that are not read completely, or an empty string."""
    unknown = "".join(sorted({*"".join(text.unknown for text in texts)}))
    lacking = f"characters that the vocabulary lacks ({unknown[:_MOST_SHOWN]}) in"
    found = {lacking: [], f"more than {limit} tokens in": []}
    for index, text in enumerate(texts, first):
        shown = f"sentences[{index}]={reprlib.repr(str(text.source))}"
        for sentences, is_found in zip(found.values(), (text.has_unknown, text.is_cut)):
            if is_found:
                sentences.append(shown)
    parts = [
        f"{remark} {', '.join(sentences[:_MOST_NAMED])}"
        + (", ..." if len(sentences) > _MOST_NAMED else "")
        for remark, sentences in found.items()
        if sentences
    ]
    return f"Sources are not read whole: {'; '.join(parts)}." if parts else ""


def _level_of_caller() -> int:
    """Return the level at which `warnings.warn` names the line that called the package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith("keras_transformer."):
        level, frame = level + 1, frame.f_back
    return level


def read_pairs(
    translator: "Translator",
    sources: Iterable[str],
    translations: Iterable[str | None],
    split: str | None,
) -> tuple[list[str], list[Any]]:
    """Return the result of `Translator.texts_read`."""
    read_sources, read_translations = [], []
    for source, translation in zip(sources, translations):
        validate_sentence(source)
        read = _read_text(translator, source, split)
        read_sources.append(read.text)
        if translation is not None:
            translation = _read_text(translator, translation, split, read).text
        read_translations.append(translation)
    return read_sources, read_translations


def _read_text(
    translator: "Translator", text: str, split: str | None, source: Protected | None = None
) -> Protected:
    """Return a text as `Protected`, as one sentence with all the units of its markup."""
    units, part, tags = _units(translator, text, 0)
    parts = [x for unit in units for x in ("\n\n", unit)][1:]
    whole = units[0] if part is None else joined(parts)
    found, _ = protected_text(translator, whole, split, source)
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


def validate_split(split: str | None) -> None:
    """Raise a `UserError` if there is no such way to split a text."""
    if split not in SPLITS:
        raise UserError(f'`split` must be "sentences", "lines" or None. Received: split={split!r}')
