"""The content of the built-in corpus's sentences, independent of the language."""

from typing import NamedTuple, TypeGuard

from keras_transformer.data.synthetic.lexicon import (
    DETERMINERS,
    Adjective,
    Adverb,
    Conjunction,
    Noun,
    Pronoun,
    Time,
    Verb,
)


class Gap(NamedTuple):
    """The place in a relative clause that its head fills."""

    noun: Noun
    plural: bool = False


class NounPhrase(NamedTuple):
    """A noun with its modifiers. The determiner "" stands for none.

    An `owner` replaces the determiner ("the king's dog"). If the owner is a `Gap`, the phrase opens
    a relative clause ("whose dog").
    """

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    adjectives: tuple[Adjective, ...] = ()
    owner: "NounPhrase | Gap | None" = None
    companion: "NounPhrase | None" = None  # "with the red hat"
    relative: "Clause | None" = None


class Pair(NamedTuple):
    """Two noun phrases joined by "and"."""

    first: NounPhrase
    second: NounPhrase


Phrase = NounPhrase | Pair | Pronoun | Gap


class Place(NamedTuple):
    """A place, such as "in the garden"."""

    preposition: str
    phrase: NounPhrase


class Subordinate(NamedTuple):
    """A clause behind its conjunction."""

    conjunction: Conjunction
    clause: "Clause"


class Clause(NamedTuple):
    """A verb with its arguments and adverbials.

    `tense` is "present", "past", "perfect" or a modal verb ("can", "must", "should", "will",
    "want"). `fronted` names the field that opens the sentence: "time", "place", "subordinate".
    """

    subject: Phrase
    verb: Verb
    objects: tuple[Phrase, ...] = ()
    tense: str = "present"
    negated: bool = False
    predicate: Adjective | None = None
    adverb: Adverb | None = None
    time: Time | None = None
    place: Place | None = None
    subordinate: Subordinate | None = None
    fronted: str = ""


class Compound(NamedTuple):
    """Two main clauses joined by "and" or "but"."""

    first: Clause
    conjunction: str
    second: Clause


Sentence = Clause | Compound


def agreement_of(phrase: Phrase) -> int:
    """Return 0 for I; 1 for he, she, it; 2 for we, they."""
    if isinstance(phrase, Pronoun):
        return phrase.agreement
    return 2 if isinstance(phrase, Pair) or phrase.plural else 1


def opens_relative(phrase: Phrase) -> TypeGuard["NounPhrase | Gap"]:
    """Return whether `phrase` moves to the front of its relative clause ("whom", "whose dog")."""
    return isinstance(phrase, Gap) or (
        isinstance(phrase, NounPhrase) and isinstance(phrase.owner, Gap)
    )


def is_definite(phrase: Phrase) -> bool:
    """Return whether the phrase identifies its referent ("the dog", "my dog", "he")."""
    if isinstance(phrase, Pair):
        return is_definite(phrase.first) and is_definite(phrase.second)
    if isinstance(phrase, NounPhrase):
        return bool(phrase.owner) or DETERMINERS[phrase.determiner].definite
    return True
