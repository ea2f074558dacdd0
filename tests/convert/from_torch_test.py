"""Another library's answer: models around `torch.nn.Transformer`, as people write them."""

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.convert.from_torch import torch as convert_torch
from tests.decoding.search_functions import greedy_search
from tests.helpers import assert_close, to_numpy

torch = pytest.importorskip("torch")

SOURCE_SIZE, TARGET_SIZE = 23, 19
# As tutorials have them: unknown 0, padding 1, start 2, end 3; and ours.
THEIRS, OURS = (1, 2, 3, 0), (0, 1, 2, 3)
ONCE = pytest.mark.once


class Model(torch.nn.Module):
    """What people write around `torch.nn.Transformer`."""

    def __init__(
        self,
        sizes=(16, 4, 2, 2, 24),
        shared=False,
        output=True,
        positions="sine buffer",
        scaled=True,
        final_norm=True,
        **options,
    ):
        super().__init__()
        torch.manual_seed(1)
        d_model = sizes[0]
        self.transformer = torch.nn.Transformer(*sizes, dropout=0.0, batch_first=True, **options)
        if not final_norm:
            self.transformer.encoder.norm = self.transformer.decoder.norm = None
        self.tgt_tok_emb = torch.nn.Embedding(TARGET_SIZE, d_model)
        if not shared:
            self.src_tok_emb = torch.nn.Embedding(SOURCE_SIZE, d_model)
        self.generator = None
        if output:
            self.generator = torch.nn.Linear(d_model, TARGET_SIZE, bias=output == "with a bias")
        self.scale = d_model**0.5 if scaled else 1.0
        self._make_positions(positions, d_model)
        for parameter in self.parameters():  # biases begin at 0, norms at 1
            torch.nn.init.normal_(parameter, 0.02, 0.2)

    def _make_positions(self, kind, d_model):
        angles = torch.arange(30.0)[:, None] * torch.exp(
            -torch.arange(0, d_model, 2) * (np.log(10000.0) / d_model)
        )
        table = torch.stack([angles.sin(), angles.cos()], -1).reshape(30, 1, d_model)
        if kind == "sine buffer":
            self.positional_encoding = torch.nn.Module()
            self.positional_encoding.register_buffer("pos_embedding", table)
            self.tables = 2 * [self.positional_encoding.pos_embedding[:, 0]]
        elif kind == "one table":
            self.pe = torch.nn.Parameter(torch.zeros(1, 30, d_model))
            self.tables = 2 * [self.pe[0]]
        elif kind == "two tables":
            self.src_pos_emb = torch.nn.Embedding(30, d_model)
            self.tgt_pos_emb = torch.nn.Embedding(30, d_model)
            self.tables = [self.src_pos_emb.weight, self.tgt_pos_emb.weight]
        else:
            self.tables = 2 * [table[:, 0]]

    def forward(self, source, target, pad):
        source_embedding = getattr(self, "src_tok_emb", self.tgt_tok_emb)
        x = self.transformer(
            source_embedding(source) * self.scale + self.tables[0][: source.shape[1]],
            self.tgt_tok_emb(target) * self.scale + self.tables[1][: target.shape[1]],
            tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(target.shape[1]),
            src_key_padding_mask=source == pad,
            memory_key_padding_mask=source == pad,
        )
        return x @ self.tgt_tok_emb.weight.T if self.generator is None else self.generator(x)


def ids(size, lengths, seed, pad):
    generator = np.random.default_rng(seed)
    values = generator.integers(4, size, (len(lengths), max(lengths)))
    return np.where(np.arange(max(lengths)) < np.array(lengths)[:, None], values, pad)


def in_our_order(values, reserved, size):
    order = [*reserved, *(i for i in range(size) if i not in reserved)]
    return np.argsort(order)[values]


def check_logits(theirs, reserved, atol=1e-5, **options):
    """The logits of the module, and those of what is made of its state dict."""
    ours = convert_torch(theirs.state_dict(), 4, reserved_ids=reserved, **options)
    source_size = SOURCE_SIZE if hasattr(theirs, "src_tok_emb") else TARGET_SIZE
    source = ids(source_size, [7, 3, 5], 0, reserved[0])
    target = ids(TARGET_SIZE, [4, 6, 1], 1, reserved[0])
    with torch.no_grad():
        expected = theirs(torch.tensor(source), torch.tensor(target), reserved[0]).numpy()
    order = [*reserved, *(i for i in range(TARGET_SIZE) if i not in reserved)]
    actual = ours(
        {
            "encoder_token_ids": in_our_order(source, reserved, source_size).astype("int32"),
            "decoder_token_ids": in_our_order(target, reserved, TARGET_SIZE).astype("int32"),
        }
    )
    real = target != reserved[0]
    assert_close(to_numpy(actual)[real], expected[..., order][real], atol)
    return ours


MODELS = {
    "tutorial": ({"output": "with a bias"}, {}),
    "tied": ({"shared": True, "output": False, "positions": "none"}, {}),
    "shared, but not tied": ({"shared": True, "positions": "one table"}, {}),
    "pre-norm": (
        {"norm_first": True, "activation": "gelu"},
        {"normalize_first": True, "activation": "gelu"},
    ),
    "without biases": ({"bias": False, "positions": "two tables"}, {}),
    "without final norms": ({"final_norm": False}, {}),
    "pre-norm without final norms": (
        {"final_norm": False, "norm_first": True},
        {"normalize_first": True},
    ),
    "unscaled": ({"scaled": False, "layer_norm_eps": 1e-3}, {"scale_embeddings": False}),
    "other depths": ({"sizes": (8, 4, 1, 3, 12)}, {}),
}


@pytest.mark.parametrize(
    ("name", "reserved"),
    [*((name, THEIRS) for name in MODELS), ("tutorial", OURS), ("shared, but not tied", OURS)],
)
def test_logits_equal_those_of_pytorchs_model(name, reserved):
    theirs, options = MODELS[name]
    if "layer_norm_eps" in theirs:
        options = {**options, "layer_norm_epsilon": theirs["layer_norm_eps"]}
    check_logits(Model(**theirs).eval(), reserved, **options)


def test_logits_of_a_module_as_in_tutorials():
    ours = check_logits(Model(output="with a bias").eval(), THEIRS)
    assert ours.config.position_encoding == "sine"  # the table held sinusoids
    assert ours.config.final_norm
    assert ours.config.source_vocabulary_size == SOURCE_SIZE


@ONCE
def test_search_of_a_converted_model_is_that_of_the_module():
    """Greedy, step by step, with the module's own forward."""
    theirs = Model(output="with a bias").eval()
    ours = convert_torch(theirs.state_dict(), 4, reserved_ids=THEIRS)
    source = ids(SOURCE_SIZE, [6, 6, 6], 2, 1)
    source[:, -1] = 3
    token_ids, _ = greedy_search(
        ours, in_our_order(source, THEIRS, SOURCE_SIZE).astype("int32"), extra_length=6
    )
    for row, actual in zip(source, to_numpy(token_ids)):
        target = [2]
        while len(target) <= 11 and target[-1] != 3:
            with torch.no_grad():
                logits = theirs(torch.tensor(row[None]), torch.tensor([target]), 1)[0, -1]
            logits[[1, 2]] = -torch.inf  # padding and start
            target.append(int(logits.argmax()))
        expected = in_our_order(np.array(target[1:]), THEIRS, TARGET_SIZE)
        assert [i for i in actual.tolist() if i] == expected.tolist()


@ONCE
@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_a_file_and_a_dict_give_the_same_model(tmp_path, suffix):
    state = Model().state_dict()
    path = tmp_path / f"model{suffix}"
    if suffix == ".pt":
        torch.save(state, path)
    else:
        pytest.importorskip("safetensors.torch").save_file(state, path)
    models = [convert_torch(source, 4) for source in (path, str(path), state)]
    assert models[0].hyperparameters == models[2].hyperparameters
    for weights in zip(*(model.weights for model in models)):
        for other in weights[:-1]:
            np.testing.assert_array_equal(to_numpy(other), to_numpy(weights[-1]))


@ONCE
def test_names_may_be_anything_if_they_are_given():
    theirs = Model(positions="one table")
    expected = convert_torch(theirs.state_dict(), 4)
    new = {"src_tok_emb.weight": "a", "tgt_tok_emb.weight": "b", "generator.weight": "c", "pe": "d"}
    state = {new.get(name, f"module.{name}"): x for name, x in theirs.state_dict().items()}
    actual = convert_torch(
        {name: x.numpy() for name, x in state.items()},
        4,
        source_embedding="a",
        target_embedding="b",
        output="c",
        positions="d",
    )
    assert actual.hyperparameters == expected.hyperparameters
    for weight, other in zip(actual.weights, expected.weights):
        np.testing.assert_array_equal(to_numpy(weight), to_numpy(other))


@ONCE
def test_half_precision_is_read():
    theirs = Model()
    expected = convert_torch(theirs.bfloat16().float().state_dict(), 4)
    actual = convert_torch(theirs.bfloat16().state_dict(), 4)
    for weight, other in zip(actual.weights, expected.weights):
        np.testing.assert_array_equal(to_numpy(weight), to_numpy(other))


def refused(change, *words, **options):
    state = dict(Model(output="with a bias").state_dict())
    change(state)
    with pytest.raises(kt.UserError) as error:
        convert_torch(state, **{"num_heads": 4, **options})
    message = str(error.value)
    assert "\n" not in message
    for word in words:
        assert word in message


@ONCE
def test_what_has_no_place_is_named():
    ones = torch.ones(3)
    refused(lambda state: state.update(adapter=ones), "adapter", "`ignore`")
    refused(
        lambda state: state.update({"transformer.encoder.layers.0.gate": ones}), "layers.0.gate"
    )
    state = {**Model().state_dict(), "adapter": ones}
    convert_torch(state, 4, ignore=["adapter"])


def rename_embeddings(state):
    for number, side in ((1, "src"), (2, "tgt")):
        state[f"emb{number}.weight"] = state.pop(f"{side}_tok_emb.weight")


@ONCE
def test_what_is_missing_or_unclear_is_named():
    name = "transformer.encoder.layers.1.linear2.weight"
    refused(lambda state: state.pop(name), name)
    refused(lambda state: None, "nowhere.weight", "src_tok_emb.weight", output="nowhere.weight")
    refused(lambda state: state.clear(), "torch.nn.Transformer")
    refused(rename_embeddings, "`source_embedding`", "emb1.weight, emb2.weight")
    refused(lambda state: state.pop("transformer.decoder.norm.weight"), "after the encoder only")
    refused(lambda state: None, "`num_heads`", num_heads=3)
    refused(lambda state: None, "99", reserved_ids=(0, 1, 2, 99))
    refused(lambda state: None, "`reserved_ids`", reserved_ids=(0, 1))


@ONCE
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (0, 5)])
def test_tensors_of_other_shapes_are_refused(shape):
    names = ("in_proj_weight", "in_proj_bias", "out_proj.weight")
    names = [f"transformer.encoder.layers.0.self_attn.{name}" for name in names]
    names += ["transformer.encoder.layers.0.linear1.weight", "generator.bias"]
    for name in names:
        refused(lambda state, name=name: state.update({name: torch.ones(shape)}))


@ONCE
def test_a_name_with_a_large_number_does_not_fill_the_memory():
    name = "transformer.encoder.layers.999999999.linear1.weight"
    refused(lambda state: state.update({name: torch.ones(1)}), "do not match")


@ONCE
def test_a_file_that_is_none(tmp_path):
    with pytest.raises(kt.UserError, match="Cannot read the file .*: it does not exist"):
        convert_torch(tmp_path / "none.pt", 4)
    damaged = tmp_path / "damaged.pt"
    torch.save(Model().state_dict(), damaged)
    damaged.write_bytes(damaged.read_bytes()[:5000])
    with pytest.raises(kt.UserError, match="damaged"):
        convert_torch(damaged, 4)
    torch.save(Model(), tmp_path / "module.pt")
    with pytest.raises(kt.UserError, match="damaged, or holds more than tensors"):
        convert_torch(tmp_path / "module.pt", 4)


@ONCE
def test_the_library_is_still_found_from_within_the_package():
    import keras_transformer.convert.from_torch as module

    assert module.torch is convert_torch
    assert torch.__name__ == "torch"
