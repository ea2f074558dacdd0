"""Checkpoints chosen by their validation, and the end of a training in one or several processes."""

import math

import keras
import pytest

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.errors import UserError
from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.training.callbacks import LogScore
from keras_transformer.training.optimizer import WholeBatchOptimizer
from keras_transformer.training.processes import Processes
from keras_transformer.training.rolling_checkpoints import RollingCheckpoints
from keras_transformer.training.stopping import (
    StopEarly,
    StopSync,
    best_checkpoints,
    has_ended,
    merit,
)
from keras_transformer.training.trainer import fit_in_parts, plan_parts
from keras_transformer.training.training_state import TrainingState, newest_state
from keras_transformer.weights.checkpoints import get_step, list_checkpoints
from tests.small_corpus import quick_model, sentence_pairs, tokenizer

SCORES = [1.0, 5.0, 3.0, 5.0, 2.0, math.nan, 9.0]


def train(folder, batches, num_batches, state):
    """Two batches an interval, whose validations give `SCORES`, with patience 3."""
    model = quick_model()
    optimizer = WholeBatchOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer, LabelSmoothedCrossentropy(reduction="sum"))
    optimizer.build(model.trainable_variables)
    state.restore(model)
    checkpoints = RollingCheckpoints(
        folder, keep=2, start=state, num_batches=num_batches, best_by="val_bleu"
    )
    scores = iter(SCORES[len(checkpoints.history.get("val_bleu", [])) :])
    callbacks = [
        LogScore("val_bleu", lambda: next(scores)),
        StopEarly("val_bleu", 3, checkpoints.history),
        checkpoints,
    ]
    parts = plan_parts(state.batches, num_batches, 2)
    fit_in_parts(model, batches.stream, parts, callbacks=callbacks, verbose=0)
    checkpoints.wait()
    return checkpoints.history["val_bleu"]


@pytest.mark.parametrize("sittings", [(14,), (2, 14), (4, 6, 14), (8, 14), (5, 14)])
def test_early_stopping_is_the_same_after_resuming(tmp_path, sittings):
    store = TokenStore.build(tmp_path / "store", sentence_pairs(30), tokenizer())
    batches = TokenBatches(store, 80, num_shapes=1)
    folder, state = tmp_path / "checkpoints", TrainingState()
    for num_batches in sittings:
        history = train(folder, batches, num_batches, state)
        state = newest_state(folder)
    if 5 in sittings:  # a short interval is one too: at 2, 4, 5, 6, 8 steps
        assert len(history) == 5 and state.step == 8
        return
    # The second 5.0 is no better than the first; of the two, and 3.0 between them, both stay.
    assert history == SCORES[:5] and state.step == 10
    kept = list_checkpoints(folder)
    assert [get_step(path, "weights.h5") for path in kept] == [4, 8]
    assert best_checkpoints(folder, "val_bleu", 2) == kept
    assert best_checkpoints(folder, "val_bleu", 1) == kept[1:]
    assert has_ended(state.history["val_bleu"], "val_bleu", 3)


@pytest.mark.once
@pytest.mark.parametrize(
    ("values", "name", "patience", "expected"),
    [
        ([], "val_loss", 1, False),
        ([3.0], "val_loss", 1, False),
        ([3.0, 2.0], "val_loss", 1, False),
        ([3.0, 3.0], "val_loss", 1, True),
        ([3.0, 2.0], "val_bleu", 1, True),
        ([3.0, 2.0, 1.0, 4.0], "val_bleu", 3, False),
        ([3.0, 2.0, 1.0], "val_bleu", 0, False),
        ([math.nan, math.nan, 1.0], "val_f1", 2, False),
        ([1.0, math.nan, math.nan], "val_perplexity", 2, True),
    ],
    ids=str,
)
def test_when_a_training_has_ended(values, name, patience, expected):
    assert has_ended(values, name, patience) == expected


@pytest.mark.once
def test_smaller_losses_and_larger_scores_are_better():
    assert merit("val_loss", 1.0) > merit("val_loss", 2.0) > merit("val_loss", math.nan)
    assert merit("val_perplexity", 3.0) > merit("val_perplexity", 4.0)
    assert merit("val_bleu", 2.0) > merit("val_bleu", 1.0) > merit("val_bleu", None)


# Processes that stop together


class Largest:
    """What both have said to one question: known as soon as both have."""

    def __init__(self):
        self.numbers = []

    def __int__(self):
        assert len(self.numbers) == 2, "one process waits for the other"
        return max(self.numbers)


class Side:
    """A stand-in for the `Processes` of one side."""

    count = 2

    def __init__(self, questions):
        self.questions = questions
        self.asked = 0

    def largest(self, number):
        if self.asked == len(self.questions):
            self.questions.append(Largest())
        question = self.questions[self.asked]
        self.asked += 1
        question.numbers.append(number)
        return question

    def raise_together(self, error=None):
        raise error or UserError("the other's")


def first_stop(sides, wish, batches=10):
    """The batch at which both stop, where one has a wish at its own batch `wish[1]`."""
    process, at, act = wish
    for batch in range(batches):
        for i, side in enumerate(sides):
            if (i, batch) == (process, at):
                act(side)
        stops = []
        for side in sides:
            try:
                stops.append(side.at_batch())
            except UserError as error:
                stops.append(str(error))
        if any(stops):
            return batch, stops
    return None


def ask_to_stop(side):
    side.stop_soon = True


@pytest.mark.parametrize("process", [0, 1])
@pytest.mark.parametrize("at", [0, 1, 4])
@pytest.mark.once
def test_both_stop_two_batches_later(process, at):
    questions = []
    sides = [StopSync(Side(questions)) for _ in range(2)]
    assert first_stop(sides, (process, at, ask_to_stop)) == (at + 2, [True, True])


@pytest.mark.parametrize("process", [0, 1])
@pytest.mark.once
def test_both_fail_with_the_error_of_one(process):
    questions = []
    sides = [StopSync(Side(questions)) for _ in range(2)]
    mine = ["the other's", "the other's"]
    mine[process] = "a full disk"
    fail = (process, 3, lambda side: side.fail(UserError("a full disk")))
    assert first_stop(sides, fail) == (5, mine)


@pytest.mark.once
def test_waiting_for_an_answer_keeps_earlier_requests():
    questions = []
    sides = [StopSync(Side(questions)) for _ in range(2)]
    assert first_stop(sides, (0, 9, ask_to_stop)) is None
    questions_before = len(questions)
    # Both ask before one waits, as they do: a side alone would wait.
    for side in sides:
        side._ask()
    assert [any(side._take() for _ in range(3)) for side in sides] == [True, True]
    assert len(questions) == questions_before + 1


@pytest.mark.once
def test_one_process_has_its_answer_at_once():
    alone = StopSync(Processes())
    assert not alone.at_batch() and not alone.now()
    alone.stop_soon = True
    assert alone.at_batch() and alone.now()
    with pytest.raises(UserError, match="a full disk"):
        alone.fail(UserError("a full disk"))


@pytest.mark.once
def test_one_process_calls_functions_directly():
    alone, called = Processes(), []
    assert alone.is_writer and alone.first(lambda: (1, 2)) == (1, 2)
    assert alone.each(lambda: called.append(1)) is None and called == [1]
    error = KeyError("mine")
    with pytest.raises(KeyError) as raised:
        alone.raise_together(error)
    assert raised.value is error
    assert alone.raise_together() is None and alone.largest(7) == 7
