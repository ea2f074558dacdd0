import keras
import pytest

from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.tasks import training_run
from keras_transformer.tasks.training_run import TrainingOptions, TrainingRun
from keras_transformer.training.distribution import Devices
from tests.small_corpus import sentence_pairs

JAX = keras.backend.backend() == "jax"


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="PyTorch traces nothing")
def test_the_training_step_is_traced_once_for_a_shape(tmp_path):
    training = TrainingRun(
        TrainingOptions(
            output_dir=tmp_path,
            num_layers=1,
            scale=0.25,
            vocabulary_size=60,
            batch_tokens=100,
            num_shapes=2,
        )
    )
    text = ParallelText("words", "train", "en", "de", lambda: iter(sentence_pairs(100)))
    tokenizer = training.tokenizer(sentence for pair in text for sentence in pair)
    training.plan_batches(text, text, tokenizer)
    model = training.build_model(tokenizer.vocabulary_size)
    assert len(training.train_batches.shapes) == 2

    calls, step = [], model.train_step
    model.train_step = lambda *args, **kwargs: calls.append(1) or step(*args, **kwargs)
    model.fit(training.train_batches.stream(), shuffle=False, steps_per_epoch=4, verbose=0)
    assert len(calls) == (2 if JAX else 1)  # TensorFlow's has free axes.


@pytest.mark.once
def test_each_process_but_the_first_has_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(training_run, "choose_devices", lambda *processes: Devices(2, (0, 2)))
    for process_id, folder in ((0, tmp_path), (1, tmp_path / "process-1")):
        options = TrainingOptions(output_dir=tmp_path, num_processes=2, process_id=process_id)
        assert TrainingRun(options).folder == folder
