"""The words and phrases of the built-in corpus's sentences. The words are in `lexicon.tsv`."""

from pathlib import Path
from typing import NamedTuple, TypeGuard

from keras_transformer.data.languages import read_table


class Noun(NamedTuple):
    """A noun on both sides; an empty `plural` marks a mass noun."""

    english: str
    plural: str
    german: str
    gender: str  # "m", "f" or "n"
    german_plural: str
    genitive: str
    kind: str


class Adjective(NamedTuple):
    """An adjective: `german` as a predicate, `stem` before an ending."""

    english: str
    german: str
    stem: str
    kinds: tuple[str, ...]


class Verb(NamedTuple):
    """A verb: principal parts in both languages, its objects and its possible subjects.

    `cases` lists the German case of each object in order, `conjunction` opens a content clause.
    `scene` determines the places that may occur with the verb: "" none, "at" where something
    happens, "into" where something goes (always present), "water" where one swims; "state" allows
    no time either.
    """

    english: str
    past: str
    participle: str
    particle: str
    preposition: str
    prefix: str
    german: str  # the infinitive without a separable prefix
    german_present: str
    german_past: str
    german_participle: str
    auxiliary: str
    german_preposition: str
    cases: tuple[str, ...]
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    scene: str
    conjunction: str


class Determiner(NamedTuple):
    """A determiner; `endings` picks the declension of the adjectives after it."""

    english: str
    plural: str
    tag: str
    german: str
    endings: str  # "weak", "mixed" or "strong"
    definite: bool


class Pronoun(NamedTuple):
    """A personal pronoun; `agreement` is 0 (I), 1 (he, she) or 2 (we, they)."""

    english: str
    english_object: str
    german: dict[str, str]
    agreement: int


class Adverb(NamedTuple):
    """An adverb of frequency."""

    english: str
    german: str


class Time(NamedTuple):
    """A time phrase: its English tree, its German words and the tenses it goes with."""

    english: str
    german: str
    tenses: tuple[str, ...]


class Conjunction(NamedTuple):
    """A subordinating conjunction and the tenses of the main clause it goes with."""

    english: str
    german: str
    tenses: tuple[str, ...]


def _read_tables() -> dict[str, list[list[str]]]:
    """Return the rows of the tables in `lexicon.tsv`, by the name of the table."""
    tables: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for row in read_table(Path(__file__).with_name("lexicon.tsv")):
        if row[0].startswith("["):
            rows = tables[row[0].strip("[]")] = []
        else:
            rows.append(row)
    return tables


# Groups of kinds of nouns, and of tenses, in the tables.
_GROUPS = {
    "living": ("person", "animal"),
    "goods": ("thing", "case", "wear", "vehicle", "text"),
    "plans": ("can", "must", "should", "will", "want"),
}


def _names(cell: str) -> tuple[str, ...]:
    return tuple(x for name in cell.split(",") if name for x in _GROUPS.get(name, (name,)))


def _verb(english: str, german: str, subjects: str, objects: str, governs: str, scene: str) -> Verb:
    base, past, participle, *extra = english.split()
    infinitive, german_present, german_past, german_participle, *sein = german.split()
    prefix, _, stem = infinitive.rpartition("-")
    *german_preposition, cases = governs.split() or [""]
    particle = "".join(word for word in extra if word in ("up", "away"))
    conjunction = cases if cases in CONTENT else ""
    return Verb(
        english=base,
        past=past,
        participle=participle,
        particle=particle,
        preposition="" if particle else "".join(extra),
        prefix=prefix,
        german=stem,
        german_present=german_present,
        german_past=german_past,
        german_participle=prefix + german_participle,
        auxiliary="sein" if sein else "haben",
        german_preposition="".join(german_preposition),
        cases=() if conjunction or not cases else tuple(cases.split("+")),
        subjects=_names(subjects),
        objects=_names(objects),
        scene=scene,
        conjunction=conjunction,
    )


def _endings(word: str, declension: str = "") -> dict[str, list[str]]:
    """Return German endings by gender ("p" for the plural of all), in the order of `CASES`."""
    rows = _TABLES["German endings"]
    return {row[2]: row[3:] for row in rows if row[:2] == [word, declension]}


_TABLES = _read_tables()
CONTENT = dict(_TABLES["content clauses"])
COORDINATORS = dict(_TABLES["coordinators"])
CONTRACTIONS = dict(_TABLES["contractions"])
# Tenses: "present", "past", "perfect" and the modal verbs, "want" (to) among them.
MODALS = dict(_TABLES["modals"])
PLANS = _GROUPS["plans"]
CASES = ("nom", "acc", "dat", "gen")

NOUNS = tuple(Noun(*row) for row in _TABLES["nouns"])
NOUN = {noun.english: noun for noun in NOUNS}
NOUNS_BY_KIND = {
    kind: tuple(noun for noun in NOUNS if noun.kind == kind)
    for kind in dict.fromkeys(noun.kind for noun in NOUNS)
}
# People that may have a possessive ("my friend"), and relatives, which nearly always have one.
RELATIONS = tuple(word for word, _ in _TABLES["relations"])
KIN = tuple(word for word, is_kin in _TABLES["relations"] if is_kin == "yes")
ADJECTIVES = tuple(
    Adjective(english, german, stem, _names(kinds))
    for english, german, stem, kinds in _TABLES["adjectives"]
)
ADJECTIVE = {adjective.english: adjective for adjective in ADJECTIVES}
ADJECTIVES_BY_KIND = {
    kind: tuple(adjective for adjective in ADJECTIVES if kind in adjective.kinds)
    for kind in NOUNS_BY_KIND
}
VERBS = tuple(_verb(*row) for row in _TABLES["verbs"])
VERB = {verb.english: verb for verb in VERBS}
VERBS_ABOUT = {
    kind: tuple(verb for verb in VERBS if kind in verb.objects) for kind in NOUNS_BY_KIND
}
# Said of people, animals and things, always with an adjective.
BE = _verb(*_TABLES["copula"][0])

# Auxiliaries and irregular forms, by agreement: I; he, she; we, they.
ENGLISH_FORMS = {(verb, tense): forms for verb, tense, *forms in _TABLES["English forms"]}
GERMAN_PRESENT = {verb: forms for verb, *forms in _TABLES["German forms"]}
DEFINITE_ARTICLE, RELATIVE_PRONOUN = _endings("article"), _endings("relative")
# The endings of determiners, by the declension of the adjective after them.
DETERMINER_ENDINGS = {x: _endings("determiner", x) for x in ("weak", "mixed")}
ADJECTIVE_ENDINGS = {x: _endings("adjective", x) for x in ("weak", "mixed", "strong")}
DETERMINERS = {
    row[0]: Determiner(*row[:5], definite=row[5] == "yes") for row in _TABLES["determiners"]
}
PRONOUNS = {
    word: Pronoun(word, other, dict(zip(CASES, german)), int(agreement))
    for word, other, *german, agreement in _TABLES["pronouns"]
}

PREPOSITIONS = {english: (german, case) for english, german, case in _TABLES["prepositions"]}
# The places that a verb may go with, by its scene: prepositions with nouns.
SCENES = {
    scene: tuple(
        (preposition, tuple(NOUN[noun] for noun in nouns.split()))
        for name, preposition, nouns in _TABLES["scenes"]
        if name == scene
    )
    for scene, *_ in _TABLES["scenes"]
}
FREQUENCIES = tuple(Adverb(*row) for row in _TABLES["adverbs"])
TIMES = tuple(Time(english, german, _names(tenses)) for english, german, tenses in _TABLES["times"])
SUBORDINATORS = tuple(
    Conjunction(english, german, _names(tenses))
    for english, german, tenses in _TABLES["subordinators"]
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


def agreement_with(phrase: Phrase) -> int:
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
