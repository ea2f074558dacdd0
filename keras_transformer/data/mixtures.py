"""Mixtures of several corpora, and tags that tell the model which corpus a source is from."""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, partial
from pathlib import Path

from keras_transformer.data.corpora import load_parallel_text
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.text_cache import cache_key
from keras_transformer.data.text_files import Pair
from keras_transformer.errors import UserError

logger = logging.getLogger(__name__)

_SEVERAL = "mul"  # ISO 639: several languages


class TaggedText(ParallelText):
    """A text with tags before each source: `<2de> A dog runs.`

    Tags for the target language let one model learn many directions (Johnson et al., 2017). A tag
    for back-translations lets it distinguish them from other sources (tagged back-translation:
    Caswell et al., 2019). In a training, each tag is a token of the vocabulary.

    Args:
        text: a `ParallelText`.
        *tags: strings without white space, such as `"<2de>"`.

    Attributes:
        untagged: the text without the tags.

    Raises:
        UserError: if there is no tag, or a tag is empty or contains white space.
    """

    def __init__(self, text: ParallelText, *tags: str):
        if not tags or any(len(tag.split()) != 1 or tag.strip() != tag for tag in tags):
            raise UserError(
                f"Tags must be words without white space. Received: {', '.join(map(repr, tags))}"
            )
        before = " ".join(tags)
        super().__init__(
            text.name,
            text.split,
            text.source_language,
            text.target_language,
            lambda: ((f"{before} {source}", target) for source, target in text),
            text.bleu_tokenize,
            validate=False,
        )
        self.key = cache_key("tags", tags, text.key)
        self.untagged = text
        self.prefix = (*tags, *text.prefix)
        self.tags = _union(tags, text.tags)
        self._own_tags = tags

    def of(self, text: ParallelText) -> "TaggedText":
        """Return another text with the same tags.

        Args:
            text: a `ParallelText`.

        Returns:
            A `TaggedText`.
        """
        return TaggedText(text, *self._own_tags)


class Mixture(ParallelText):
    """The pairs of several texts, at given ratios.

    The pairs of the first text occur once. The number of pairs from another text is its ratio times
    the number of pairs in the first text: small texts are repeated, and large texts are sampled.
    Iterating takes a sample at even distances; each epoch of a training takes another sample.

    Args:
        texts: `ParallelText`s, also `TaggedText`s.
        ratios: one number per text, such as `(1, 0.5)`: the pairs of the text for each pair of the
            first. If the first ratio is not 1, all ratios are relative to it. None, for one text or
            for all, includes each pair of the text once.

    Attributes:
        texts: the texts.
        ratios: their ratios, or None.

    Raises:
        UserError: if there is no text, or there is not one positive ratio per text.
    """

    def __init__(self, texts: Sequence[ParallelText], ratios: Sequence[float | None] | None = None):
        self.texts = list(texts)
        self.ratios = None if ratios is None else list(ratios)
        if not self.texts:
            raise UserError("`texts` must contain at least one text. Received: texts=[]")
        epoch_counts([1] * len(self.texts), self.ratios)  # raises an error for wrong ratios
        first = self.texts[0]
        names = ("source_language", "target_language")
        sides = ({getattr(text, name) for text in self.texts} for name in names)
        source, target = (side.pop() if len(side) == 1 else _SEVERAL for side in sides)
        name = "+".join(dict.fromkeys(text.name for text in self.texts))
        form = first.bleu_tokenize
        super().__init__(name, first.split, source, target, self._pairs_of_all, form, False)
        self.key = cache_key("mixture", repr(self.ratios), *(text.key for text in self.texts))
        self.tags = _union(*(text.tags for text in self.texts))

    @cached_property
    def counts(self) -> list[int]:
        """The number of pairs from each text."""
        return epoch_counts([len(text) for text in self.texts], self.ratios)

    @property
    def is_tagged(self) -> bool:
        return all(text.is_tagged for text in self.texts)

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of all sentences of the texts, and of the ratios if given."""
        if self.ratios is None:
            return super().fingerprint()
        prints = [text.fingerprint() for text in self.texts]
        return hashlib.sha256(repr((prints, self.ratios)).encode()).hexdigest()

    def _pairs_of_all(self) -> Iterator[Pair]:
        for text, count in zip(self.texts, self.counts):
            for _ in range(count // len(text)):
                yield from text
            rest = count % len(text)
            for number, pair in enumerate(text if rest else ()):
                if (number + 1) * rest // len(text) > number * rest // len(text):
                    yield pair


def epoch_counts(lengths: Sequence[int], ratios: Sequence[float | None] | None) -> list[int]:
    """Return the number of pairs from each text of a mixture.

    Args:
        lengths: the number of pairs in each text.
        ratios: the ratios, as for `Mixture`.

    Raises:
        UserError: if there is not one positive ratio per text, or the first text is empty.
    """
    if ratios is None:
        return [*lengths]
    given = [ratio for ratio in ratios if ratio is not None]
    if len(ratios) != len(lengths) or not all(0 < ratio < float("inf") for ratio in given):
        raise UserError(
            f"`ratios` must be {len(lengths)} positive numbers, one per text. Received: "
            f"ratios={ratios}"
        )
    if not lengths[0]:
        raise UserError(
            "The first text must not be empty: the ratios refer to it. Received: 0 pairs"
        )
    one = lengths[0] / (ratios[0] or 1)
    counts = (None if ratio is None else max(1, round(one * ratio)) for ratio in ratios)
    return [length if count is None else count for length, count in zip(lengths, counts)]


def _union(*tags: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(tag for some in tags for tag in some))


@dataclass(kw_only=True)
class MixtureOptions:
    """Options for several corpora in one training."""

    also: tuple[str, ...] = ()
    """Further corpora to train on, such as source=de,target=en or data_dir=bt,tag=<bt>,ratio=2. The
    entries are dataset, source, target and data_dir, which default to those of the first corpus; a
    tag to put before each source; and ratio, the pairs per epoch for each pair of the first corpus,
    which occurs once. Small corpora are repeated, and large corpora are sampled anew in each epoch.
    Without a ratio, all pairs occur once. Sentences that are held out of the first corpus are
    excluded from the others."""
    tag_target: bool = False
    """Put a tag for the target language, such as <2de>, before each source."""


@dataclass(frozen=True, kw_only=True)
class _Part:
    """One corpus, as an entry of `also` describes it."""

    dataset: str
    source: str
    target: str
    data_dir: Path | None
    tag: str | None = None
    ratio: float | None = None

    def load(self, split: str, hold_out: bool = True) -> ParallelText:
        where = self.dataset, split, self.source, self.target, self.data_dir
        return load_parallel_text(*where, hold_out, validate=False)

    def tagged(self, text: ParallelText, tag_target: bool) -> ParallelText:
        tags = [f"<2{self.target}>"] if tag_target else []
        if self.tag:
            tags.append(self.tag)
        return TaggedText(text, *tags) if tags else text


def load_mixture(
    dataset: str,
    split: str,
    source: str,
    target: str,
    data_dir: Path | None,
    options: MixtureOptions,
) -> ParallelText:
    """Load a split of a corpus by name, and for `"train"` the corpora that `options` add.

    Args:
        dataset: name of the corpus, as for `load_parallel_text`.
        split: `"train"`, `"val"` or `"test"`.
        source: language code of the source.
        target: language code of the target.
        data_dir: folder of the corpora.
        options: `MixtureOptions`.

    Returns:
        A `ParallelText`: a `Mixture` of several corpora, or a `TaggedText` if one corpus has tags.
        Its first complete pass counts the pairs, and reports a damaged file.

    Raises:
        UserError: if an option or an argument is not valid, or a file is missing.
    """
    first = _Part(dataset=dataset, source=source, target=target, data_dir=data_dir)
    others = [_parse(spec, first) for spec in options.also if split == "train"]
    texts = [first.load(split)]
    texts += [_without_held_out(part.load(split, hold_out=False), texts[0]) for part in others]
    texts = [part.tagged(text, options.tag_target) for part, text in zip((first, *others), texts)]
    if not others:
        return texts[0]
    ratios = [part.ratio for part in others]
    return Mixture(texts, None if set(ratios) == {None} else [1.0, *ratios])


def _without_held_out(text: ParallelText, other: ParallelText) -> ParallelText:
    """Return a text without the pairs that contain a held-out sentence of another text."""
    # Once, although there are several passes.
    log = cache(partial(logger.info, "%s pairs of %r are skipped: they contain held-out sentences"))

    def pairs() -> Iterator[Pair]:
        sentences, num_skipped = other.held_out, 0
        for pair in text:
            if sentences.isdisjoint(pair):
                yield pair
            else:
                num_skipped += 1
        if num_skipped:
            log(f"{num_skipped:,}", text)

    return text.derived(pairs, "without held-out", other.key)


def _parse(spec: str, first: _Part) -> _Part:
    entries = (entry.partition("=") for entry in spec.split(","))
    values = {name: value for name, _, value in entries}
    kinds = {"data_dir": Path, "ratio": float}
    try:
        if not all(values.values()):
            raise ValueError
        return replace(first, **{k: kinds.get(k, str)(v) for k, v in values.items()})
    except (TypeError, ValueError):
        names = ", ".join(field.name for field in fields(_Part))
        raise UserError(
            f"`also` must be NAME=VALUE entries separated by commas, with the names {names}, where "
            f"ratio is a number. Received: also={spec!r}"
        ) from None
