"""Reserved symbols in place of parts that are copied, and training pairs that contain them."""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice

from keras_transformer.data.lexical_translation import most_probable
from keras_transformer.data.mixtures import Mixture, TaggedText
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.text_files import Pair
from keras_transformer.progress import spinner
from keras_transformer.untranslated import PLACEHOLDER, SYMBOLS, TAG

_Spans = tuple[tuple[int, int], tuple[int, int]]  # of a part in the source, and in the target

_COPIED = re.compile(rf"{TAG}|{PLACEHOLDER}")
_WORD = re.compile(r"\w+(?:[.,'’-]\w+)*")
_SHARE = 0.25  # of the pairs get symbols in place of words
_MOST_PAIRS = 50_000  # from which translations of words are learned
_LONGEST = 40  # words of a sentence, there
_RAREST, _MOST_FREQUENT = 3, 0.01  # occurrences of a replaced word: at least, and the share at most


def with_symbols(text: ParallelText, share: float = _SHARE, seed: int = 0) -> ParallelText:
    """Put reserved symbols in place of the parts that both sides of a pair have in common.

    These parts are placeholders, addresses and empty tags. In a share of the pairs, one or two
    words and their translations are replaced too, so that a model learns to copy symbols from a
    text of any kind. They are words that are equal on both sides, such as names and numbers, and
    words that are each the other's most probable translation, by Model 1 of Brown et al. (1993).

    Args:
        text: a `ParallelText`. Each part of a `Mixture` has its own translations of words.
        share: the share of the pairs in which words are replaced: 0 for a text to validate on.
        seed: seed of the pairs, words and symbols that are drawn.

    Returns:
        A `ParallelText` with the same number of pairs.
    """
    if isinstance(text, TaggedText):
        return text.of(with_symbols(text.untagged, share, seed))
    if isinstance(text, Mixture):
        return Mixture([with_symbols(part, share, seed) for part in text.texts], text.ratios)

    @cache
    def words() -> dict[str, str]:
        with spinner("learning translations of words"):
            return translations_of_words(text)

    def pairs() -> Iterator[Pair]:
        known = words() if share else {}
        for number, pair in enumerate(text):
            yield _replaced(pair, known, share, random.Random(f"{seed} {number}"))

    return text.derived(pairs, "symbols", share, seed)


def _replaced(pair: Pair, words: dict[str, str], share: float, generator: random.Random) -> Pair:
    """Return a pair with symbols in place of parts of both sides."""
    spans = _copied_spans(pair)
    if generator.random() < share:
        spans += _word_spans(pair, words, spans, generator)
    symbols = generator.sample(SYMBOLS, min(len(spans), len(SYMBOLS)))
    sides = [*pair]
    for i in range(2):
        # From the end, so that positions stay valid.
        parts = sorted(((both[i], x) for both, x in zip(spans, symbols)), reverse=True)
        for (start, stop), symbol in parts:
            sides[i] = f"{sides[i][:start]}{symbol}{sides[i][stop:]}"
    return sides[0], sides[1]


def _copied_spans(pair: Pair) -> list[_Spans]:
    """Return the spans of placeholders that a source and its translation have equally often."""
    found: tuple[defaultdict, defaultdict] = defaultdict(list), defaultdict(list)
    for spans, side in zip(found, pair):
        for match in _COPIED.finditer(side):
            if match[0][0] != "<" or match[0].endswith("/>"):  # other tags enclose words
                spans[match[0]].append(match.span())
    source, target = found
    return [
        both
        for part, spans in source.items()
        if len(spans) == len(target[part])
        for both in zip(spans, target[part])
    ]


def _word_spans(
    pair: Pair, words: dict[str, str], taken: list[_Spans], generator: random.Random
) -> list[_Spans]:
    """Return the spans of one or two words and of their translations, outside of `taken`."""
    sides = []
    for i, side in enumerate(pair):
        free = [*side]
        for spans in taken:
            free[slice(*spans[i])] = " " * (spans[i][1] - spans[i][0])
        matches = [*_WORD.finditer("".join(free))]
        counts = Counter(match[0].lower() for match in matches)
        sides.append({w: m.span() for m in matches if counts[w := m[0].lower()] == 1})
    source, target = sides
    found = [
        (span, target[other])
        for word, span in source.items()
        if (other := words.get(word, word)) in target
    ]
    generator.shuffle(found)
    return found[: generator.choice((1, 2))]


def translations_of_words(pairs: Iterable[Pair]) -> dict[str, str]:
    """Return words with their translations, each the most probable one of the other.

    Words are in lower case. A word that is too frequent to stand for a name has the translation "".

    Args:
        pairs: iterable of pairs of strings. Only the first 50,000 are used.
    """
    sides, counts = ([], []), (Counter(), Counter())
    for pair in islice(pairs, _MOST_PAIRS):
        for words, count, side in zip(sides, counts, pair):
            found = (match[0].lower() for match in islice(_WORD.finditer(side), _LONGEST))
            words.append([*dict.fromkeys(found)])
            count.update(words[-1])
    sources, targets = sides
    forward, backward = most_probable(sources, targets), most_probable(targets, sources)
    most = max(_RAREST, _MOST_FREQUENT * len(sources))
    translations = {word: "" for word, count in counts[0].items() if count > most}
    for word, other in forward.items():
        occurrences = counts[0][word], counts[1][other]
        if backward[other] == word and min(occurrences) >= _RAREST and max(occurrences) <= most:
            translations[word] = other
    return translations
