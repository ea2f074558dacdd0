import functools
import inspect

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.models.config import TransformerConfig
from keras_transformer.models.encoder_decoder import zero_embeddings
from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.models.metrics import Perplexity, TokenAccuracy
from keras_transformer.models.transformer import Transformer
from keras_transformer.parsing.parser_transformer import ParserTransformer
from keras_transformer.training.optimizer import NoamSchedule
from tests.helpers import (
    assert_close,
    class_for,
    dtype_policy,
    logits_of,
    normal,
    numpy_logits,
    randomize,
    to_numpy,
)

SOURCE = np.array([[5, 3, 8, 2, 0, 0], [4, 9, 10, 7, 6, 2]], "int32")
TARGET = np.array([[1, 6, 6, 0, 0], [1, 3, 11, 4, 5]], "int32")
SOURCE_LENGTHS, TARGET_LENGTHS = (4, 6), (3, 5)
INPUTS = {"encoder_token_ids": SOURCE, "decoder_token_ids": TARGET}

BOTH_NORMS = pytest.mark.parametrize("normalize_first", [False, True])
OTHER_MATRICES = {
    "source_vocabulary_size": 11,
    "tie_weights": False,
    "scale_embeddings": False,
    "num_decoder_layers": 1,
}
# Of the words "4", "9 10 7" and "6", where 6 and 11 are leaves: see `Transformer`.
COUNTED = {"word_start_ids": (4, 5, 6, 9), "leaf_ids": (6, 11)}
# Every path through the model: both norms, both position encodings, d_k and d_v that differ.
KINDS = pytest.mark.parametrize(
    "options",
    [
        {},
        COUNTED,
        {"normalize_first": True, "key_dim": 3, "value_dim": 5, "use_bias": True},
        OTHER_MATRICES,
        {"normalize_first": True},
        {"attention_window": 3},
        {"key_dim": 3, "value_dim": 5},
        {"position_encoding": "learned", "max_length": 9},
        {"position_encoding": "learned", "max_length": 9, "normalize_first": True},
    ],
    ids=lambda options: (
        {id(OTHER_MATRICES): "other matrices", id(COUNTED): "counted"}.get(id(options))
        or "-".join(f"{name}={value}" for name, value in options.items())
        or "plain"
    ),
)


def new_model(**options):
    sizes = {"num_layers": 2, "hidden_dim": 8, "intermediate_dim": 16, "num_heads": 2}
    return randomize(class_for(options)(**{"vocabulary_size": 12, **sizes, **options}))


@functools.cache
def shared_model(items):
    return new_model(**dict(items))


def model_of(**options):
    """A model for tests that only run it; building one is most of what they cost."""
    return shared_model(tuple(sorted(options.items())))


def inputs(source, target):
    return {"encoder_token_ids": source, "decoder_token_ids": target}


# The forward pass


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, marks=pytest.mark.each_backend),
        {"normalize_first": True},
        {"key_dim": 3, "value_dim": 5, "use_bias": True},
        OTHER_MATRICES,
        pytest.param(COUNTED, marks=pytest.mark.each_backend),
        {**OTHER_MATRICES, "normalize_first": True},
        {**OTHER_MATRICES, "tie_weights": True},
    ],
)
def test_logits_follow_the_papers_formulas(options):
    model = model_of(**options)
    logits = logits_of(model, INPUTS)
    assert logits.shape == (2, 5, 12) and logits.dtype == "float32"
    for row, (source, target) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS)):
        expected = numpy_logits(model, SOURCE[row, :source], TARGET[row, :target])
        assert_close(logits[row, :target], expected)


@BOTH_NORMS
def test_stacks_of_pre_norm_layers_end_with_a_normalization(normalize_first):
    model = model_of(normalize_first=normalize_first)
    found = [x.layer_norm is not None for x in (model.encoder, model.decoder)]
    assert found == [normalize_first] * 2


@pytest.mark.each_backend
def test_logits_are_the_same_on_every_backend():
    # `randomize` gives the same weights everywhere; these are `numpy_logits` of them.
    expected = [
        *(-0.482987, -1.797806, 0.647919, -3.230118, -0.000204, -1.47965),
        *(1.142551, 1.639413, -1.920249, -0.602867, -0.723345, 0.026418),
    ]
    assert_close(logits_of(model_of(), INPUTS)[1, 4], expected)


@KINDS
def test_padding_changes_no_logit_of_a_real_position(options):
    model = model_of(**options)
    logits = to_numpy(model(INPUTS))
    padded = to_numpy(
        model(inputs(np.pad(SOURCE, [(0, 0), (0, 3)]), np.pad(TARGET, [(0, 0), (0, 2)])))
    )
    for row, (source, target) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS)):
        alone = model(
            inputs(SOURCE[row : row + 1, :source], TARGET[row : row + 1, :target]),
        )
        assert_close(logits[row, :target], alone[0])
        assert_close(padded[row, :target], alone[0])


@BOTH_NORMS
@pytest.mark.parametrize("position", [1, 4])
def test_later_target_tokens_change_no_earlier_logit(normalize_first, position):
    model, later = model_of(normalize_first=normalize_first), TARGET.copy()
    later[1, position:] = 8
    logits, changed = (to_numpy(model(inputs(SOURCE, target)))[1] for target in (TARGET, later))
    assert_close(changed[:position], logits[:position], atol=1e-6)
    assert (np.abs(changed[position:] - logits[position:]).max(-1) > 1e-3).all()


def test_every_source_token_counts():
    model = model_of()
    logits = to_numpy(model(INPUTS))[1]
    for position in range(6):
        source = SOURCE.copy()
        source[1, position] = 11
        changed = to_numpy(model(inputs(source, TARGET)))[1]
        assert (np.abs(changed - logits).max(-1) > 1e-4).all()


def test_source_of_padding_only_gives_finite_logits():
    # Rows that fill up a batch look like this.
    zeros = np.zeros_like(SOURCE)
    assert np.isfinite(to_numpy(model_of()(inputs(zeros, np.zeros_like(TARGET))))).all()


@KINDS
def test_negative_ids_are_padding(options):
    model = model_of(**options)
    negative = [np.where(ids, ids, -7) for ids in (SOURCE, TARGET)]
    assert_close(model(inputs(*negative)), model(INPUTS), atol=0)
    encoded = model.encode(negative[0])
    assert_close(encoded, model.encode(SOURCE), atol=0)
    assert_close(model.decode(negative[1], negative[0], encoded), model(INPUTS))


@pytest.mark.each_backend
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="XLA takes another row there")
def test_ids_outside_the_vocabulary_give_nan_in_a_compiled_model():
    model = new_model(num_layers=1, source_vocabulary_size=11)
    model.compile(jit_compile=True)
    source, target = SOURCE.copy(), TARGET.copy()
    source[0, 1], target[1, 2] = 11, 12
    for row, tokens in ((0, inputs(source, TARGET)), (1, inputs(SOURCE, target))):
        logits = model.predict_on_batch(tokens)
        assert np.isnan(logits[row, 2:]).all() and np.isfinite(logits[1 - row]).all()


def test_dropout_in_training_only():
    model = new_model(dropout=0.5)
    logits = to_numpy(model(INPUTS))
    assert_close(model(INPUTS, training=False), logits, atol=0)
    assert_close(logits, model_of()(INPUTS), atol=1e-6)
    assert np.abs(to_numpy(model(INPUTS, training=True)) - logits).max() > 0.1


def test_dropout_is_on_the_sums_of_embeddings_and_positions():
    # Section 5.4. With positions included, half of the sums are zeros.
    model = new_model(dropout=0.5)
    for stack, ids in ((model.encoder, SOURCE), (model.decoder, TARGET)):
        sums = to_numpy(stack.embed(ids, training=False))
        dropped = to_numpy(stack.embed(ids, training=True))
        kept = dropped != 0
        assert 0.2 < kept.mean() < 0.8
        assert_close(dropped[kept], 2 * sums[kept])


def test_an_attention_window_restricts_the_encoder():
    # Section 4: with r = 3 a position sees itself and one on either side.
    model, whole = model_of(attention_window=3), model_of()
    logits = to_numpy(model(INPUTS))
    for row, (source, target) in enumerate(zip(SOURCE_LENGTHS, TARGET_LENGTHS)):
        ids = SOURCE[row, :source], TARGET[row, :target]
        assert_close(logits[row, :target], numpy_logits(model, *ids, window=3))
    assert np.abs(logits - to_numpy(whole(INPUTS))).max() > 1e-2
    # As wide as the sentences, it is no restriction.
    assert_close(model_of(attention_window=11)(INPUTS), whole(INPUTS))


@pytest.mark.once
def test_tag_needs_a_model_with_a_tagger():
    with pytest.raises(ValueError, match="no tagger: it needs a `tag_loss_weight`"):
        model_of(**COUNTED).tag(SOURCE)


# encode() and decode()


@KINDS
def test_encode_and_decode_equal_the_whole_model(options):
    model = model_of(**options)
    encoder_sequence = model.encode(SOURCE)
    assert tuple(encoder_sequence.shape) == (2, 6, 8)
    logits = model.decode(TARGET, SOURCE, encoder_sequence)
    assert_close(logits, model(INPUTS), atol=1e-6)


def counts_of(model, encoded, next_words):
    """Return the further arguments of `decode` of a model that counts words."""
    if not isinstance(model, ParserTransformer):
        return {}
    return {"word_vectors": model.word_vectors(encoded, SOURCE), "next_words": next_words}


@KINDS
def test_decoding_step_by_step_equals_all_at_once(options):
    model = model_of(**options)
    expected = to_numpy(model(INPUTS))
    encoded = model.encode(SOURCE)
    cache = model.make_cache(encoded, 7)
    leaves = np.cumsum(np.isin(TARGET, options.get("leaf_ids", ())), axis=1)
    for start, stop in ((0, 2), (2, 3), (3, 4), (4, 5)):
        logits, cache = model.decode(
            TARGET[:, start:stop],
            SOURCE,
            cache=cache,
            cache_index=start,
            **counts_of(model, encoded, leaves[:, start:stop]),
        )
        assert_close(logits, expected[:, start:stop])


def test_cache_index_may_be_a_tensor():
    # A compiled search loop counts with a tensor.
    model = model_of(position_encoding="learned", max_length=9)
    cache = model.make_cache(model.encode(SOURCE), 5)
    for i in range(2):
        index = ops.convert_to_tensor(i, dtype="int32")
        logits, cache = model.decode(TARGET[:, i : i + 1], SOURCE, cache=cache, cache_index=index)
    assert_close(logits, model(INPUTS)[:, 1:2])


@pytest.mark.parametrize("given", [(), ("encoder_sequence", "cache", "cache_index"), ("cache",)])
def test_decode_needs_either_the_encoders_output_or_a_cache(given):
    model = model_of()
    encoder_sequence = model.encode(SOURCE)
    arguments = {
        "encoder_sequence": encoder_sequence,
        "cache": model.make_cache(encoder_sequence, 5),
        "cache_index": 0,
    }
    with pytest.raises(ValueError, match="and not both"):
        model.decode(TARGET[:, :1], SOURCE, **{name: arguments[name] for name in given})


def test_leaves_must_be_counted_step_by_step():
    model = model_of(**COUNTED)
    encoded = model.encode(SOURCE)
    cache = model.make_cache(encoded, 5)
    with pytest.raises(ValueError, match="needs `word_vectors` and `next_words`"):
        model.decode(TARGET[:, :1], SOURCE, cache=cache, cache_index=0)


# Saving


def assert_one_tied_matrix(model):
    """One (vocabulary, hidden) variable that embeds both languages and projects to logits."""
    matrices = [weight for weight in model.weights if 12 in weight.shape]
    assert [tuple(matrix.shape) for matrix in matrices] == [(12, 8)]
    x, embeddings = normal(2, 5, 8), to_numpy(matrices[0])

    def parts():
        return [
            *(to_numpy(stack.embed(SOURCE)) for stack in (model.encoder, model.decoder)),
            to_numpy(model.decoder.logits(x)),
            to_numpy(model(INPUTS)),
        ]

    before = parts()
    matrices[0].assign(2 * embeddings)
    after = parts()
    embedded = embeddings[SOURCE] * 8**0.5
    assert_close(after[0] - before[0], embedded)
    assert_close(after[1] - before[1], embedded)
    assert_close(after[2], 2 * before[2])
    assert np.abs(after[3] - before[3]).max() > 0.1
    matrices[0].assign(embeddings)


@pytest.mark.parametrize(
    "options",
    [
        {"key_dim": 3, "value_dim": 5, "use_bias": True},
        {"position_encoding": "learned", "max_length": 9, "normalize_first": True},
        COUNTED,
        OTHER_MATRICES,
        pytest.param({**OTHER_MATRICES, "dtype": "int8_from_float32"}, marks=pytest.mark.slow),
    ],
)
def test_a_saved_model_is_loaded_with_its_class_and_outputs(options, tmp_path):
    model = new_model(**options)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is type(model)
    assert loaded.get_config() == model.get_config()
    assert_close(loaded(INPUTS), model(INPUTS), atol=0)
    assert_close(loaded.encode(SOURCE), model.encode(SOURCE), atol=0)
    if model.config.tie_weights:
        assert_one_tied_matrix(loaded)


def test_parameters_are_one_matrix_and_the_layers():
    model = new_model()
    assert_one_tied_matrix(model)
    layers = 2 * (4 * 64 + 2 * 128 + 24 + 2 * 16) + 2 * (8 * 64 + 2 * 128 + 24 + 3 * 16)
    assert model.count_params() == 12 * 8 + layers


@pytest.mark.once
def test_the_signature_equals_the_config():
    parameters = inspect.signature(Transformer).parameters
    names = TransformerConfig.names()
    assert tuple(parameters) == (*names, "dtype", "name", "trainable")
    defaults = {name: parameters[name].default for name in names[1:]}
    assert defaults == TransformerConfig.defaults()
    assert parameters["vocabulary_size"].default is inspect.Parameter.empty


def test_a_config_makes_the_same_model():
    model = new_model(
        key_dim=3,
        value_dim=5,
        dropout=0.25,
        activation="gelu",
        position_encoding="learned",
        max_length=9,
        normalize_first=True,
        layer_norm_epsilon=1e-3,
        use_bias=True,
        attention_window=5,
        source_vocabulary_size=11,
        tie_weights=False,
        scale_embeddings=False,
        num_decoder_layers=3,
        word_start_ids=np.array([4, 5]),
        leaf_ids=[7, 9],
        tag_loss_weight=0.5,
        dtype="mixed_bfloat16",
        name="mine",
    )
    # The configuration holds hyperparameters only: a preset's config.json is read by people.
    assert "layers" not in model.get_config()
    copy = ParserTransformer.from_config(model.get_config())
    assert copy.get_config() == model.get_config()
    assert [w.shape for w in copy.weights] == [w.shape for w in model.weights]
    assert copy.name == "mine"
    assert copy.encoder.layers[1].get_config() == model.encoder.layers[1].get_config()
    assert copy.decoder.layers[1].feed_forward.activation is keras.activations.gelu


# Initial weights and precision


def test_initial_logits_have_variance_1():
    model = Transformer(500, num_layers=1, hidden_dim=64, intermediate_dim=64, num_heads=2)
    ids = np.arange(1, 401).reshape(20, 20)
    assert to_numpy(model(inputs(ids, ids))).std() == pytest.approx(1, abs=0.1)
    embedded = to_numpy(model.encoder.embed(ids)) - to_numpy(
        model.encoder.position_encoding(np.zeros((20, 20, 64)))
    )
    assert embedded.std() == pytest.approx(1, abs=0.1)


def embeddings():
    sizes = {"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 8, "num_heads": 2}
    model = Transformer(500, **sizes, source_vocabulary_size=400, tie_weights=False)
    target = model.decoder.token_embedding
    matrices = (target.embeddings, target.reverse_embeddings)
    return [to_numpy(x) for x in (*matrices, model.encoder.token_embedding.embeddings)]


def test_embeddings_are_zeros_only_where_they_are_told_to_be():
    with zero_embeddings():
        assert not any(np.any(matrix) for matrix in embeddings())
    with pytest.raises(KeyError), zero_embeddings():
        raise KeyError
    for matrix in embeddings():
        assert np.std(matrix) == pytest.approx(16**-0.5, rel=0.05)


@KINDS
def test_bfloat16_logits_are_close_to_float32_logits(options):
    model = new_model(dtype="mixed_bfloat16", **options)
    logits = model(INPUTS)
    assert keras.backend.standardize_dtype(logits.dtype) == "float32"
    assert {keras.backend.standardize_dtype(weight.dtype) for weight in model.weights} == {
        "float32"
    }
    sequence_dtype = keras.backend.standardize_dtype(model.encode(SOURCE).dtype)
    assert sequence_dtype == "bfloat16"
    expected = to_numpy(model_of(**options)(INPUTS))
    difference = to_numpy(logits) - expected
    assert np.abs(difference).max() > 0  # it is not float32 by mistake
    assert np.abs(difference).max() < 0.1 * expected.std()

    encoded = model.encode(SOURCE)
    cache = model.make_cache(encoded, 5)
    counts = counts_of(model, encoded, np.zeros((2, 1), "int32"))
    step, _ = model.decode(TARGET[:, :1], SOURCE, cache=cache, cache_index=0, **counts)
    assert keras.backend.standardize_dtype(step.dtype) == "float32"


def test_a_model_follows_the_global_dtype_policy():
    with dtype_policy("mixed_bfloat16"):
        model = new_model()
    assert keras.backend.standardize_dtype(model.encode(SOURCE).dtype) == "bfloat16"
    copy = Transformer.from_config(model.get_config())
    assert keras.backend.standardize_dtype(copy.encode(SOURCE).dtype) == "bfloat16"


def tiny_loss(y_true, logits):
    """So small that its gradients are zeros in float16, unless the loss is scaled."""
    losses = keras.losses.sparse_categorical_crossentropy(y_true, logits, from_logits=True)
    return 1e-8 * losses


def is_trained_by(model, loss):
    """Whether an epoch of plain `compile` and `fit` changes the weights that a loss is made of."""
    model.compile("adam", loss)
    x, y = copy_task(4)
    before = to_numpy(model.encoder.layers[0].self_attention.query_dense.kernel).copy()
    model.fit(x, y, verbose=0)
    after = to_numpy(model.encoder.layers[0].self_attention.query_dense.kernel)
    assert np.isfinite(after).all()
    return np.abs(after - before).max() > 0


@pytest.mark.each_backend_long
def test_float16_scales_the_loss(tmp_path):
    model = new_model(num_layers=1, dtype="mixed_float16")
    assert model.dtype_policy.name == "mixed_float16"
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.dtype_policy.name == "mixed_float16"
    assert is_trained_by(loaded, tiny_loss)


# Errors


@pytest.mark.once
@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(
            ({name: size}, f"`{name}` must be a positive integer. Received: {name}={size}")
            for name in (
                *("vocabulary_size", "num_layers", "hidden_dim", "intermediate_dim", "num_heads"),
                *("key_dim", "value_dim", "source_vocabulary_size", "num_decoder_layers"),
            )
            for size in (0, -1, 1.5)
        ),
        ({"num_heads": 3}, "`num_heads` must divide `hidden_dim`.*num_heads=3, hidden_dim=8"),
        ({"hidden_dim": 9, "num_heads": 3}, "must be even.*hidden_dim=9"),
        ({"position_encoding": "cosine"}, 'must be "sine" or "learned".*\'cosine\''),
        ({"position_encoding": "learned"}, "`max_length` is the number.*max_length=None"),
        ({"max_length": 9}, "`max_length` is the number.*max_length=9"),
        ({"position_encoding": "learned", "max_length": 0}, "max_length=0"),
        ({"layer_norm_epsilon": "x"}, "`layer_norm_epsilon` must be a number.*epsilon='x'"),
        ({"layer_norm_epsilon": -1}, "`layer_norm_epsilon` must be a number.*epsilon=-1"),
        ({"activation": "nope"}, "`activation` must be a function.*activation='nope'"),
        ({"attention_window": 4}, "positive odd integer.*attention_window=4"),
        ({"leaf_ids": [3]}, "must be given together.*word_start_ids=None"),
        ({"leaf_ids": [3], "word_start_ids": [12]}, "`word_start_ids` must be below 12.* 12"),
        ({"leaf_ids": [12], "word_start_ids": [3]}, "`leaf_ids` must be below 12.* 12"),
        ({"leaf_ids": [], "word_start_ids": [3]}, "`leaf_ids` must be one or more token ids"),
        ({"tag_loss_weight": 0.5}, "`tag_loss_weight` requires `leaf_ids`.*tag_loss_weight=0.5"),
        (
            {**COUNTED, "tag_loss_weight": -1},
            "`tag_loss_weight` must be a positive number.*tag_loss_weight=-1",
        ),
        ({"dropout": 1.5}, "1.5"),
        ({"activation": "rleu"}, "rleu"),
    ],
)
def test_wrong_arguments_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        new_model(**options)


def test_num_heads_need_not_divide_hidden_dim_with_key_dim():
    assert new_model(num_heads=3, key_dim=2)(INPUTS).shape == (2, 5, 12)


def test_learned_positions_cannot_be_exceeded():
    long = np.ones((1, 10), "int32")
    with pytest.raises(ValueError, match="max_length=9"):
        model_of(position_encoding="learned", max_length=9).encode(long)


# Training with Keras


def copy_task(rows=64, length=5):
    """The target is the source: inputs of the decoder begin with 1, targets end with 2."""
    generator = np.random.default_rng(0)
    source = generator.integers(3, 12, (rows, length)).astype("int32")
    # Sentences of different lengths, so that there is padding to leave out.
    lengths = generator.integers(2, length + 1, rows)
    source[np.arange(length) >= lengths[:, None]] = 0
    ones = np.ones((rows, 1), "int32")
    targets = np.concatenate([source, 0 * ones], axis=1)
    targets[np.arange(rows), lengths] = 2
    return inputs(source, np.concatenate([ones, source], axis=1)), targets


def compiled_model(**options):
    model = Transformer(12, num_layers=1, hidden_dim=16, intermediate_dim=32, **options)
    model.compile(
        keras.optimizers.Adam(
            NoamSchedule.from_peak(0.01, hidden_dim=16, warmup_steps=5),
            beta_2=0.98,
            epsilon=1e-9,
        ),
        LabelSmoothedCrossentropy(),
        metrics=[TokenAccuracy(), Perplexity()],
    )
    return model


@pytest.mark.each_backend
def test_fit_and_evaluate_on_arrays():
    model = compiled_model(num_heads=2)
    x, y = copy_task()
    history = model.fit(x, y, batch_size=32, epochs=8, verbose=0).history
    assert history["loss"][-1] < 0.9 * history["loss"][0]
    assert history["perplexity"][-1] < history["perplexity"][0]
    assert history["accuracy"][-1] > history["accuracy"][0]

    # What `evaluate` says is what the logits say.
    results = model.evaluate(x, y, batch_size=64, verbose=0, return_dict=True)
    logits = model.predict(x, batch_size=64, verbose=0)
    loss = float(to_numpy(LabelSmoothedCrossentropy()(y, logits)))
    unsmoothed = float(to_numpy(LabelSmoothedCrossentropy(0.0)(y, logits)))
    assert results["loss"] == pytest.approx(loss, rel=1e-4)
    assert results["perplexity"] == pytest.approx(np.exp(unsmoothed), rel=1e-4)
    real = y != 0
    assert results["accuracy"] == pytest.approx((logits.argmax(-1) == y)[real].mean(), rel=1e-4)


@pytest.mark.slow
def test_fit_on_tf_data():
    tf = pytest.importorskip("tensorflow")
    model = compiled_model(num_heads=2)
    dataset = tf.data.Dataset.from_tensor_slices(copy_task()).batch(32)
    losses = model.fit(dataset, epochs=8, verbose=0).history["loss"]
    assert losses[-1] < 0.9 * losses[0]


def test_trained_model_is_saved_with_its_optimizer(tmp_path):
    model = compiled_model(num_heads=2)
    x, y = copy_task(32)
    model.fit(x, y, batch_size=32, epochs=1, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.loss) is LabelSmoothedCrossentropy
    assert loaded.optimizer.get_config() == model.optimizer.get_config()
    assert int(to_numpy(loaded.optimizer.iterations)) == 1
    assert_close(loaded(x), model(x), atol=0)
    for mine, theirs in zip(loaded.optimizer.variables, model.optimizer.variables):
        assert_close(mine, theirs, atol=0)
