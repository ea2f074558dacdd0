"""Reserved symbols in place of parts that are copied, and training pairs that contain them."""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice

import numpy as np

from keras_transformer.data.mixtures import Mixture, TaggedText
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.text_files import Pair
from keras_transformer.progress import spinner
from keras_transformer.untranslated import PLACEHOLDER, SYMBOLS, TAG

_COPIED = re.compile(rf"{TAG}|{PLACEHOLDER}")
_WORD = re.compile(r"\w+(?:[.,'’-]\w+)*")
_SHARE = 0.25  # of the pairs get symbols in place of words
_MOST_PAIRS = 50_000  # from which translations of words are learned
_LONGEST = 40  # words of a sentence, there
_ITERATIONS = 4
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
    words: dict[str, str] = {}
    if share:
        with spinner("learning translations of words"):
            words = translations_of_words(text)

    def pairs():
        for number, pair in enumerate(text):
            yield _replaced(pair, words, share, random.Random(f"{seed} {number}"))

    languages = text.source_language, text.target_language
    return ParallelText(text.name, text.split, *languages, pairs, text.bleu_tokenize)


def _replaced(pair: Pair, words: dict[str, str], share: float, generator: random.Random) -> Pair:
    """Return a pair with symbols in place of parts of both sides."""
    spans = _copied_spans(pair)
    if generator.random() < share:
        spans += _word_spans(pair, words, spans, generator)
    symbols = generator.sample(SYMBOLS, min(len(spans), len(SYMBOLS)))
    source, target = pair
    # From the end, so that positions stay valid.
    parts = [(*of_pair, symbol) for of_pair, symbol in zip(spans, symbols)]
    for (start, stop), _, symbol in sorted(parts, reverse=True):
        source = f"{source[:start]}{symbol}{source[stop:]}"
    for _, (start, stop), symbol in sorted(parts, key=lambda x: x[1], reverse=True):
        target = f"{target[:start]}{symbol}{target[stop:]}"
    return source, target


def _copied_spans(pair):
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


def _word_spans(pair, words, taken, generator):
    """Return the spans of one or two words and of their translations, outside of `taken`."""
    sides = []
    for i, side in enumerate(pair):
        kept = [spans[i] for spans in taken]
        matches = [
            m
            for m in _WORD.finditer(side)
            if not any(start < m.end() and m.start() < stop for start, stop in kept)
        ]
        once = Counter(m[0].lower() for m in matches)
        sides.append({m[0].lower(): m for m in matches if once[m[0].lower()] == 1})
    source, target = sides
    found = []
    for word, match in source.items():
        other = target.get(words.get(word, ""))
        same = target.get(word)
        if other is None and same is not None and same[0] == match[0] and word not in words:
            other = same
        if other is not None and words.get(word) != "":
            found.append((match.span(), other.span()))
    generator.shuffle(found)
    return found[: generator.choice((1, 2))]


def translations_of_words(pairs: Iterable[Pair]) -> dict[str, str]:
    """Return words with their translations, each the most probable one of the other.

    Words are in lower case. A word that is too frequent to stand for a name has the translation "".

    Args:
        pairs: iterable of pairs of strings, of which the first 50,000 are used.
    """
    numbers: tuple[dict[str, int], dict[str, int]] = {}, {}
    sides, counts = ([], []), (Counter(), Counter())
    for pair in islice(pairs, _MOST_PAIRS):
        for ids, known, count, side in zip(sides, numbers, counts, pair):
            found = dict.fromkeys(m[0].lower() for m in islice(_WORD.finditer(side), _LONGEST))
            ids.append([known.setdefault(word, len(known)) for word in found])
            count.update(list(found))
    names = [[*known] for known in numbers]
    forward, backward = _most_probable(*sides), _most_probable(*sides[::-1])
    most = max(_RAREST, _MOST_FREQUENT * len(sides[0]))
    words = {word: "" for word, count in counts[0].items() if count > most}
    for word, other in forward.items():
        pair = names[0][word], names[1][other]
        occurrences = [count[name] for count, name in zip(counts, pair)]
        if backward.get(other) == word and _RAREST <= min(occurrences) and max(occurrences) <= most:
            words[pair[0]] = pair[1]
    return words


def _most_probable(
    sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> dict[int, int]:
    """Return the most probable target word of each source word (Model 1: Brown et al., 1993)."""
    # Each target word comes from one of the source words of its pair.
    sizes = [len(x) for x, y in zip(sources, targets) for _ in y]
    groups = np.repeat(np.arange(len(sizes)), sizes)
    flat = partial(np.fromiter, dtype="int64", count=len(groups))
    source = flat(i for x, y in zip(sources, targets) for _ in y for i in x)
    target = np.repeat(np.fromiter((j for y in targets for j in y), "int64"), sizes)
    if not len(groups):
        return {}
    keys, links = np.unique(source * (target.max() + 1) + target, return_inverse=True)
    of_source, of_target = np.divmod(keys, target.max() + 1)
    probabilities = np.ones(len(keys))
    for _ in range(_ITERATIONS):
        shares = probabilities[links]
        shares /= np.bincount(groups, shares)[groups]
        counts = np.bincount(links, shares)
        probabilities = counts / np.bincount(of_source, counts)[of_source]
    order = np.argsort(probabilities, kind="stable")  # the last one of a word stays
    return dict(zip(of_source[order].tolist(), of_target[order].tolist()))
