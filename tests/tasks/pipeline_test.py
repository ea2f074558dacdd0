import keras
import pytest

from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.tokenizer import VocabularyOptions, make_tokenizer
from keras_transformer.option_fields import from_keywords
from keras_transformer.tasks.pipeline import (
    TrainingOptions,
    begin_training,
    make_batches,
    make_model,
)
from tests.small_corpus import sentence_pairs

JAX = keras.backend.backend() == "jax"


@pytest.mark.each_backend_long
@pytest.mark.skipif(keras.backend.backend() == "torch", reason="PyTorch traces nothing")
def test_the_training_step_is_traced_once_for_a_shape(tmp_path):
    sizes = {"num_layers": 1, "scale": 0.25, "batch_tokens": 100, "num_shapes": 2}
    options = from_keywords(TrainingOptions, {"output_dir": tmp_path, **sizes})
    context = begin_training(options)
    text = ParallelText("words", "train", "en", "de", lambda: iter(sentence_pairs(100)))
    vocabulary = VocabularyOptions(vocabulary_size=60)
    sentences = (sentence for pair in text for sentence in pair)
    tokenizer = make_tokenizer(sentences, vocabulary, tmp_path / "tokenizer.spm")
    batches = make_batches(text, text, tokenizer, context)
    model = make_model(tokenizer.vocabulary_size, context)
    # The first epochs may have one of the shapes.
    start = batches.train.plans.first_step(1000)
    assert batches.train.plans.num_shapes(1000) == 2

    calls, step = [], model.train_step
    model.train_step = lambda *args, **kwargs: calls.append(1) or step(*args, **kwargs)
    model.fit(batches.train.stream(start), shuffle=False, steps_per_epoch=4, verbose=0)
    assert len(calls) == (2 if JAX else 1)  # TensorFlow's has free axes.


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_precision_changes_only_the_policy_of_the_model(tmp_path, precision):
    options = from_keywords(
        TrainingOptions,
        {"output_dir": tmp_path, "num_layers": 1, "scale": 0.25, "precision": precision},
    )
    before = keras.config.dtype_policy().name
    model = make_model(60, begin_training(options))
    assert model.encoder.layers[0].compute_dtype == precision.removeprefix("mixed_")
    assert model.optimizer.loss_scaling == (precision == "mixed_float16")
    assert keras.config.dtype_policy().name == before
