import gc
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import compilation
from keras_transformer.decoding.compilation import run_compiled
from tests.helpers import to_numpy


def small_model():
    return keras.Sequential(
        [keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")]
    )


class Function:
    """Multiplies ids by the model's only weight, and counts how often its Python code runs."""

    def __init__(self):
        self.calls = 0

    def __call__(self, model, token_ids, *, added=0):
        self.calls += 1
        return model.layers[0].kernel * ops.cast(token_ids, "float32") + added


IDS = np.array([[1, 2, 3], [4, 5, 6]], "int32")


def run(*args, **options):
    return to_numpy(run_compiled(*args, **options))


def test_is_compiled_once_a_program():
    model, function = small_model(), Function()
    for _ in range(3):
        assert run(function, model, IDS).tolist() == IDS.tolist()
        assert run(function, model, IDS[:1]).tolist() == IDS[:1].tolist()
    # TensorFlow: one graph for all shapes. JAX and PyTorch: one per shape.
    assert function.calls == {"tensorflow": 1, "jax": 2, "torch": 2}[keras.backend.backend()]


@pytest.mark.each_backend
def test_threads_share_a_program(monkeypatch):
    programs, backend = [], keras.backend.backend()
    compile_program = compilation._COMPILERS[backend]

    def slow_compiler(*args):
        time.sleep(0.2)  # for the other thread to come
        programs.append(compile_program(*args))
        return programs[-1]

    monkeypatch.setitem(compilation._COMPILERS, backend, slow_compiler)
    model, function = small_model(), Function()
    with ThreadPoolExecutor(2) as threads:
        results = list(threads.map(lambda _: run(function, model, IDS).tolist(), range(2)))
    assert results == [IDS.tolist()] * 2 and len(programs) == 1


def test_each_option_has_its_own_program():
    model, function = small_model(), Function()
    for added in (1, 2, 1):
        assert run(function, model, IDS, added=added).tolist() == (IDS + added).tolist()


def test_each_function_and_each_model_has_its_own_program():
    first, second = small_model(), small_model()
    second.layers[0].kernel.assign([[3.0]])
    assert run(Function(), first, IDS, added=1).tolist() == (IDS + 1).tolist()
    function = Function()
    for model, scale in ((first, 1), (second, 3), (first, 1)):
        assert run(function, model, IDS).tolist() == (IDS * scale).tolist()


def test_changed_weights_are_seen():
    model, function = small_model(), Function()
    for scale in (1.0, -2.0, 5.0):
        model.layers[0].kernel.assign([[scale]])
        assert run(function, model, IDS).tolist() == (scale * IDS).tolist()


@pytest.mark.parametrize("kind", [np.array, ops.convert_to_tensor])
def test_takes_arrays_and_tensors_and_gives_any_structure(kind):
    def function(model, a, b):
        return a + b, {"kernel": model.layers[0].kernel * 1}

    total, rest = run_compiled(function, small_model(), kind(IDS), kind(IDS))
    assert to_numpy(total).tolist() == (2 * IDS).tolist()
    assert to_numpy(rest["kernel"]).tolist() == [[1.0]]


def test_no_gradients_are_kept():
    if keras.backend.backend() != "torch":
        pytest.skip("a matter of PyTorch")
    result = run_compiled(Function(), small_model(), IDS)
    assert not result.requires_grad


def test_a_program_does_not_keep_its_model_alive():
    model = small_model()
    run(Function(), model, IDS)
    reference = weakref.ref(model)
    del model
    gc.collect()
    assert reference() is None
