"""The built-in corpus: a small English-German grammar of our own.

A sentence is built once as a structure that says who does what to whom, and realised twice: as an
English parse tree and as German words. `generate` samples such structures; the functions
`english_tree`, `english_text` and `german_text` realise any one of them.

Each English sentence has exactly one reading in this grammar, hence one German sentence and one
tree: "with" after a noun belongs to that noun, every other free preposition to its clause, and
what follows a relative clause belongs to that relative clause.
"""

from keras_transformer.data.synthetic.corpus import (
    SPLITS,
    SyntheticExample,
    generate,
    split_of,
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
    "german_clause",
    "german_phrase",
    "german_text",
    "split_of",
]
