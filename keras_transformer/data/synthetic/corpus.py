"""The built-in corpus: distinct sampled sentences, each in one split."""

import random
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, tee
from typing import NamedTuple, TypeVar

from keras_transformer.data.synthetic import grammar
from keras_transformer.data.synthetic.english import english_text, english_tokens, english_tree
from keras_transformer.data.synthetic.german import german_text
from keras_transformer.data.synthetic.grammar import (
    BE,
    Adjective,
    Clause,
    Compound,
    Conjunction,
    Gap,
    Noun,
    NounPhrase,
    Pair,
    Phrase,
    Place,
    Pronoun,
    Sentence,
    Subordinate,
    Verb,
    is_definite,
)
from keras_transformer.errors import UserError

Option = TypeVar("Option")

_TENSES = ("present",) * 8 + ("past",) * 5 + ("perfect",) * 3 + ("can", *grammar.PLANS)
_RELATIVE_TENSES = ("present", "present", "past", "past", "perfect", "can", "want")
_SINGULAR = ("the",) * 9 + ("a",) * 5 + ("my", "his", "her", "our", "this", "this", "every", "no")
_PLURAL = ("the",) * 7 + ("my", "his", "her", "our", "this", "two", "three", "no", "", "", "")
_MASS = ("the",) * 4 + ("my", "his", "her", "our", "this", "no", "", "", "", "")
_POSSESSIVES = ("my", "his", "her", "our")
_LIVING = ("person", "animal")
_ACTIONS = tuple(verb for verb in grammar.VERBS if not verb.conjunction)
_REPORTS = tuple(verb for verb in grammar.VERBS if verb.conjunction)
_VERBS_BY_SUBJECT = {kind: tuple(v for v in _ACTIONS if kind in v.subjects) for kind in _LIVING}
_PRONOUNS = tuple(grammar.PRONOUNS.values())
_COORDINATORS = tuple(grammar.COORDINATORS)
_TIMES = {
    tense: tuple(time for time in grammar.TIMES if tense in time.tenses) for tense in set(_TENSES)
}
SPLITS = ("train", "val", "test")

# Draws without a new sentence after which the grammar counts as exhausted for the split.
MAX_TRIES = 20_000

# Tokens of a sentence, the final stop among them.
_MIN_TOKENS, _MAX_TOKENS = 5, 20
# Words that may occur only once in a sentence: their scopes would clash.
_SCOPED = re.compile(r"\((?:rb|dt) (?:no|not|never|every|often|always|sometimes)\)")
_SINGULAR_FORMS = {noun.plural: noun.english for noun in grammar.NOUNS}
_CONTENT_WORDS = re.compile(r"\((?:nns?|jj) (\w+)\)")


class Sampler:
    """A sampler of sentences.

    It uses only `Random.random`, whose stream is the same in all versions.
    """

    def __init__(self, seed: int):
        self.random = random.Random(seed).random

    def chance(self, probability: float) -> bool:
        return self.random() < probability

    def choose(self, options: Sequence[Option]) -> Option:
        return options[int(self.random() * len(options))]

    def sentence(self) -> Sentence:
        shape = self.random()
        if shape < 0.56:
            return self.front(self.clause(self.choose(_TENSES), relatives=0.22))
        if shape < 0.7:
            return self.report()
        if shape < 0.87:
            return self.complex()
        return self.compound()

    def report(self) -> Clause:
        """Return a clause that reports another: "The man says that the dog sleeps"."""
        verb = self.choose(_REPORTS)
        tense = self.choose(("present", "present", "past", "perfect"))
        inner = self.clause(self.choose(("past",) if tense == "past" else _TENSES), 0.1, 0.4)
        if _ends_in_relative(inner):
            inner = inner._replace(time=None)
        word = Conjunction(verb.conjunction, grammar.CONTENT[verb.conjunction], ())
        main = self.fill(verb, tense, adverbials=0.5)
        return self.front(main._replace(subordinate=Subordinate(word, inner)))

    def complex(self) -> Clause:
        """Return a clause with an adverbial clause: "When the man sleeps, the dog dances"."""
        conjunction = self.choose(grammar.SUBORDINATORS)
        tense = self.choose([tense for tense in _TENSES if tense in conjunction.tenses])
        main = self.clause(tense, adverbials=0.0)
        inner = self.clause(self.inner_tense(conjunction, tense), adverbials=0.3)
        main = main._replace(subordinate=Subordinate(conjunction, inner))
        return main._replace(fronted="subordinate") if self.chance(0.45) else self.front(main)

    def inner_tense(self, conjunction: Conjunction, tense: str) -> str:
        """Return the tense of an adverbial clause whose main clause has `tense`."""
        if tense == "past":
            return "past"
        is_reason = conjunction.english in ("because", "although")
        return "can" if is_reason and self.chance(0.3) else "present"

    def compound(self) -> Compound:
        """Return two main clauses: "The man sleeps, and the dog dances"."""
        tense = self.choose(("present", "present", "past", "past", "perfect", "can", "will"))
        clauses = [self.clause(tense, adverbials=0.3) for _ in range(2)]
        return Compound(clauses[0], self.choose(_COORDINATORS), clauses[1])

    def front(self, clause: Clause) -> Clause:
        """Move the time or the place to the front of some clauses."""
        if clause.time and (self.chance(0.5) or _ends_in_relative(clause)):
            return clause._replace(fronted="time")
        if clause.place and clause.place.preposition != "into" and self.chance(0.25):
            return clause._replace(fronted="place")
        return clause

    def clause(self, tense: str, relatives: float = 0.0, adverbials: float = 1.0) -> Clause:
        if tense in ("present", "past", "will") and self.chance(0.12):
            return self.description(tense)
        return self.fill(self.verb(_ACTIONS, tense), tense, relatives, adverbials)

    def verb(self, verbs: Sequence[Verb], tense: str) -> Verb:
        """Return a verb that shows its tense: "they read" could be present or past."""
        verb = self.choose(verbs)
        return self.verb(verbs, tense) if tense == "past" and verb.past == verb.english else verb

    def description(self, tense: str) -> Clause:
        """Return a clause with a predicate: "The man is old"."""
        subject = self.phrase(BE.subjects, pronouns=0.3, pairs=0.0)
        kind = "person"
        if isinstance(subject, NounPhrase):
            # "A box is new" contains little, and "the cheap box is expensive" contradicts itself.
            determiner = "the" if subject.determiner == "a" else subject.determiner
            subject = subject._replace(determiner=determiner, adjectives=())
            kind = subject.noun.kind
        clause = Clause(subject, BE, tense=tense, predicate=self.adjective(kind))
        return clause._replace(negated=self.chance(0.13) and _may_negate(clause))

    def fill(
        self, verb: Verb, tense: str, relatives: float = 0.0, adverbials: float = 1.0
    ) -> Clause:
        subject = self.phrase(verb.subjects, 0.2, relatives=relatives)
        if getattr(subject, "relative", None):
            relatives = 0.0
        return self.qualify(
            Clause(subject, verb, self.objects(verb, subject, relatives), tense), adverbials
        )

    def objects(self, verb: Verb, subject: Phrase, relatives: float = 0.0) -> tuple[Phrase, ...]:
        # Pronouns on both sides would need reflexives ("I see myself").
        pronouns = 0.0 if isinstance(subject, Pronoun) else 0.2
        recipients = [self.phrase(("person",), pronouns, 0.0) for _ in verb.cases[1:]]
        pronouns = pronouns if "person" in verb.objects else 0.0
        themes = [self.phrase(verb.objects, pronouns, relatives=relatives) for _ in verb.cases[:1]]
        return (*recipients, *themes)

    def qualify(self, clause: Clause, adverbials: float) -> Clause:
        """Add place, negation, frequency and time to clauses that allow them."""
        verb, tense = clause.verb, clause.tense
        plain = not _ends_in_relative(clause)
        if plain and self.chance(1.0 if verb.scene == "into" else 0.25 * adverbials):
            clause = clause._replace(place=self.place(verb.scene))
        # "cannot" is more frequent than other negations are.
        if self.chance(0.3 if tense == "can" else 0.13) and _may_negate(clause):
            clause = clause._replace(negated=True)
        elif plain and tense in ("present", "past", "perfect") and self.chance(0.12):
            clause = clause._replace(adverb=self.choose(grammar.FREQUENCIES))
        if not clause.adverb and verb.scene != "state" and self.chance(0.25 * adverbials):
            clause = clause._replace(time=self.choose(_TIMES[tense]))
        return clause

    def place(self, scene: str) -> Place | None:
        if scene not in grammar.SCENES:
            return None
        preposition, nouns = self.choose(grammar.SCENES[scene])
        noun = self.choose(nouns)
        determiner = self.choose(("the",) * 5 + ("a", "our", "this"))
        adjectives = (self.adjective("place"),) if self.chance(0.2) else ()
        return Place(preposition, NounPhrase(noun, determiner, adjectives=adjectives))

    def adjective(self, kind: str) -> Adjective:
        return self.choose(grammar.ADJECTIVES_BY_KIND[kind])

    def phrase(
        self,
        kinds: tuple[str, ...],
        pronouns: float = 0.0,
        pairs: float = 0.07,
        relatives: float = 0.0,
    ) -> Phrase:
        if "person" in kinds and self.chance(pronouns):
            return self.choose(_PRONOUNS)
        phrase = self.noun_phrase(kinds)
        if self.chance(pairs):
            # Only phrases that open with an article: "old men and women" could mean two things.
            pair = [self.noun_phrase(kinds)._replace(determiner="the") for _ in range(2)]
            return Pair(*pair)
        if self.chance(relatives) and phrase.noun.kind != "drink":
            return phrase._replace(relative=self.relative(phrase))
        return self.modify(phrase)

    def noun_phrase(self, kinds: tuple[str, ...]) -> NounPhrase:
        noun = self.choose(grammar.NOUNS_BY_KIND[self.choose(kinds)])
        plural = bool(noun.plural) and self.chance(0.25)
        determiner = self.choose(_PLURAL if plural else _SINGULAR if noun.plural else _MASS)
        if determiner in _POSSESSIVES and not _may_be_owned(noun):
            determiner = "the"
        elif determiner == "the" and noun.english in grammar.KIN:
            determiner = self.choose(_POSSESSIVES)
        adjectives = (self.adjective(noun.kind),) if self.chance(0.22) else ()
        return NounPhrase(noun, determiner, plural, adjectives)

    def modify(self, phrase: NounPhrase) -> NounPhrase:
        """Add an owner ("the king's dog") or a companion ("with the red hat") to some phrases."""
        if self.chance(0.1) and _may_be_owned(phrase.noun):
            owner = self.noun_phrase(("person",))
            if not is_definite(owner):
                owner = owner._replace(determiner="the")
            return phrase._replace(owner=owner, determiner="the")
        if self.chance(0.08) and phrase.noun.kind in _LIVING and not phrase.plural:
            companion = NounPhrase(
                self.choose(grammar.NOUNS_BY_KIND["wear"]),
                self.choose(("the", "a")),
                adjectives=(self.adjective("wear"),) if self.chance(0.5) else (),
            )
            return phrase._replace(companion=companion)
        return phrase

    def relative(self, head: NounPhrase) -> Clause:
        """Return a clause about `head`, which is its subject, its last object or an owner in it."""
        kind = head.noun.kind
        gap = Gap(head.noun, head.plural)
        tense = self.choose(_RELATIVE_TENSES)
        role = self.choose(("subject", "subject", "object", "owner"))
        if role == "object" or kind not in _LIVING:
            verb = self.verb(grammar.VERBS_ABOUT[kind], tense)
            subject = self.phrase(verb.subjects, 0.2, 0.0)
            recipients = self.objects(verb, subject)[:-1]
            return Clause(subject, verb, (*recipients, gap), tense)
        subject = gap
        if role == "owner":
            subject = self.noun_phrase(("animal",))._replace(owner=gap, determiner="the")
            kind = "animal"
        verb = self.verb(_VERBS_BY_SUBJECT[kind], tense)
        place = (
            self.place(verb.scene) if self.chance(1.0 if verb.scene == "into" else 0.2) else None
        )
        return Clause(subject, verb, self.objects(verb, subject), tense, place=place)


def _ends_in_relative(clause: Clause) -> bool:
    """Return whether following words would seem to belong to the last relative clause."""
    return bool(clause.objects) and getattr(clause.objects[-1], "relative", None) is not None


def _may_negate(clause: Clause) -> bool:
    """Return whether all phrases are definite; others are negated by "no", not by "not"."""
    objects = () if clause.verb.german_preposition else clause.objects
    return all(map(is_definite, (clause.subject, *objects)))


def _may_be_owned(noun: Noun) -> bool:
    return noun.kind != "person" or noun.english in grammar.RELATIONS


class SyntheticExample(NamedTuple):
    """One sentence in both languages, with the parse tree of the English one.

    Args:
        english: The English sentence, as normally written.
        german: Its German translation.
        tree: Penn Treebank brackets on one line; the leaves are the tokens of `english`.
    """

    english: str
    german: str
    tree: str


def split_for(english: str) -> str:
    """Return the split of an English sentence, independent of the seed: 5 % val, 5 % test.

    Args:
        english: The English sentence.

    Returns:
        "train", "val" or "test".
    """
    bucket = zlib.crc32(english.encode()) % 100
    return "val" if bucket < 5 else "test" if bucket < 10 else "train"


def generate(split: str, size: int, seed: int = 0) -> Iterator[SyntheticExample]:
    """Return distinct sentences of one split, the same for equal arguments on every machine.

    The split of a sentence depends only on its English words, so the splits are disjoint for all
    sizes and seeds. A smaller size yields the beginning of a larger one.

    Args:
        split: "train", "val" or "test".
        size: Number of examples.
        seed: Seed of the sampling.

    Returns:
        An iterator over `size` examples.

    Raises:
        UserError: If `split` is unknown or `size` is negative; while iterating, if the grammar has
            no more sentences for the split within `MAX_TRIES` samples.
    """
    _validate_request(split, size)
    return _examples(split, size, _samples(seed))


def generate_splits(
    sizes: Mapping[str, int], seed: int = 0
) -> dict[str, tuple[SyntheticExample, ...]]:
    """Return what `generate` yields for several splits, in the time of the one that takes longest.

    The sampled sentences are shared: to find 5 for "val", 100 are sampled, and 90 fall to "train".

    Args:
        sizes: Number of examples of each split.
        seed: Seed of the sampling.

    Returns:
        The examples of each split.

    Raises:
        UserError: As `generate`.
    """
    for split, size in sizes.items():
        _validate_request(split, size)
    samples = tee(_samples(seed), len(sizes))
    return {
        split: tuple(_examples(split, size, copy))
        for (split, size), copy in zip(sizes.items(), samples, strict=True)
    }


def _validate_request(split: str, size: int) -> None:
    if split not in SPLITS:
        raise UserError(f"`split` must be one of 'train', 'val', 'test'. Received: split={split!r}")
    if size < 0:
        raise UserError(f"`size` must not be negative. Received: size={size!r}")


def _examples(
    split: str, size: int, samples: Iterator[tuple[str, str, Sentence] | None]
) -> Iterator[SyntheticExample]:
    for number in range(size):
        for sample in islice(samples, MAX_TRIES):
            if sample and split_for(sample[0]) == split:
                english, tree, sentence = sample
                yield SyntheticExample(english, german_text(sentence), tree)
                break
        else:
            raise UserError(
                f"`size` must be at most {number} for split={split!r}: the grammar has no new "
                f"sentence in {MAX_TRIES} samples. Received: size={size!r}"
            )


def _samples(seed: int) -> Iterator[tuple[str, str, Sentence] | None]:
    """Yield distinct sentences with their English text and tree; None for a rejected sample."""
    sampler = Sampler(seed)
    seen: set[str] = set()
    while True:
        sentence = sampler.sentence()
        tree = english_tree(sentence)
        english = None if _is_clumsy(tree) else english_text(tree)
        if english is None or english in seen:
            yield None
        else:
            seen.add(english)
            yield english, tree, sentence


def _is_clumsy(tree: str) -> bool:
    """Return whether a sentence repeats a word, has two quantifiers, or is too short or long."""
    tree = tree.lower()
    words = [_SINGULAR_FORMS.get(word, word) for word in _CONTENT_WORDS.findall(tree)]
    return (
        len(set(words)) < len(words)
        or len(_SCOPED.findall(tree)) > 1
        # "no man must" forbids, "kein Mann muss" does not.
        or ("(dt no)" in tree and "(md must)" in tree)
        or not _MIN_TOKENS <= len(english_tokens(tree)) <= _MAX_TOKENS
    )
