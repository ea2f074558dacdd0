"""CTranslate2 models with random weights, written by CTranslate2's own package."""

import struct

import numpy as np

HIDDEN_DIM, NUM_HEADS = 16, 2
WORDS = [f"w{i}" for i in range(30)]
TARGET_WORDS = [f"t{i}" for i in range(25)]
SPECIAL = ["<blank>", "<s>", "</s>"]


def new_spec(
    num_layers=(2, 2),
    inner=(32, 32),
    head_dim=None,
    biases=True,
    output_bias=True,
    source=(*SPECIAL, *WORDS),
    target=(*SPECIAL, *TARGET_WORDS),
    tied=False,
    **options,
):
    """A `TransformerSpec`, not validated yet.

    Args:
        num_layers: those of encoder and decoder.
        inner: d_ff of encoder and decoder.
        head_dim: size of a head.
        biases: whether the linear layers have biases.
        output_bias: whether the projection has.
        source: the source's tokens; with `target` the same, one matrix embeds both.
        target: the target's tokens. The unknown token is added at the end of both.
        tied: whether the target's embeddings also project.
        **options: further ones of both stacks' specifications.
    """
    from ctranslate2.specs import transformer_spec

    generator = np.random.default_rng(0)
    stacks = [
        getattr(transformer_spec, f"Transformer{name}Spec")(
            n, NUM_HEADS, head_dim=head_dim, **options
        )
        for name, n in zip(("Encoder", "Decoder"), num_layers)
    ]
    spec = transformer_spec.TransformerSpec(*stacks)
    fill = _Filler(generator, head_dim or HIDDEN_DIM // NUM_HEADS, biases)
    for stack, size in zip(stacks, inner):
        fill.stack(stack, size)
    source, target = ([*tokens, "<unk>"] for tokens in (source, target))
    spec.encoder.embeddings[0].weight = fill.array(len(source), HIDDEN_DIM)
    spec.decoder.embeddings.weight = (
        spec.encoder.embeddings[0].weight
        if source == target
        else fill.array(len(target), HIDDEN_DIM)
    )
    fill.linear(spec.decoder.projection, len(target), HIDDEN_DIM, output_bias)
    if tied:
        spec.decoder.projection.weight = spec.decoder.embeddings.weight
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.add_source_eos = True
    return spec


def save(spec, folder, quantization=None):
    folder.mkdir()
    spec.validate()
    spec.optimize(quantization)
    spec.save(str(folder))


def save_second_version(spec, folder):
    """Write the second version of the binary format, of 2019."""
    folder.mkdir()
    spec.validate()
    arrays = {
        name.replace("embeddings_0", "embeddings"): x.numpy()
        for name, x in spec.variables().items()
        if x.shape
    }
    parts = [struct.pack("<I", 2), _string("TransformerBase"), struct.pack("<II", 2, len(arrays))]
    for name, array in arrays.items():
        parts += [_string(name), struct.pack("<B", array.ndim)]
        parts.append(struct.pack(f"<{array.ndim}I", *array.shape))
        parts.append(struct.pack("<BI", array.itemsize, array.size) + array.tobytes())
    (folder / "model.bin").write_bytes(b"".join(parts))
    for side, words in (("source", WORDS), ("target", TARGET_WORDS)):
        (folder / f"{side}_vocabulary.txt").write_text("\n".join([*SPECIAL, *words]) + "\n")


def _string(text):
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


class _Filler:
    def __init__(self, generator, head_dim, biases):
        self.generator = generator
        self.heads = NUM_HEADS * head_dim
        self.biases = biases

    def array(self, *shape):
        return self.generator.normal(0, shape[-1] ** -0.5, shape).astype("float32")

    def linear(self, spec, outputs, inputs, bias):
        spec.weight = self.array(outputs, inputs)
        if bias:
            spec.bias = self.array(outputs)

    def norm(self, spec):
        spec.gamma, spec.beta = 1 + 0.1 * self.array(HIDDEN_DIM), self.array(HIDDEN_DIM)

    def attention(self, spec, is_self):
        self.norm(spec.layer_norm)
        for linear, parts in zip(spec.linear, (3,) if is_self else (1, 2)):
            self.linear(linear, parts * self.heads, HIDDEN_DIM, self.biases)
        self.linear(spec.linear[-1], HIDDEN_DIM, self.heads, self.biases)

    def stack(self, spec, inner):
        if hasattr(spec, "layer_norm"):
            self.norm(spec.layer_norm)
        for layer in spec.layer:
            self.attention(layer.self_attention, True)
            if hasattr(layer, "attention"):
                self.attention(layer.attention, False)
            self.norm(layer.ffn.layer_norm)
            self.linear(layer.ffn.linear_0, inner, HIDDEN_DIM, self.biases)
            self.linear(layer.ffn.linear_1, HIDDEN_DIM, inner, self.biases)
