"""`fit` on the batches of a corpus: epochs, streams, and shapes that vary."""

import keras
import numpy as np
import pytest

from keras_transformer.data.batching import TokenBatches, infinite_dataset
from keras_transformer.data.token_store import TokenStore
from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.models.metrics import TokenAccuracy
from tests.small_corpus import quick_model, sentence_pairs, store_of, tokenizer


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a dataset of TensorFlow's")
@pytest.mark.each_backend
def test_a_stream_has_no_autotuning():
    """`fit` leaves it before its end, and would wait for TensorFlow's tuning thread to wake up."""
    dataset = infinite_dataset(lambda index: {"x": np.full((1, 2), index)})
    assert [int(batch["x"][0, 0]) for batch in dataset.take(3)] == [0, 1, 2]
    assert dataset.options().autotune.enabled is False


class Recorded(TokenBatches):
    """Notes which batches of the present epoch are asked for, and which are made for a stream."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.asked = []
        self.made = []

    def __getitem__(self, index):
        self.asked.append((self.epoch, index))
        return super().__getitem__(index)

    def batch_of_step(self, step):
        self.made.append(step)
        return super().batch_of_step(step)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model after two epochs of `fit` on batches."""
    folder = tmp_path_factory.mktemp("fit")
    store = TokenStore.build(folder / "tokens", sentence_pairs(40, longest=6), tokenizer())
    batches = Recorded(store, 256, num_shapes=2)
    val_batches = TokenBatches(store, 256, num_shapes=1, training=False)
    model = quick_model()
    model.compile(
        keras.optimizers.Adam(0.01),
        LabelSmoothedCrossentropy(reduction="sum"),
        weighted_metrics=[TokenAccuracy()],
    )
    before = model.evaluate(val_batches, verbose=0, return_dict=True)
    history = model.fit(batches, epochs=2, validation_data=val_batches, verbose=0).history
    return {
        "model": model,
        "batches": batches,
        "before": before,
        "history": history,
        "asked": [*batches.asked],
    }


@pytest.mark.each_backend
def test_fit_shuffles_each_epoch(fitted):
    # Keras may look at the first batches once more, to learn their shapes; it calls
    # `on_epoch_end` before the first epoch too, and shuffles the batches once again.
    whole = [(epoch, index) for epoch in (1, 2) for index in range(len(fitted["batches"]))]
    assert sorted(fitted["asked"][-len(whole) :]) == whole
    assert fitted["history"]["val_loss"][-1] < fitted["before"]["loss"]
    assert fitted["history"]["val_accuracy"][-1] > fitted["before"]["accuracy"]


@pytest.mark.parametrize("start_step", [0, 3])
def test_fit_goes_through_a_stream_step_by_step(fitted, start_step):
    batches, num_batches = fitted["batches"], len(fitted["batches"])
    batches.made = []
    stream = batches.stream(start_step)
    fitted["model"].fit(stream, epochs=2, steps_per_epoch=num_batches + 1, verbose=0)
    steps = batches.made
    # From the last time it began, after a look at the shapes: on and on, also from one epoch of
    # `fit` to the next.
    start = len(steps) - 1 - steps[::-1].index(start_step)
    assert steps[start:] == list(range(start_step, start_step + len(steps) - start))
    assert len(steps) - start >= 2 * (num_batches + 1)


@pytest.mark.each_backend
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a matter of TensorFlow")
def test_fit_takes_any_mixture_of_shapes(fitted, tmp_path):
    # Keras reads off the first two batches which axes vary: here their source axis does not, as
    # the largest and the smallest shape differ in the target only; that of the third does.
    lengths = [(10, 2)] * 15 + [(5, 9)] * 15 + [(10, 10)] * 15
    batches = TokenBatches(store_of(tmp_path / "tokens", lengths), 256, num_shapes=3)
    assert batches.shapes.tolist() == [[11, 3], [6, 10], [11, 11]]
    fitted["model"].fit(batches, verbose=0)


class Broken(TokenBatches):
    """Batches of which the sixth of an epoch cannot be made."""

    def batch(self, epoch, index):
        if index == 5:
            raise OSError("The disk is gone.")
        return super().batch(epoch, index)


@pytest.mark.parametrize("kind", ["stream", "epoch", "validation"])
def test_a_batch_that_cannot_be_made_ends_the_training(fitted, kind):
    store = fitted["batches"].store
    broken, whole = Broken(store, 100, 2), fitted["batches"]
    options = {
        "stream": {"x": broken.stream(), "steps_per_epoch": 20},
        "epoch": {"x": broken, "shuffle": False},
        "validation": {"x": whole, "validation_data": Broken(store, 100, 2, training=False)},
    }[kind]
    # TensorFlow tells of it in an error of its own.
    with pytest.raises(Exception, match="The disk is gone."):
        fitted["model"].fit(epochs=2, verbose=0, **options)


def test_few_shapes_first_train_on_every_pair_of_an_epoch(fitted):
    store = fitted["batches"].store
    batches = TokenBatches(store, 100, 3, compile_batches=3)
    assert batches.plans.num_shapes(0) < batches.plans.num_shapes(2)
    seen, batch = [], batches.batch

    def batch_and_note(epoch, index):
        seen.append((epoch, batches.pairs_of_batch(epoch, index)[1]))
        return batch(epoch, index)

    batches.batch = batch_and_note
    steps = batches.plans.first_step(3)
    fitted["model"].fit(batches.stream(), steps_per_epoch=steps, verbose=0)
    for epoch in range(3):
        pairs = np.concatenate([pairs for e, pairs in seen if e == epoch])
        assert set(pairs) == set(range(len(store)))
