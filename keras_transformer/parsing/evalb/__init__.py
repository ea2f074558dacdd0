"""EVALB's scores of constituency trees, computed as Sekine and Collins's C program does.

`evaluate_trees` and `evaluate_files` score in Python. The command
`python -m keras_transformer.parsing.evalb` prints the same output as the C program.
"""

from keras_transformer.parsing.evalb.evaluate import evaluate_files, evaluate_trees
from keras_transformer.parsing.evalb.parameters import Parameters
from keras_transformer.parsing.evalb.scores import EvalbScores, SentenceScores, Summary

__all__ = [
    "EvalbScores",
    "Parameters",
    "SentenceScores",
    "Summary",
    "evaluate_files",
    "evaluate_trees",
]
