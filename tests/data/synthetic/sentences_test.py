"""The English and German of the built-in corpus, by hand-written examples."""

import pytest

from keras_transformer.data.synthetic.english import english_text, english_tree
from keras_transformer.data.synthetic.german import german_text
from keras_transformer.data.synthetic.grammar import (
    ADJECTIVE,
    BE,
    FREQUENCIES,
    NOUN,
    NOUNS,
    PRONOUNS,
    SUBORDINATORS,
    TIMES,
    VERB,
    Clause,
    Compound,
    Conjunction,
    Gap,
    NounPhrase,
    Pair,
    Place,
    Subordinate,
)

pytestmark = pytest.mark.once


def noun(word, *adjectives, determiner="the", **kwargs):
    """The phrase for an English noun, singular or plural: `noun("dogs", "old")`."""
    entry = next(noun for noun in NOUNS if word in (noun.english, noun.plural))
    adjectives = tuple(ADJECTIVE[adjective] for adjective in adjectives)
    return NounPhrase(entry, determiner, word == entry.plural, adjectives, **kwargs)


def clause(subject, verb, *objects, **kwargs):
    phrase = PRONOUNS[subject] if isinstance(subject, str) else subject
    return Clause(phrase, BE if verb == "be" else VERB[verb], objects, **kwargs)


def both(sentence):
    return english_text(english_tree(sentence)), german_text(sentence)


def subordinator(english, german):
    return next(item for item in SUBORDINATORS if item[:2] == (english, german))


MAN, WOMAN, DOG = noun("man"), noun("woman"), noun("dog")
TODAY = TIMES[0]
GARDEN = Place("in", noun("garden"))
THAT = Conjunction("that", "dass", ())
GAPPED = Gap(NOUN["man"])
HIM = PRONOUNS["he"]


SENTENCES = [
    # Agreement.
    (clause(MAN, "see", WOMAN), "The man sees the woman.", "Der Mann sieht die Frau."),
    (clause("I", "see", WOMAN), "I see the woman.", "Ich sehe die Frau."),
    (clause("they", "see", WOMAN), "They see the woman.", "Sie sehen die Frau."),
    (clause(Pair(MAN, WOMAN), "carry", noun("key")),
     "The man and the woman carry the key.", "Der Mann und die Frau tragen den Schlüssel."),
    (clause("I", "be", predicate=ADJECTIVE["tired"]), "I am tired.", "Ich bin müde."),
    (clause(MAN, "buy", noun("apple", determiner="a")),
     "The man buys an apple.", "Der Mann kauft einen Apfel."),
    (clause(MAN, "buy", noun("apple", "red", determiner="a")),
     "The man buys a red apple.", "Der Mann kauft einen roten Apfel."),
    # Case: dative verbs, recipients, prepositions.
    (clause(MAN, "help", noun("sisters", "old")),
     "The man helps the old sisters.", "Der Mann hilft den alten Schwestern."),
    (clause(MAN, "give", WOMAN, noun("book")),
     "The man gives the woman the book.", "Der Mann gibt der Frau das Buch."),
    (clause(MAN, "wait", noun("boy")),
     "The man waits for the boy.", "Der Mann wartet auf den Jungen."),
    (clause(MAN, "dream", DOG), "The man dreams of the dog.", "Der Mann träumt vom Hund."),
    (clause(MAN, "look", DOG), "The man looks for the dog.", "Der Mann sucht den Hund."),
    (clause(DOG, "sleep", place=GARDEN),
     "The dog sleeps in the garden.", "Der Hund schläft im Garten."),
    (clause(DOG, "run", place=Place("into", noun("house"))),
     "The dog runs into the house.", "Der Hund rennt ins Haus."),
    (clause(DOG, "run", place=Place("into", noun("forest", "dark"))),
     "The dog runs into the dark forest.", "Der Hund rennt in den dunklen Wald."),
    (clause(noun("dog", owner=noun("king", "old")), "sleep"),
     "The old king's dog sleeps.", "Der Hund des alten Königs schläft."),
    (clause(noun("dog", owner=noun("boys")), "sleep"),
     "The boys' dog sleeps.", "Der Hund der Jungen schläft."),
    (clause(noun("man", companion=noun("hat", "red")), "sleep"),
     "The man with the red hat sleeps.", "Der Mann mit dem roten Hut schläft."),
    # Verb second, whatever comes first.
    (clause(MAN, "see", WOMAN, time=TODAY, fronted="time"),
     "Today the man sees the woman.", "Heute sieht der Mann die Frau."),
    (clause(MAN, "see", HIM, time=TODAY, fronted="time"),
     "Today the man sees him.", "Heute sieht ihn der Mann."),
    (clause("we", "see", HIM, time=TODAY, fronted="time"),
     "Today we see him.", "Heute sehen wir ihn."),
    (clause(MAN, "sleep", place=GARDEN, fronted="place"),
     "In the garden the man sleeps.", "Im Garten schläft der Mann."),
    (clause(MAN, "give", WOMAN, noun("book"), time=TODAY),
     "The man gives the woman the book today.", "Der Mann gibt der Frau heute das Buch."),
    (clause(MAN, "see", noun("dog", determiner="a"), adverb=FREQUENCIES[0]),
     "The man often sees a dog.", "Der Mann sieht oft einen Hund."),
    # Brackets: separable verbs, perfect, modal verbs.
    (clause(MAN, "call", WOMAN), "The man calls the woman.", "Der Mann ruft die Frau an."),
    (clause(MAN, "call", WOMAN, tense="past"),
     "The man called the woman.", "Der Mann rief die Frau an."),
    (clause(MAN, "call", WOMAN, tense="perfect"),
     "The man has called the woman.", "Der Mann hat die Frau angerufen."),
    (clause(MAN, "call", WOMAN, tense="want"),
     "The man wants to call the woman.", "Der Mann will die Frau anrufen."),
    (clause(noun("women"), "wake", tense="perfect"),
     "The women have woken up.", "Die Frauen sind aufgewacht."),
    (clause(MAN, "see", WOMAN, tense="can"),
     "The man can see the woman.", "Der Mann kann die Frau sehen."),
    (clause("we", "see", WOMAN, tense="will"),
     "We will see the woman.", "Wir werden die Frau sehen."),
    # Negation.
    (clause(MAN, "call", WOMAN, negated=True),
     "The man does not call the woman.", "Der Mann ruft die Frau nicht an."),
    (clause(MAN, "wait", WOMAN, negated=True, tense="past"),
     "The man did not wait for the woman.", "Der Mann wartete nicht auf die Frau."),
    (clause(MAN, "see", WOMAN, negated=True, tense="can", place=GARDEN),
     "The man cannot see the woman in the garden.",
     "Der Mann kann die Frau nicht im Garten sehen."),
    (clause(MAN, "sleep", negated=True, tense="must"),
     "The man must not sleep.", "Der Mann darf nicht schlafen."),
    (clause(MAN, "sleep", negated=True, tense="want"),
     "The man does not want to sleep.", "Der Mann will nicht schlafen."),
    (clause(MAN, "read", noun("books", "new", determiner="no")),
     "The man reads no new books.", "Der Mann liest keine neuen Bücher."),
    # Verb-final clauses.
    (clause("she", "say", subordinate=Subordinate(THAT, clause(MAN, "call", WOMAN))),
     "She says that the man calls the woman.", "Sie sagt, dass der Mann die Frau anruft."),
    (clause("she", "say",
     subordinate=Subordinate(THAT, clause(MAN, "call", WOMAN, tense="perfect"))),
     "She says that the man has called the woman.",
     "Sie sagt, dass der Mann die Frau angerufen hat."),
    (clause(MAN, "sing",
     subordinate=Subordinate(subordinator("because", "weil"), clause(WOMAN, "see", HIM,
     tense="can"))),
     "The man sings because the woman can see him.",
     "Der Mann singt, weil die Frau ihn sehen kann."),
    (clause(WOMAN, "read", noun("book"),
     subordinate=Subordinate(subordinator("when", "wenn"), clause(MAN, "sleep")),
     fronted="subordinate"),
     "When the man sleeps, the woman reads the book.",
     "Wenn der Mann schläft, liest die Frau das Buch."),
    (clause(WOMAN, "sing", tense="past",
     subordinate=Subordinate(subordinator("when", "als"), clause(MAN, "wake", tense="past"))),
     "The woman sang when the man woke up.", "Die Frau sang, als der Mann aufwachte."),
    # Relative clauses.
    (clause(noun("man", relative=clause(GAPPED, "call", WOMAN)), "see", DOG),
     "The man who calls the woman sees the dog.", "Der Mann, der die Frau anruft, sieht den Hund."),
    (clause(noun("children", relative=clause(WOMAN, "help", Gap(NOUN["child"], True))), "sing"),
     "The children whom the woman helps sing.", "Die Kinder, denen die Frau hilft, singen."),
    (clause(noun("woman", relative=clause(MAN, "thank", Gap(NOUN["woman"]))), "sing"),
     "The woman whom the man thanks sings.", "Die Frau, der der Mann dankt, singt."),
    (clause(noun("man", relative=clause(WOMAN, "wait", GAPPED)), "sing"),
     "The man for whom the woman waits sings.", "Der Mann, auf den die Frau wartet, singt."),
    (clause(noun("man", relative=clause(noun("dog", "old", owner=GAPPED), "sleep")), "sing"),
     "The man whose old dog sleeps sings.", "Der Mann, dessen alter Hund schläft, singt."),
    (clause(noun("women", relative=clause(noun("dog", owner=Gap(NOUN["woman"], True)), "sleep")),
     "sing"),
     "The women whose dog sleeps sing.", "Die Frauen, deren Hund schläft, singen."),
    (clause(MAN, "open", noun("box", relative=clause("I", "buy", Gap(NOUN["box"])))),
     "The man opens the box that I buy.", "Der Mann macht die Kiste auf, die ich kaufe."),
    (clause(MAN, "dream", noun("dog", relative=clause(Gap(NOUN["dog"]), "sleep"))),
     "The man dreams of the dog that sleeps.", "Der Mann träumt von dem Hund, der schläft."),
    (clause(MAN, "eat", noun("cake", relative=clause("we", "give", WOMAN, Gap(NOUN["cake"])))),
     "The man eats the cake that we give the woman.",
     "Der Mann isst den Kuchen, den wir der Frau geben."),
    # Two main clauses.
    (Compound(clause(MAN, "sleep"), "and", clause(WOMAN, "sing")),
     "The man sleeps, and the woman sings.", "Der Mann schläft und die Frau singt."),
    (Compound(clause(MAN, "sleep"), "but", clause(WOMAN, "sing")),
     "The man sleeps, but the woman sings.", "Der Mann schläft, aber die Frau singt."),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sentence", "english", "german"), SENTENCES, ids=[s[1] for s in SENTENCES]
)
def test_sentences_are_rendered_as_the_written_examples(sentence, english, german):
    assert both(sentence) == (english, german)


TREES = [
    (
        clause(MAN, "see", WOMAN, negated=True, tense="can", place=GARDEN),
        "(S (NP (DT The) (NN man)) (VP (MD can) (RB not) (VP (VB see) (NP (DT the) (NN woman)) "
        "(PP (IN in) (NP (DT the) (NN garden))))) (. .))",
    ),
    (
        clause("they", "pick", noun("ball"), tense="past", time=TODAY, fronted="time"),
        "(S (NP (NN Today)) (NP (PRP they)) (VP (VBD picked) (PRT (RP up)) "
        "(NP (DT the) (NN ball))) (. .))",
    ),
    (
        clause(noun("man", relative=clause(WOMAN, "wait", GAPPED)), "sleep", tense="want"),
        "(S (NP (NP (DT The) (NN man)) (SBAR (WHPP (IN for) (WHNP (WP whom))) "
        "(S (NP (DT the) (NN woman)) (VP (VBZ waits))))) "
        "(VP (VBZ wants) (S (VP (TO to) (VP (VB sleep))))) (. .))",
    ),
    (
        clause(
            noun("dog", owner=noun("king")),
            "be",
            predicate=ADJECTIVE["old"],
            subordinate=Subordinate(subordinator("when", "wenn"), clause("I", "sing")),
            fronted="subordinate",
        ),
        "(S (SBAR (WHADVP (WRB When)) (S (NP (PRP I)) (VP (VBP sing)))) (, ,) "
        "(NP (NP (DT the) (NN king) (POS 's)) (NN dog)) (VP (VBZ is) (ADJP (JJ old))) (. .))",
    ),
    (
        Compound(clause(MAN, "sleep"), "but", clause(DOG, "dance", adverb=FREQUENCIES[0])),
        "(S (S (NP (DT The) (NN man)) (VP (VBZ sleeps))) (, ,) (CC but) "
        "(S (NP (DT the) (NN dog)) (ADVP (RB often)) (VP (VBZ dances))) (. .))",
    ),
]


@pytest.mark.parametrize(("sentence", "tree"), TREES)
def test_trees_are_built_as_the_written_examples(sentence, tree):
    assert english_tree(sentence) == tree
