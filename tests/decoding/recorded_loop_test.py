"""A recorded loop gives what its step gives."""

import dataclasses
import gc
import weakref

import keras
import numpy as np
import pytest

from keras_transformer.decoding import search_loop
from keras_transformer.decoding.candidates import Constraint
from tests.decoding.comparison import model_of
from tests.decoding.search_functions import beam_search, sample
from tests.decoding.searches import ROWS, SEARCHES, shared_model
from tests.decoding.sentences import SOURCE
from tests.helpers import randomize, to_numpy

torch = pytest.importorskip("torch")
if keras.backend.backend() != "torch":
    pytest.skip("the loop is PyTorch's", allow_module_level=True)

from keras_transformer.decoding.recorded_loop import record, recorded_loop  # noqa: E402

NUMBERS = torch.tensor([3.0, 1.0, 2.0])


class Counted:
    """A step, and how often it is called."""

    def __init__(self, step):
        self.step, self.calls = step, 0

    def __call__(self, state):
        self.calls += 1
        return self.step(state)


def plain_loop(goes_on, step, state):
    while goes_on(state):
        state = step(state)
    return state


def is_before(steps):
    return lambda state: state[0] < steps


def of_many_operations(state):
    step, values, (kept, both) = state
    values = torch.cat([values[1:], (values[:1] * 1.5 + step).to(torch.float32)])
    values, order = torch.sort(values)
    kept.index_copy_(0, step[None], NUMBERS[order[:1]])  # in place
    torch._assert_async(step >= 0)  # without a result
    first, *_ = torch.split(values * torch.where(values > 2, 0.5, -1.0), 1)
    return step + 1, values, (kept, both + first)


def of_constants(state):
    """One of the constants is a tensor of the first state."""
    return state[0] + 1, state[1] * 2 + NUMBERS


def swapped(state):
    return state[0] + 1, state[2], state[1]


STEPS = {
    "many operations": (
        of_many_operations,
        lambda: (NUMBERS.clone(), (torch.zeros(9), torch.zeros(1))),
    ),
    "constants": (of_constants, lambda: (NUMBERS,)),
    "one tensor twice": (swapped, lambda: 2 * (NUMBERS,)),
    "dtypes": (
        lambda state: (state[0] + 1, (state[1] + 0.5).to(torch.int32)),
        lambda: (torch.tensor([1, 2], dtype=torch.int32),),
    ),
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("steps", [0, 1, 2, 7])
def test_recorded_and_plain_loops_give_equal_states(name, steps):
    step, first = STEPS[name]
    counted = Counted(step)
    with torch.inference_mode():
        zero = torch.tensor(0)
        expected = plain_loop(is_before(steps), step, (zero, *first()))
        actual = recorded_loop(is_before(steps), counted, (zero, *first()))
    assert counted.calls == min(steps, 1)
    expected, actual = map(keras.tree.flatten, (expected, actual))
    assert len(expected) == len(actual)
    for one, other in zip(expected, actual):
        assert one.dtype == other.dtype and one.tolist() == other.tolist()


def test_the_first_state_is_not_changed_in_place():
    first = torch.tensor(0), NUMBERS.clone(), (torch.zeros(9), torch.zeros(1))
    with torch.inference_mode():
        recorded_loop(is_before(5), of_many_operations, first)
    assert first[0] == 0 and not first[2][0].any()


def test_random_numbers_are_new_in_each_step():
    def step(state):
        return state[0] + 1, state[1].scatter(0, state[0][None], torch.rand(1))

    with torch.inference_mode():
        _, numbers = recorded_loop(is_before(9), step, (torch.tensor(0), torch.zeros(9)))
    assert len(set(numbers.tolist())) == 9


def test_keeps_no_tensor_alive():
    constant = torch.ones(3)
    reference = weakref.ref(constant)

    def step(state, constant=constant):
        return state[0] + 1, state[1] * 2 + constant

    gc.disable()
    try:
        with torch.inference_mode():
            recorded_loop(is_before(5), step, (torch.tensor(0), NUMBERS))
        del step, constant
        assert reference() is None
    finally:
        gc.enable()


READS = {
    "item": lambda x: x.sum().item(),
    "bool": lambda x: 1 if (x > 2).any() else 0,
    "int": lambda x: int(x[0]),
    "numpy": lambda x: x.numpy().sum().item(),
    "array": lambda x: float(np.asarray(x)[0]),
    "list": lambda x: x.tolist()[0],
    "equal": lambda x: float(torch.equal(x, NUMBERS)),
    "keras": lambda x: float(keras.ops.convert_to_numpy(x)[1]),
}


@pytest.mark.parametrize("name", READS)
def test_a_step_that_reads_values_runs_each_time(name):
    def step(state):
        return state[0] + 1, state[1] + READS[name](state[1])

    counted = Counted(step)
    with torch.inference_mode():
        first = torch.tensor(0), NUMBERS.clone()
        expected = plain_loop(is_before(4), step, first)
        actual = recorded_loop(is_before(4), counted, first)
    assert counted.calls == 4
    assert actual[1].tolist() == expected[1].tolist()


@pytest.mark.parametrize(
    "first, step",
    [
        (torch.zeros(0), lambda x: torch.cat([x, torch.full((1,), len(x))])),
        (torch.zeros(2, dtype=torch.int32), lambda x: x + 0.5),
        (1.0, lambda x: 2 * x),
    ],
    ids=["size", "dtype", "no tensor"],
)
def test_a_state_that_changes_its_form_is_not_repeated(first, step):
    with torch.inference_mode():
        _, actual = recorded_loop(
            is_before(3), lambda state: (state[0] + 1, step(state[1])), (torch.tensor(0), first)
        )
        expected = step(step(step(first)))
    assert torch.equal(torch.as_tensor(actual), torch.as_tensor(expected))


@dataclasses.dataclass(frozen=True)
class EvenThenOdd(Constraint):
    """Looks at values, which only PyTorch's tensors have in a step."""

    def allowed(self, log_probs, token_ids, state, progress):
        is_even = int(progress.step) % 2 == 0
        wrong = torch.as_tensor(token_ids % 2 == is_even) & torch.as_tensor(token_ids > 2)
        return torch.where(wrong, -np.inf, log_probs)


def test_a_search_takes_one_step_of_each_shape(monkeypatch):
    counts = []
    next_state = search_loop.SearchLoop.next_state
    monkeypatch.setattr(
        search_loop.SearchLoop,
        "next_state",
        lambda self, state: counts.append(state.ancestors.shape) or next_state(self, state),
    )
    model = randomize(model_of(num_layers=1), seed=1)
    token_ids, _ = beam_search(model, SOURCE, extra_length=20)
    assert to_numpy(token_ids != 0).sum(-1).max() > 5
    assert len(counts) == len(set(counts))
    counts.clear()
    options = {"constraints": (EvenThenOdd(),), "min_length": 6}
    token_ids, _ = beam_search(model, SOURCE, extra_length=20, **options)
    assert len(counts) > 5
    others = [row[row > 2] for row in to_numpy(token_ids)[:, 0]]
    for row in others:
        assert (row % 2 == np.arange(len(row)) % 2).all()
    assert max(map(len, others)) > 4


def test_a_search_uses_weights_that_were_assigned_later():
    model = model_of.__wrapped__(num_layers=1)
    before = to_numpy(beam_search(model, SOURCE)[1])
    for weight in model.weights:
        weight.assign(1.5 * to_numpy(weight))
    assert (to_numpy(beam_search(model, SOURCE)[1]) != before)[:-1].all()


def sum_of_powers(x, steps):
    """x + x^2 + ..., and a tensor that is made and changed in place."""

    def step(state):
        count, power, total = state
        total.add_(power)
        return count + 1, power * x, total

    state = torch.tensor(0), x, torch.zeros_like(x)
    count, power, total = recorded_loop(lambda state: state[0] < steps, step, state)
    return {"total": total, "rest": (power / x, [count])}


def nested(x, steps):
    def step(state):
        inner = sum_of_powers(state[1], steps)
        return state[0] + 1, inner["total"] / steps

    return recorded_loop(lambda state: state[0] < 3, step, (torch.tensor(0), x))


@pytest.mark.parametrize("function", [sum_of_powers, nested])
def test_a_record_gives_what_its_function_gives_for_other_values(function):
    given = [(NUMBERS, 2), (0.5 * NUMBERS, 7), (-NUMBERS, 1)]
    with torch.inference_mode():
        first, *others = ([x.clone(), torch.tensor(steps)] for x, steps in given)
        results, repeat = record(function, first)
        again = repeat(*first)
        for arguments in others:
            expected = function(*arguments)
            actual = repeat(*arguments)
            keras.tree.assert_same_structure(expected, actual)
            for one, other in zip(*map(keras.tree.flatten, (expected, actual))):
                assert torch.equal(one, other)
        for one, other in zip(*map(keras.tree.flatten, (results, again))):
            assert torch.equal(one, other)
    assert first[0].tolist() == NUMBERS.tolist()


def test_a_record_takes_a_tensor_that_was_passed_twice_as_two():
    with torch.inference_mode():
        _, repeat = record(lambda a, b: a - b, [NUMBERS, NUMBERS])
        assert repeat(2 * NUMBERS, NUMBERS).tolist() == NUMBERS.tolist()


def test_a_record_takes_weights_as_they_are():
    weight = torch.nn.Parameter(torch.ones(3))
    with torch.inference_mode():
        _, repeat = record(lambda x: x * weight, [NUMBERS], [weight])
        assert repeat(3 * weight, NUMBERS).tolist() == (3 * NUMBERS).tolist()


ELSEWHERE = torch.zeros(1)
UNREPEATABLE = {
    **READS,
    "number of steps": lambda x: sum_of_powers(x, torch.tensor(0))["total"],
    "argument": lambda x: x.add_(1),
    "view of an argument": lambda x: x[1:].mul_(2),
    "constant": lambda x: x + ELSEWHERE.add_(1),
    "shape": lambda x: torch.ones(len(torch.nonzero(x > 1.5))),
}


@pytest.mark.parametrize("name", UNREPEATABLE)
def test_functions_that_may_do_other_operations_are_not_repeated(name):
    with torch.inference_mode():
        _, repeat = record(UNREPEATABLE[name], [NUMBERS.clone()])
    assert repeat is None


def counted_steps(monkeypatch):
    counts, next_state = [], search_loop.SearchLoop.next_state
    monkeypatch.setattr(
        search_loop.SearchLoop,
        "next_state",
        lambda self, state: counts.append(1) or next_state(self, state),
    )
    return counts


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_of_a_known_shape_runs_no_python_code_of_its_steps(name, monkeypatch):
    search, options = SEARCHES[name]
    used, new = shared_model.__wrapped__(), shared_model.__wrapped__()
    search(used, ROWS, **options)
    counts = counted_steps(monkeypatch)
    others = np.where(ROWS > 2, 14 - ROWS, ROWS)
    for rows in (ROWS, others, ROWS):
        actual = search(used, rows, **options)
        is_known, _ = not counts, counts.clear()
        assert is_known or rows is others  # its outputs may need a larger cache
        expected = search(new, rows, **options)
        counts.clear()
        for one, other in zip(actual, expected):
            assert torch.equal(one, other)


CHANGES = {
    "assign": lambda model: model.token_embedding.embeddings.assign(
        -2 * model.token_embedding.embeddings
    ),
    "storage": lambda model: setattr(
        model.token_embedding.embeddings.value, "data", -model.token_embedding.embeddings.value.data
    ),
    "dtype": lambda model: model.to(torch.float64),
    "int8": lambda model: model.quantize("int8"),
    "lora": lambda model: [model.enable_lora(2), randomize(model, seed=3)],
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_search_sees_changed_weights(name):
    used, new = shared_model.__wrapped__(), shared_model.__wrapped__()
    before = beam_search(used, ROWS)
    outputs = []
    for model in (used, new):
        CHANGES[name](model)
        outputs.append(beam_search(model, ROWS))
    for one, other in zip(*outputs):
        assert torch.equal(one, other)
    assert not torch.equal(outputs[0][1], before[1])


def test_a_search_uses_the_values_of_a_scope():
    model = shared_model.__wrapped__()
    before = beam_search(model, ROWS)[1]
    values = [(variable, 2 * variable.value) for variable in model.variables]
    with keras.StatelessScope(state_mapping=values):
        inside = beam_search(model, ROWS)[1]
    assert not torch.equal(inside, before)
    assert torch.equal(beam_search(model, ROWS)[1], before)


@dataclasses.dataclass(frozen=True)
class Switched(Constraint):
    """Forbids a token that is not one of its fields."""

    def allowed(self, log_probs, token_ids, state, progress):
        return torch.where(torch.as_tensor(token_ids == FORBIDDEN["token"]), -np.inf, log_probs)


FORBIDDEN = {"token": -1}


def test_a_constraint_of_a_user_is_called_in_each_search(monkeypatch):
    model, search = shared_model(), {"constraints": (Switched(),)}
    first = to_numpy(beam_search(model, ROWS, **search)[0])
    token = int(first[0, 0, 0])
    assert token > 2
    monkeypatch.setitem(FORBIDDEN, "token", token)
    assert token not in to_numpy(beam_search(model, ROWS, **search)[0])


def test_samples_without_a_seed_differ_in_each_call():
    model = shared_model()
    found = {str(sample(model, ROWS, num_results=4, seed=None)[0].tolist()) for _ in range(4)}
    assert len(found) > 1


def test_records_keep_no_model_alive():
    model = shared_model.__wrapped__()
    for _ in range(2):
        beam_search(model, ROWS)
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None
