"""A linearization that is defined outside the package."""

import keras

from keras_transformer.parsing.linearization import LABELLED_BRACKETS, Linearization
from keras_transformer.parsing.traversal import CLOSE


@keras.saving.register_keras_serializable(package="tests")
class UnlabelledClosers(Linearization):
    """As `LabelledBrackets`, but `)` closes every constituent."""

    def symbol_of(self, step, label):
        return ")" if step == CLOSE else LABELLED_BRACKETS.symbol_of(step, label)

    def step_of(self, symbol):
        if symbol == ")":
            return CLOSE, None
        step, label = LABELLED_BRACKETS.step_of(symbol)
        return (None, None) if step == CLOSE else (step, label)


@keras.saving.register_keras_serializable(package="tests")
class InOrderUnlabelled(UnlabelledClosers):
    order = "in-order"
