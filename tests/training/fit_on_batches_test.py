"""`fit` on the batches of a corpus: epochs, streams, and shapes that vary."""

import keras
import pytest

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.training.losses import LabelSmoothedCrossentropy
from keras_transformer.training.metrics import TokenAccuracy
from tests.small_corpus import quick_model, sentence_pairs, store_of, tokenizer


class Recorded(TokenBatches):
    """Notes which batches are asked for."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.asked = []

    def batch(self, epoch, index):
        self.asked.append((epoch, index))
        return super().batch(epoch, index)


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
        "asked": list(batches.asked),
    }


def test_fit_sees_each_epoch_anew(fitted):
    # Keras may look at the first batches once more, to learn their shapes; it calls
    # `on_epoch_end` before the first epoch too, and shuffles the batches once again.
    whole = [(epoch, index) for epoch in (1, 2) for index in range(len(fitted["batches"]))]
    assert sorted(fitted["asked"][-len(whole) :]) == whole
    assert fitted["history"]["val_loss"][-1] < fitted["before"]["loss"]
    assert fitted["history"]["val_accuracy"][-1] > fitted["before"]["accuracy"]


@pytest.mark.parametrize("start_step", [0, 3])
def test_fit_goes_through_a_stream_step_by_step(fitted, start_step):
    batches, num_batches = fitted["batches"], len(fitted["batches"])
    batches.asked = []
    stream = batches.stream(start_step)
    fitted["model"].fit(stream, epochs=2, steps_per_epoch=num_batches + 1, verbose=0)
    steps = [epoch * num_batches + index for epoch, index in batches.asked]
    # From the last time it began, after a look at the shapes: on and on, also from one epoch of
    # `fit` to the next.
    start = len(steps) - 1 - steps[::-1].index(start_step)
    assert steps[start:] == list(range(start_step, start_step + len(steps) - start))
    assert len(steps) - start >= 2 * (num_batches + 1)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="a matter of TensorFlow")
def test_fit_takes_any_mixture_of_shapes(fitted, tmp_path):
    # Keras reads off the first two batches which axes vary: here their source axis does not, as
    # the largest and the smallest shape differ in the target only; that of the third does.
    lengths = [(10, 2)] * 15 + [(5, 9)] * 15 + [(10, 10)] * 15
    batches = TokenBatches(store_of(tmp_path / "tokens", lengths), 256, num_shapes=3)
    assert batches.shapes.tolist() == [[11, 3], [6, 10], [11, 11]]
    fitted["model"].fit(batches, verbose=0)
