"""Constituency trees: reading, writing and cleaning them, and writing them as symbols.

The tree type is `nltk.Tree`. A leaf is a tree with one string, the word, and its label is the
part-of-speech tag. Every other tree is a constituent and holds trees. No function here recurses, so
trees may be thousands of brackets deep. nltk is loaded by the first call, not by the import.
"""

from keras_transformer.parsing.trees.brackets import (
    escape,
    parse_trees,
    read_trees,
    to_bracketed,
    unescape,
)
from keras_transformer.parsing.trees.cleaning import clean_label, clean_tree
from keras_transformer.parsing.trees.consensus import Consensus, consensus
from keras_transformer.parsing.trees.linearization import (
    LABELLED_BRACKETS,
    UNKNOWN_TAG,
    InOrderBrackets,
    LabelledBrackets,
    Linearization,
    most_openings,
)
from keras_transformer.parsing.trees.repair import repair
from keras_transformer.parsing.trees.traversal import tagged_words

__all__ = [
    "LABELLED_BRACKETS",
    "UNKNOWN_TAG",
    "Consensus",
    "InOrderBrackets",
    "LabelledBrackets",
    "Linearization",
    "clean_label",
    "clean_tree",
    "consensus",
    "escape",
    "most_openings",
    "parse_trees",
    "read_trees",
    "repair",
    "tagged_words",
    "to_bracketed",
    "unescape",
]
