"""Two processes in turn, and at which batch each of them stops."""

import pytest

from keras_transformer.errors import UserError
from keras_transformer.training.processes import Processes
from keras_transformer.training.stopping import StopSync

pytestmark = pytest.mark.once


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
def test_both_stop_two_batches_later(process, at):
    questions = []
    sides = [StopSync(Side(questions)) for _ in range(2)]
    assert first_stop(sides, (process, at, ask_to_stop)) == (at + 2, [True, True])


@pytest.mark.parametrize("process", [0, 1])
def test_both_fail_with_the_error_of_one(process):
    questions = []
    sides = [StopSync(Side(questions)) for _ in range(2)]
    mine = ["the other's", "the other's"]
    mine[process] = "a full disk"
    fail = (process, 3, lambda side: side.fail(UserError("a full disk")))
    assert first_stop(sides, fail) == (5, mine)


def test_nothing_is_lost_where_they_wait_for_the_answer():
    questions = []
    sides = [StopSync(Side(questions)) for _ in range(2)]
    assert first_stop(sides, (0, 9, ask_to_stop)) is None
    questions_before = len(questions)
    # Both ask before one waits, as they do: a side alone would wait.
    for side in sides:
        side._ask()
    assert [any(side._take() for _ in range(3)) for side in sides] == [True, True]
    assert len(questions) == questions_before + 1


def test_one_process_has_its_answer_at_once():
    alone = StopSync(Processes())
    assert not alone.at_batch() and not alone.now()
    alone.stop_soon = True
    assert alone.at_batch() and alone.now()
    with pytest.raises(UserError, match="a full disk"):
        alone.fail(UserError("a full disk"))


def test_one_process_calls_what_it_is_given():
    alone, called = Processes(), []
    assert alone.is_writer and alone.first(lambda: (1, 2)) == (1, 2)
    assert alone.each(lambda: called.append(1)) is None and called == [1]
    error = KeyError("mine")
    with pytest.raises(KeyError) as raised:
        alone.raise_together(error)
    assert raised.value is error
    assert alone.raise_together() is None and alone.largest(7) == 7
