"""The built-in corpus: a small English-German grammar.

A sentence is a structure that describes who does what to whom. It is realized twice: as an English
parse tree and as German words. `generate` samples such structures; the functions `english_tree`,
`english_text` and `german_text` realize any of them.

Each English sentence has exactly one reading in this grammar, and therefore one German translation
and one tree: "with" after a noun belongs to that noun, every other free preposition belongs to its
clause, and words after a relative clause belong to that relative clause.
"""

from keras_transformer.data.synthetic.corpus import (
    SPLITS,
    SyntheticExample,
    generate,
    generate_splits,
    split_for,
)
from keras_transformer.data.synthetic.english import english_text, english_tree
from keras_transformer.data.synthetic.german import german_clause, german_phrase, german_text
from keras_transformer.data.synthetic.grammar import (
    Clause,
    Compound,
    Gap,
    NounPhrase,
    Pair,
    Place,
    Subordinate,
)

__all__ = [
    "SPLITS",
    "Clause",
    "Compound",
    "Gap",
    "NounPhrase",
    "Pair",
    "Place",
    "Subordinate",
    "SyntheticExample",
    "english_text",
    "english_tree",
    "generate",
    "generate_splits",
    "german_clause",
    "german_phrase",
    "german_text",
    "split_for",
]
