"""The built-in corpus: a small English-German grammar.

A sentence is a structure that describes who does what to whom. It is realized twice: as an English
parse tree and as German words. `generate` samples such structures; `english.english_tree`,
`english.english_text` and `german.german_text` realize any of them.

Each English sentence has exactly one reading in this grammar, and therefore one German translation
and one tree: "with" after a noun belongs to that noun, every other free preposition belongs to its
clause, and words after a relative clause belong to that relative clause.
"""

from keras_transformer.data.synthetic.corpus import SyntheticExample as SyntheticExample
from keras_transformer.data.synthetic.corpus import generate as generate
from keras_transformer.data.synthetic.corpus import generate_splits as generate_splits
