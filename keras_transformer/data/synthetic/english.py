"""English sentences of the built-in corpus, as Penn Treebank trees and as text."""

import re

from keras_transformer.data.synthetic import grammar
from keras_transformer.data.synthetic.grammar import (
    BE,
    Clause,
    Compound,
    Gap,
    NounPhrase,
    Pair,
    Phrase,
    Place,
    Pronoun,
    Sentence,
    Subordinate,
    agreement_with,
    opens_relative,
)

_LEAF = re.compile(r" ([^ ()]+)\)")


def english_tree(sentence: Sentence) -> str:
    """Return the parse tree of an English sentence.

    Args:
        sentence: A `Clause` or a `Compound`.

    Returns:
        Penn Treebank brackets on one line.
    """
    if isinstance(sentence, Compound):
        children = [
            _node("S", *_english_clause(sentence.first)),
            _leaf(",", ","),
            _leaf("CC", sentence.conjunction),
            _node("S", *_english_clause(sentence.second)),
        ]
    else:
        children = _english_clause(sentence)
    tree = _node("S", *children, _leaf(".", "."))
    return re.sub(r" [^ ()]", lambda leaf: leaf[0].upper(), tree, count=1)


def english_text(tree: str) -> str:
    """Return the sentence of a tree of this grammar, as normally written.

    Args:
        tree: Brackets as `english_tree` returns them.

    Returns:
        The English sentence.
    """
    text = " ".join(english_tokens(tree))
    return re.sub(r" (?=[,.'])", "", text.replace("can not ", "cannot "))


def english_tokens(tree: str) -> list[str]:
    """Return the leaves of a tree of this grammar."""
    return _LEAF.findall(tree)


def _node(label: str, *children: str) -> str:
    return f"({label} {' '.join(filter(None, children))})"


def _leaf(tag: str, word: str) -> str:
    return f"({tag} {word})"


def _english_clause(clause: Clause) -> list[str]:
    """Return the children of the clause's S without the final stop; gaps are empty."""
    time = clause.time.english if clause.time else ""
    place = _english_place(clause.place) if clause.place else ""
    subordinate = _english_subordinate(clause.subordinate) if clause.subordinate else ""
    front = {"time": time, "place": place, "subordinate": subordinate}.get(clause.fronted, "")
    rest = [part for part in (place, time, subordinate) if part != front]
    subject = "" if opens_relative(clause.subject) else _english_phrase(clause.subject, True)
    return [
        part
        for part in (
            front,
            _leaf(",", ",") if clause.fronted == "subordinate" else "",
            subject,
            _english_adverb(clause) if _adverb_before_verb(clause) else "",
            _verb_phrase(clause, [*_complements(clause), *rest]),
        )
        if part
    ]


def _english_subordinate(subordinate: Subordinate) -> str:
    word = subordinate.conjunction.english
    opening = _node("WHADVP", _leaf("WRB", word)) if word == "when" else _leaf("IN", word)
    return _node("SBAR", opening, _node("S", *_english_clause(subordinate.clause)))


def _english_place(place: Place) -> str:
    return _node("PP", _leaf("IN", place.preposition), _english_phrase(place.phrase))


def _english_adverb(clause: Clause) -> str:
    return _node("ADVP", _leaf("RB", clause.adverb.english)) if clause.adverb else ""


def _adverb_before_verb(clause: Clause) -> bool:
    """Adverbs stand before a full verb ("often sleeps") and after an auxiliary ("is often")."""
    return clause.tense in ("present", "past", "want") and clause.verb is not BE


def _complements(clause: Clause) -> list[str]:
    verb = clause.verb
    *first, last = [
        "" if opens_relative(phrase) else _english_phrase(phrase) for phrase in clause.objects
    ] or [""]
    if verb.preposition and last:
        last = _node("PP", _leaf("IN", verb.preposition), last)
    particle = _node("PRT", _leaf("RP", verb.particle)) if verb.particle else ""
    predicate = _node("ADJP", _leaf("JJ", clause.predicate.english)) if clause.predicate else ""
    return [*first, particle, last, predicate]


def _verb_phrase(clause: Clause, complements: list[str]) -> str:
    verb, tense = clause.verb, clause.tense
    agreement = agreement_with(clause.subject)
    negation = _leaf("RB", "not") if clause.negated else ""
    adverb = "" if _adverb_before_verb(clause) else _english_adverb(clause)
    if tense == "perfect":
        participle = _node("VP", _leaf("VBN", verb.participle), *complements)
        return _node(
            "VP", _finite("have", "had", "present", agreement), negation, adverb, participle
        )
    if tense in grammar.MODALS and tense != "want":
        infinitive = _node("VP", _leaf("VB", verb.english), *complements)
        return _node("VP", _leaf("MD", tense), negation, adverb, infinitive)
    base, past = verb.english, verb.past
    if tense == "want":
        base, past, tense = "want", "wanted", "present"
        infinitive = _node("VP", _leaf("VB", verb.english), *complements)
        complements = [_node("S", _node("VP", _leaf("TO", "to"), infinitive))]
    if clause.negated and verb is not BE:
        support = _finite("do", "did", tense, agreement)
        return _node("VP", support, negation, _node("VP", _leaf("VB", base), *complements))
    return _node("VP", _finite(base, past, tense, agreement), negation, adverb, *complements)


def _finite(base: str, past: str, tense: str, agreement: int) -> str:
    if tense == "past":
        return _leaf("VBD", grammar.ENGLISH_FORMS.get((base, "past"), (past,) * 3)[agreement])
    forms = grammar.ENGLISH_FORMS.get((base, "present"), (base, _with_s(base), base))
    return _leaf("VBZ" if agreement == 1 else "VBP", forms[agreement])


def _with_s(verb: str) -> str:
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies"
    return verb + ("es" if verb.endswith(("s", "x", "ch", "sh")) else "s")


def _english_phrase(phrase: Phrase, nominative: bool = False) -> str:
    if isinstance(phrase, Pronoun):
        word = phrase.english if nominative else phrase.english_object
        return _node("NP", _leaf("PRP", word))
    if isinstance(phrase, Pair):
        pair = (_english_phrase(phrase.first), _english_phrase(phrase.second))
        return _node("NP", pair[0], _leaf("CC", "and"), pair[1])
    if isinstance(phrase, Gap):
        return ""
    core = _node("NP", *_english_core(phrase))
    if phrase.companion:
        companion = _node("PP", _leaf("IN", "with"), _english_phrase(phrase.companion))
        return _node("NP", core, companion)
    if phrase.relative:
        return _node("NP", core, _english_relative(phrase.relative))
    return core


def _english_core(phrase: NounPhrase) -> list[str]:
    """Return determiner, adjectives and noun."""
    noun = phrase.noun.plural if phrase.plural else phrase.noun.english
    adjectives = [adjective.english for adjective in phrase.adjectives]
    return [
        _english_determiner(phrase, (adjectives + [noun])[0]),
        *(_leaf("JJ", adjective) for adjective in adjectives),
        _leaf("NNS" if phrase.plural else "NN", noun),
    ]


def _english_determiner(phrase: NounPhrase, next_word: str) -> str:
    if isinstance(phrase.owner, Gap):
        return _leaf("WP$", "whose")
    if phrase.owner:
        owner = _english_core(phrase.owner)
        possessive = "'" if phrase.owner.plural and owner[-1].endswith("s)") else "'s"
        return _node("NP", *owner, _leaf("POS", possessive))
    determiner = grammar.DETERMINERS[phrase.determiner]
    word = determiner.plural if phrase.plural else determiner.english
    if word == "a" and next_word[0] in "aeiou":
        word = "an"
    return _leaf(determiner.tag, word) if word else ""


def _english_relative(clause: Clause) -> str:
    preposition = clause.verb.preposition
    if opens_relative(clause.subject):
        opening = _relative_pronoun(clause.subject, "who", "that")
    else:
        phrase = next(filter(opens_relative, clause.objects))
        opening = _relative_pronoun(phrase, "whom", "which" if preposition else "that")
        if preposition:
            opening = _node("WHPP", _leaf("IN", preposition), opening)
    return _node("SBAR", opening, _node("S", *_english_clause(clause)))


def _relative_pronoun(phrase: NounPhrase | Gap, personal: str, other: str) -> str:
    if isinstance(phrase, NounPhrase):
        return _node("WHNP", *_english_core(phrase))
    if phrase.noun.kind == "person":
        return _node("WHNP", _leaf("WP", personal))
    return _node("WHNP", _leaf("WDT", other))
