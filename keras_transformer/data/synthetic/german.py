"""German sentences of the built-in corpus."""

import re
from collections.abc import Sequence

from keras_transformer.data.synthetic import grammar
from keras_transformer.data.synthetic.grammar import (
    Clause,
    Compound,
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
    agreement_with,
    is_definite,
    opens_relative,
)


def german_text(sentence: Sentence) -> str:
    """Return the German sentence, as normally written.

    Args:
        sentence: A `Clause` or a `Compound`.

    Returns:
        The German sentence.
    """
    if isinstance(sentence, Compound):
        words = [
            german_clause(sentence.first),
            "," if sentence.conjunction == "but" else "",
            grammar.COORDINATORS[sentence.conjunction],
            german_clause(sentence.second),
        ]
    else:
        words = [german_clause(sentence)]
    text = re.sub(r"[ ,]*,[ ,]*", ", ", _join(words)).strip(" ,")
    return text[0].upper() + text[1:] + "."


def german_clause(clause: Clause, verb_final: bool = False) -> str:
    """Return the words of a German clause, with spaces around commas, which may be doubled.

    Args:
        clause: The clause. Its gaps are empty.
        verb_final: Whether the finite verb is at the end of the clause, as after a conjunction or a
            relative pronoun. Otherwise it is in second place.

    Returns:
        The words, joined by spaces.
    """
    subject = "" if opens_relative(clause.subject) else german_phrase(clause.subject, "nom")
    finite, bracket = _german_verbs(clause, verb_final)
    middle = [*_middle_field(clause), bracket]
    after = _german_relatives(clause.objects)
    if clause.subordinate and clause.fronted != "subordinate":
        after.append(_german_subordinate(clause.subordinate))
    pronouns = _pronoun_objects(clause)
    if verb_final:
        return _join([subject, *pronouns, *middle, finite, *after])
    if not clause.fronted:
        return _join([subject, finite, *pronouns, *middle, *after])
    # Behind the verb the light words come first: "Heute sieht ihn der Mann."
    inner = [subject, *pronouns] if isinstance(clause.subject, Pronoun) else [*pronouns, subject]
    return _join([_german_front(clause), finite, *inner, *middle, *after])


def german_phrase(phrase: Phrase, case: str, with_relative: bool = True) -> str:
    """Return the words of a German noun phrase.

    Args:
        phrase: The phrase.
        case: "nom", "acc", "dat" or "gen".
        with_relative: Whether its relative clause follows it directly.

    Returns:
        The words, joined by spaces.
    """
    if isinstance(phrase, Pronoun):
        return phrase.german[case]
    if isinstance(phrase, Gap):
        return grammar.RELATIVE_PRONOUN[_gender(phrase)][grammar.CASES.index(case)]
    if isinstance(phrase, Pair):
        return _join([german_phrase(phrase.first, case), "und", german_phrase(phrase.second, case)])
    words = [*_german_core(phrase, case)]
    if isinstance(phrase.owner, NounPhrase):
        words += _german_core(phrase.owner, "gen")
    if phrase.companion:
        words += ["mit", german_phrase(phrase.companion, "dat")]
    if with_relative:
        words += _german_relatives((phrase,))
    return _join(words)


def _join(words: Sequence[str]) -> str:
    return " ".join(filter(None, words))


def _gender(phrase: NounPhrase | Gap) -> str:
    return "p" if phrase.plural else phrase.noun.gender


def _german_core(phrase: NounPhrase, case: str) -> list[str]:
    """Determiner, adjectives and noun."""
    gender, column = _gender(phrase), grammar.CASES.index(case)
    determiner = grammar.DETERMINERS["the" if phrase.owner else phrase.determiner]
    endings = determiner.endings
    if isinstance(phrase.owner, Gap):
        # "dessen" never changes, so the adjective must show the case.
        article, endings = german_phrase(phrase.owner, "gen"), "strong"
    elif determiner.english == "the":
        article = grammar.DEFINITE_ARTICLE[gender][column]
    elif endings == "strong":
        article = determiner.german
    else:
        article = determiner.german + grammar.DETERMINER_ENDINGS[endings][gender][column]
    ending = grammar.ADJECTIVE_ENDINGS[endings][gender][column]
    adjectives = [adjective.stem + ending for adjective in phrase.adjectives]
    return [article, *adjectives, _german_noun(phrase.noun, phrase.plural, case)]


def _german_noun(noun: Noun, plural: bool, case: str) -> str:
    if plural:
        form = noun.german_plural
        return form + "n" if case == "dat" and form[-1] not in "ns" else form
    weak_masculine = noun.gender == "m" and not noun.genitive.endswith("s")
    if case == "gen" or (weak_masculine and case != "nom"):
        return noun.genitive
    return noun.german


def _prepositional(preposition: str, phrase: Phrase, case: str) -> str:
    words = f"{preposition} {german_phrase(phrase, case, with_relative=False)}"
    # "von dem Hund, der bellt" points at its relative clause and is not contracted.
    if isinstance(phrase, NounPhrase) and phrase.determiner == "the" and not phrase.relative:
        article = " ".join(words.split(" ", 2)[:2])
        words = words.replace(article, grammar.CONTRACTIONS.get(article, article), 1)
    return words


def _pronoun_objects(clause: Clause) -> list[str]:
    if clause.verb.german_preposition:
        return []
    return [
        phrase.german[case]
        for phrase, case in zip(clause.objects, clause.verb.cases, strict=True)
        if isinstance(phrase, Pronoun)
    ]


def _middle_field(clause: Clause) -> list[str]:
    """Return the words between finite verb and closing bracket, except subject and pronouns.

    The first object comes before adverbs if it is definite; all others come after them.
    """
    verb = clause.verb
    early, late, prepositional = [], [], []
    for phrase, case in zip(clause.objects, verb.cases, strict=True):
        if opens_relative(phrase):
            continue
        if verb.german_preposition:
            prepositional.append(_prepositional(verb.german_preposition, phrase, case))
        elif not isinstance(phrase, Pronoun):
            is_first = phrase is clause.objects[0]
            field = early if is_first and is_definite(phrase) else late
            field.append(german_phrase(phrase, case, with_relative=False))
    return [
        *early,
        clause.time.german if clause.time and clause.fronted != "time" else "",
        clause.adverb.german if clause.adverb else "",
        *late,
        "nicht" if clause.negated else "",
        _german_place(clause.place) if clause.place and clause.fronted != "place" else "",
        *prepositional,
        clause.predicate.german if clause.predicate else "",
    ]


def _german_front(clause: Clause) -> str:
    if clause.fronted == "time" and clause.time:
        return clause.time.german
    if clause.fronted == "place" and clause.place:
        return _german_place(clause.place)
    return _german_subordinate(clause.subordinate) if clause.subordinate else ""


def _german_place(place: Place) -> str:
    preposition, case = grammar.PREPOSITIONS[place.preposition]
    return _prepositional(preposition, place.phrase, case)


def _german_subordinate(subordinate: Subordinate) -> str:
    return f", {subordinate.conjunction.german} {german_clause(subordinate.clause, True)} ,"


def _german_relatives(phrases: Sequence[Phrase]) -> list[str]:
    return [
        f", {_german_opening(phrase.relative)} {german_clause(phrase.relative, True)} ,"
        for phrase in phrases
        if isinstance(phrase, NounPhrase) and phrase.relative
    ]


def _german_opening(clause: Clause) -> str:
    """Return the relative pronoun, with gender and number of its head and the case of its role."""
    if opens_relative(clause.subject):
        return german_phrase(clause.subject, "nom")
    preposition = clause.verb.german_preposition
    return next(
        _join([preposition, german_phrase(phrase, case)])
        for phrase, case in zip(clause.objects, clause.verb.cases, strict=True)
        if opens_relative(phrase)
    )


def _german_verbs(clause: Clause, verb_final: bool) -> tuple[str, str]:
    """Return the finite verb, and the end of the bracket: prefix, participle or infinitive."""
    verb, tense = clause.verb, clause.tense
    agreement = agreement_with(clause.subject)
    if tense == "perfect":
        return grammar.GERMAN_PRESENT[verb.auxiliary][agreement], verb.german_participle
    if tense in grammar.MODALS:
        modal = grammar.MODALS[tense]
        if modal == "müssen" and clause.negated:
            modal = "dürfen"  # "must not" forbids, "muss nicht" would merely allow
        return grammar.GERMAN_PRESENT[modal][agreement], verb.prefix + verb.german
    finite = _german_finite(verb, tense, agreement)
    return (verb.prefix + finite, "") if verb_final else (finite, verb.prefix)


def _german_finite(verb: Verb, tense: str, agreement: int) -> str:
    if tense == "past":
        past = verb.german_past
        plural = past + ("n" if past.endswith("e") else "en")
        return plural if agreement == 2 else past
    stem = verb.german.removesuffix("en")
    regular = (stem + "e", verb.german_present, verb.german)
    return grammar.GERMAN_PRESENT.get(verb.german, regular)[agreement]
