"""Constituency trees: reading, writing and cleaning them, and writing them as symbols.

The tree type is `nltk.Tree`. A leaf is a tree with one string, the word, and its label is the
part-of-speech tag. Every other tree is a constituent and holds trees. No function here recurses, so
trees may be thousands of brackets deep. nltk is loaded by the first call, not by the import.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
