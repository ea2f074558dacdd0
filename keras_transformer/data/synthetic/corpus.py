"""The examples of the built-in corpus: distinct sentences, each in one split."""

import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from keras_transformer.data.synthetic import lexicon
from keras_transformer.data.synthetic.english import english_text, english_tokens, english_tree
from keras_transformer.data.synthetic.german import german_text
from keras_transformer.data.synthetic.sampler import Sampler
from keras_transformer.errors import UserError

SPLITS = ("train", "val", "test")

# Draws without a new sentence after which the grammar counts as exhausted for the split.
MAX_TRIES = 20_000

# Tokens of a sentence, the final stop among them.
_MIN_TOKENS, _MAX_TOKENS = 5, 20
# Words of which a sentence bears one: their scopes would clash.
_SCOPED = re.compile(r"\((?:rb|dt) (?:no|not|never|every|often|always|sometimes)\)")
_SINGULAR_FORMS = {noun.plural: noun.english for noun in lexicon.NOUNS}
_CONTENT_WORDS = re.compile(r"\((?:nns?|jj) (\w+)\)")


class SyntheticExample(NamedTuple):
    """One sentence in both languages, with the parse tree of the English one.

    Args:
        english: The English sentence, as one writes it.
        german: Its German translation.
        tree: Penn Treebank brackets on one line; the leaves are the tokens of `english`.
    """

    english: str
    german: str
    tree: str


def split_of(english: str) -> str:
    """The split to which an English sentence belongs, whatever the seed: 5 % val, 5 % test.

    Args:
        english: The English sentence.

    Returns:
        "train", "val" or "test".
    """
    bucket = zlib.crc32(english.encode()) % 100
    return "val" if bucket < 5 else "test" if bucket < 10 else "train"


def generate(split: str, size: int, seed: int = 0) -> Iterator[SyntheticExample]:
    """Distinct sentences of one split, the same for equal arguments on every machine.

    The split of a sentence follows from its English words alone, so the splits stay disjoint
    whatever sizes and seeds are asked for. Less is always the beginning of more.

    Args:
        split: "train", "val" or "test".
        size: Number of examples.
        seed: Seed of the draw.

    Returns:
        An iterator over `size` examples.

    Raises:
        UserError: If `split` is unknown or `size` is negative; while iterating, if the grammar
            has no more sentences for the split within `MAX_TRIES` draws.
    """
    if split not in SPLITS:
        raise UserError(f"`split` must be one of 'train', 'val', 'test'. Received: split={split!r}")
    if size < 0:
        raise UserError(f"`size` must not be negative. Received: size={size}")
    return _examples(split, size, seed)


def _examples(split: str, size: int, seed: int) -> Iterator[SyntheticExample]:
    sampler = Sampler(seed)
    seen: set[str] = set()
    while len(seen) < size:
        for _ in range(MAX_TRIES):
            sentence = sampler.sentence()
            tree = english_tree(sentence)
            if _is_clumsy(tree):
                continue
            english = english_text(tree)
            if split_of(english) == split and english not in seen:
                break
        else:
            raise UserError(
                f"The grammar gave no new sentence of split={split!r} in {MAX_TRIES} draws: ask "
                f"for at most {len(seen)} examples. Received: size={size}"
            )
        seen.add(english)
        yield SyntheticExample(english, german_text(sentence), tree)


def _is_clumsy(tree: str) -> bool:
    """Whether a sentence repeats a word, piles up quantifiers, is too short or too long."""
    tree = tree.lower()
    words = [_SINGULAR_FORMS.get(word, word) for word in _CONTENT_WORDS.findall(tree)]
    return (
        len(set(words)) < len(words)
        or len(_SCOPED.findall(tree)) > 1
        # "no man must" forbids, "kein Mann muss" does not.
        or ("(dt no)" in tree and "(md must)" in tree)
        or not _MIN_TOKENS <= len(english_tokens(tree)) <= _MAX_TOKENS
    )
