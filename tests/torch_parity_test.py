"""Another library's answer: PyTorch's attention, layers and whole Transformer on copied weights."""

import keras
import numpy as np
import pytest

from keras_transformer.layers import (
    MultiHeadAttention,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.models.transformer import Transformer
from tests.helpers import assert_close, normal, randomize, to_numpy

torch = pytest.importorskip("torch")

from benchmarks.nn_transformer import TorchTransformer, copy_attention, copy_layer  # noqa: E402

HIDDEN_DIM, HEADS = 16, 4
TARGET, SOURCE = normal(3, 5, HIDDEN_DIM), normal(3, 7, HIDDEN_DIM, seed=1)
# True at tokens; PyTorch's masks are the other way round.
SOURCE_MASK = np.arange(7) < np.array([[7], [4], [1]])

USE_BIAS = pytest.mark.parametrize("use_bias", [False, True])
BOTH_NORMS = pytest.mark.parametrize("normalize_first", [False, True])


def causal(length):
    """PyTorch's mask: true where a query must not look."""
    return torch.triu(torch.ones(length, length, dtype=torch.bool), diagonal=1)


def attention_pair(use_bias):
    ours = MultiHeadAttention(HEADS, HIDDEN_DIM // HEADS, use_bias=use_bias)
    ours.build((None, None, HIDDEN_DIM))
    theirs = torch.nn.MultiheadAttention(HIDDEN_DIM, HEADS, bias=use_bias, batch_first=True)
    copy_attention(randomize(ours), theirs)
    return ours, theirs


@USE_BIAS
def test_self_attention_equals_pytorchs(use_bias):
    ours, theirs = attention_pair(use_bias)
    expected, _ = theirs(*3 * [torch.tensor(TARGET)])
    assert_close(ours(TARGET), expected)


@USE_BIAS
def test_causal_self_attention_equals_pytorchs(use_bias):
    ours, theirs = attention_pair(use_bias)
    expected, _ = theirs(*3 * [torch.tensor(TARGET)], attn_mask=causal(5))
    assert_close(ours(TARGET, attention_mask=~causal(5).numpy()[None]), expected)


@USE_BIAS
def test_cross_attention_with_padding_equals_pytorchs(use_bias):
    ours, theirs = attention_pair(use_bias)
    source = torch.tensor(SOURCE)
    expected, _ = theirs(
        torch.tensor(TARGET), source, source, key_padding_mask=torch.tensor(~SOURCE_MASK)
    )
    assert_close(ours(TARGET, SOURCE, attention_mask=SOURCE_MASK[:, None]), expected)


def layer_pair(kind, normalize_first, use_bias, activation):
    ours = {"encoder": TransformerEncoderLayer, "decoder": TransformerDecoderLayer}[kind](
        32, HEADS, activation=activation, normalize_first=normalize_first, use_bias=use_bias
    )
    ours.build(*[(None, None, HIDDEN_DIM)] * (1 + (kind == "decoder")))
    theirs = {
        "encoder": torch.nn.TransformerEncoderLayer,
        "decoder": torch.nn.TransformerDecoderLayer,
    }[kind](
        *(HIDDEN_DIM, HEADS, 32),
        dropout=0.0,
        activation=activation,
        layer_norm_eps=1e-6,
        batch_first=True,
        norm_first=normalize_first,
    )
    copy_layer(randomize(ours), theirs)
    return ours, theirs


@BOTH_NORMS
@USE_BIAS
def test_an_encoder_layer_equals_pytorchs(normalize_first, use_bias):
    ours, theirs = layer_pair("encoder", normalize_first, use_bias, "relu")
    expected = theirs(torch.tensor(SOURCE), src_key_padding_mask=torch.tensor(~SOURCE_MASK))
    # PyTorch's outputs at padding are as good as ours; nobody reads them.
    actual = to_numpy(ours(SOURCE, padding_mask=SOURCE_MASK))
    assert_close(actual[SOURCE_MASK], to_numpy(expected)[SOURCE_MASK])


@BOTH_NORMS
@USE_BIAS
def test_a_decoder_layer_equals_pytorchs(normalize_first, use_bias):
    ours, theirs = layer_pair("decoder", normalize_first, use_bias, "gelu")
    expected = theirs(
        torch.tensor(TARGET),
        torch.tensor(SOURCE),
        tgt_mask=causal(5),
        memory_key_padding_mask=torch.tensor(~SOURCE_MASK),
    )
    assert_close(ours(TARGET, SOURCE, encoder_padding_mask=SOURCE_MASK), expected)


def model_pair(normalize_first, use_bias=False, num_layers=2):
    ours = Transformer(
        *(30, num_layers, HIDDEN_DIM, 32, HEADS),
        dropout=0.0,
        normalize_first=normalize_first,
        use_bias=use_bias,
    )
    return ours, TorchTransformer(randomize(ours))


def random_ids(lengths, seed):
    generator = np.random.default_rng(seed)
    ids = generator.integers(1, 30, (len(lengths), max(lengths))).astype("int32")
    ids[np.arange(max(lengths)) >= np.array(lengths)[:, None]] = 0
    return ids


SOURCE_IDS, TARGET_IDS = random_ids([7, 4, 2], seed=0), random_ids([3, 6, 5], seed=1)
NEXT_IDS = random_ids([3, 6, 5], seed=2)
INPUTS = {"encoder_token_ids": SOURCE_IDS, "decoder_token_ids": TARGET_IDS}


def long(ids):
    return torch.tensor(ids, dtype=torch.int64)


@BOTH_NORMS
@USE_BIAS
def test_the_whole_model_equals_pytorchs(normalize_first, use_bias):
    ours, theirs = model_pair(normalize_first, use_bias)
    expected = to_numpy(theirs(long(SOURCE_IDS), long(TARGET_IDS)))
    real = TARGET_IDS != 0
    assert_close(to_numpy(ours(INPUTS))[real], expected[real])


@pytest.mark.parametrize(
    ("normalize_first", "num_layers"),
    [pytest.param(False, 1, marks=pytest.mark.each_backend), (False, 2), (True, 2)],
)
def test_two_training_steps_equal_pytorchs(normalize_first, num_layers):
    """Gradients reach every weight as PyTorch's do. (SGD: Adam would hide a wrong scale.)"""
    ours, theirs = model_pair(normalize_first, num_layers=num_layers)
    ours.compile(keras.optimizers.SGD(0.5), LabelSmoothedCrossentropy(0.1))
    optimizer = torch.optim.SGD(
        # Our projections have no biases; those of the copy must stay 0.
        [
            p
            for name, p in theirs.named_parameters()
            if "proj_bias" not in name and "proj.bias" not in name
        ],
        lr=0.5,
    )
    for _ in range(2):
        loss = ours.train_on_batch(INPUTS, NEXT_IDS)
        optimizer.zero_grad()
        expected = torch.nn.functional.cross_entropy(
            theirs(long(SOURCE_IDS), long(TARGET_IDS)).flatten(0, 1),
            long(NEXT_IDS).flatten(),
            label_smoothing=0.1,
            ignore_index=0,
        )
        expected.backward()
        optimizer.step()
        assert float(to_numpy(loss)) == pytest.approx(float(expected.detach()), rel=1e-5)
    for variable, parameter in (
        (ours.encoder.token_embedding.embeddings, theirs.embeddings),
        (
            ours.decoder.layers[0].cross_attention.output_dense.kernel,
            theirs.transformer.decoder.layers[0].multihead_attn.out_proj.weight.T,
        ),
        (
            ours.encoder.layers[0].feed_forward.intermediate_dense.bias,
            theirs.transformer.encoder.layers[0].linear1.bias,
        ),
        (
            ours.encoder.layers[-1].self_attention_norm.gamma,
            theirs.transformer.encoder.layers[-1].norm1.weight,
        ),
    ):
        assert_close(variable, parameter)
