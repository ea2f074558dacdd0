"""A linearization that is defined outside the package."""

import keras

from keras_transformer.parsing.linearization import LABELLED_BRACKETS, Linearization
from keras_transformer.parsing.traversal import CLOSE


@keras.saving.register_keras_serializable(package="tests")
class UnlabelledClosers(Linearization):
    """As `LabelledBrackets`, but `)` closes every constituent."""

    def write_step(self, step, label):
        return ")" if step == CLOSE else LABELLED_BRACKETS.write_step(step, label)

    def read_symbol(self, symbol):
        if symbol == ")":
            return CLOSE, None
        step, label = LABELLED_BRACKETS.read_symbol(symbol)
        return (None, None) if step == CLOSE else (step, label)


@keras.saving.register_keras_serializable(package="tests")
class InOrderUnlabelled(UnlabelledClosers):
    order = "in-order"
