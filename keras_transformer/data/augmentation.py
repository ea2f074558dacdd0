"""Training pairs in the forms of text as it comes: capitals, titles, typos, no final full stop.

The forms are modeled on OpusTrainer's (https://github.com/hplt-project/OpusTrainer).
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from unicodedata import normalize

from keras_transformer.data.mixtures import Mixture, TaggedText
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.text_files import Pair
from keras_transformer.errors import UserError
from keras_transformer.language_codes import language_code
from keras_transformer.untranslated import UNTRANSLATED

FORMS = ("upper", "title", "typo", "no_end")

# Placeholders, markup and tags such as `<2fr>`, which no form changes; or a word.
_PARTS = re.compile(rf"{UNTRANSLATED.pattern}|<[^<>\s]+>|>>\w+<<|(?P<word>\w+(?:['’]\w+)*)")
# A word for a typo: letters of a script that puts spaces between words.
_LETTERS = re.compile("[^\\W\\d_\u0e00-\u109f\u1780-\u17ff\u2e80-\uabff\uf900-\ufaff]{4,}")
_KEYS = " qwertyuiop asdfghjkl zxcvbnm "
_FULL_STOP = re.compile(r"(?<=[^\s.])[.。．｡।።۔](?=\s*$)")


def in_form(form: str, pair: Pair, languages: Sequence[str], generator: random.Random) -> Pair:
    """Return a pair in one of the forms, or unchanged if it cannot have it.

    Args:
        form: one of `FORMS`.
        pair: tuple of the source and the target.
        languages: the codes of their languages.
        generator: the `random.Random` that draws a typo.
    """
    if form == "typo":
        return _with_typo(pair[0], generator), pair[1]
    if form == "no_end":
        source, target = (_FULL_STOP.sub("", side) for side in pair)
        return (source, target) if source != pair[0] and target != pair[1] else pair
    source, target = (_cased(*side, form) for side in zip(pair, languages))
    return source, target


def _cased(text: str, language: str, form: str) -> str:
    """Return a text in capitals, or with a capital at the beginning of each word."""
    code, is_upper = language_code(language), form == "upper"

    def changed(part: re.Match) -> str:
        word = part["word"] or ""
        start = word if is_upper else word[:1]
        cased = start.replace("i", "İ") if code in ("tr", "az") else start
        cased = cased.upper() if is_upper else cased.title()
        if code == "el" and is_upper:  # Greek capitals have no accents, but keep a dialytika.
            cased = normalize("NFC", normalize("NFD", cased).replace("\u0301", ""))
        return cased + part[0][len(start) :]

    return _PARTS.sub(changed, text)


def _with_typo(text: str, generator: random.Random) -> str:
    """Swap, drop, double or replace one letter of a word, but not its first or last."""
    words = [x.span() for x in _PARTS.finditer(text) if _LETTERS.fullmatch(x["word"] or "")]
    if not words:
        return text
    start, stop = generator.choice(words)
    i = generator.randrange(start + 1, stop - 1)
    letter, following, key = text[i], text[i + 1], _KEYS.find(text[i])
    near = (_KEYS[key - 1] + _KEYS[key + 1]).strip() if key > 0 else letter
    typos = (
        following + letter,
        following,
        2 * letter + following,
        generator.choice(near) + following,
    )
    return text[:i] + generator.choice(typos) + text[i + 2 :]


def parse_shares(augment: str) -> dict[str, float]:
    """Return the share of each form.

    Args:
        augment: the option, such as `"upper=0.07,typo=0.05"`.

    Raises:
        UserError: if a form is unknown or given twice, a share is not a number from 0 to 1, or the
            shares leave no pair as it is.
    """
    try:
        entries = [entry.strip().split("=") for entry in augment.split(",")]
        shares = {form: float(share) for form, share in entries}
        is_valid = len(shares) == len(entries) and shares.keys() <= {*FORMS}
        is_valid &= all(0 <= share <= 1 for share in shares.values()) and sum(shares.values()) < 1
    except (AttributeError, ValueError):
        shares, is_valid = {}, False
    if not is_valid:
        raise UserError(
            f"`augment` must be FORM=SHARE entries separated by commas, with the forms "
            f"{', '.join(FORMS)}, each at most once, and shares from 0 to 1 whose sum is less than "
            f"1. Received: augment={augment!r}"
        )
    return shares


def augmented(text: ParallelText, shares: Mapping[str, float], seed: int = 0) -> Mixture:
    """Mix the pairs of a text with their forms, each of which has a share of an epoch's pairs.

    An epoch holds all pairs as they are, and a new sample of each form. The forms do not combine.

    Args:
        text: a `ParallelText`. Each part of a `Mixture` has its own forms, and each source keeps
            its tags.
        shares: the result of `parse_shares`.
        seed: seed of the typos.

    Returns:
        A `Mixture`, so that batches are planned for the lengths of the forms.
    """
    text = text if isinstance(text, Mixture) else Mixture([text])
    texts, ratios = [*text.texts], text.ratios or [None] * len(text.texts)
    one = len(texts[0]) / (ratios[0] or 1) * (1 - sum(shares.values()))
    for form, share in shares.items():
        if share:
            texts += [_in_form(part, form, seed) for part in text.texts]
            ratios = [*ratios, *(count * share / one for count in text.counts)]
    return Mixture(texts, ratios)


def _in_form(text: ParallelText, form: str, seed: int) -> ParallelText:
    if isinstance(text, TaggedText):
        return text.of(_in_form(text.untagged, form, seed))
    languages = text.source_language, text.target_language

    def pairs() -> Iterator[Pair]:
        for number, pair in enumerate(text):
            yield in_form(form, pair, languages, random.Random(f"{seed} {number}"))

    return text.derived(pairs, "form", form, seed)
