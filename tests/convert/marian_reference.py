"""Marian's own models in NumPy: random models in its files, and their log-probabilities.

Written from the formulas of Marian's Transformer, with its names and its order of d_model.
"""

import numpy as np
import yaml

from keras_transformer.data.sentencepiece_model import CONTROL, NORMAL, UNKNOWN, model_proto_class

SIZE, HEADS, WIDTH = 8, 2, 12
TOKENS = ("</s>", "<unk>", *"▁abcdefgh")
OPTIONS = {
    "type": "transformer",
    "dim-emb": SIZE,
    "dim-vocabs": [len(TOKENS), len(TOKENS)],
    "enc-depth": 2,
    "dec-depth": 2,
    "dec-cell": "gru",
    "tied-embeddings-all": True,
    "transformer-heads": HEADS,
    "transformer-dim-ffn": WIDTH,
    "transformer-ffn-activation": "relu",
    "transformer-preprocess": "",
    "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d",
    "transformer-postprocess-top": "",
    "transformer-decoder-autoreg": "self-attention",
}
_ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "swish": lambda x: x / (1 + np.exp(-x))}


class Reference:
    """A model with random weights.

    Args:
        seed: integer.
        **options: options of Marian, with `_` for `-`.
    """

    def __init__(self, seed=0, learned=0, **options):
        self.options = {**OPTIONS, **{name.replace("_", "-"): x for name, x in options.items()}}
        self.learned = learned
        self._random = np.random.default_rng(seed)
        self.arrays = {}
        self.log_probs([2, 3, 0], [4, 0])  # draws the weights

    def option(self, name, default=None):
        return self.options.get(name, default)

    def array(self, name, *shape):
        if name not in self.arrays:
            values = self._random.normal(0, 0.4, shape) + name.endswith(("scale", "scale_pre"))
            self.arrays[name] = values.astype("float32")
        return self.arrays[name]

    def log_probs(self, source, target):
        """Return the log-probability of each token of the target."""
        tied = self.option("tied-embeddings-all")
        tables = ["Wemb" if tied else f"{side}_Wemb" for side in ("encoder", "decoder")]
        sizes = self.option("dim-vocabs")
        tables = [self.array(name, size, SIZE) for name, size in zip(tables, sizes)]
        x = bottom = self._embedded("encoder", tables[0][source])
        for i in range(self.option("enc-depth")):
            name = f"encoder_l{i + 1}"
            x = self._sublayer(
                f"{name}_self_Wo", x, lambda y, _, name=name: self._attention(name, "self", y, y)
            )
            x = self._feed_forward(name, x)
        encoded = self._steps("encoder_top", self.option("transformer-postprocess-top"), x, bottom)
        before = np.concatenate([np.zeros((1, SIZE)), tables[1][target[:-1]]])
        x = bottom = self._embedded("decoder", before)
        for number in self.option("transformer-tied-layers") or range(
            1, self.option("dec-depth") + 1
        ):
            x = self._decoder_layer(f"decoder_l{number}", x, encoded)
        x = self._steps("decoder_top", self.option("transformer-postprocess-top"), x, bottom)
        if tied or self.option("tied-embeddings"):
            output = tables[1].T
        else:
            output = self.array("decoder_ff_logit_out_Wt", sizes[1], SIZE).T
        logits = x @ output
        if not self.option("output-omit-bias"):
            logits = logits + self.array("decoder_ff_logit_out_b", 1, sizes[1])
        logits -= np.log(np.exp(logits).sum(-1, keepdims=True))
        return logits[np.arange(len(target)), target]

    def _embedded(self, stack, x):
        if self.learned:
            x = x + self.array("Wpos", self.learned, SIZE)[: len(x)]
        else:
            half = SIZE // 2
            angles = np.arange(len(x))[:, None] / 10000 ** (np.arange(half) / (half - 1))
            x = x * SIZE**0.5 + np.concatenate([np.sin(angles), np.cos(angles)], -1)
        return self._steps(f"{stack}_emb", self.option("transformer-postprocess-emb"), x, x, "_pre")

    def _decoder_layer(self, name, x, encoded):
        if self.option("transformer-decoder-autoreg") == "rnn":
            x = self._sublayer(f"{name}_rnn", x, lambda y, _: self._ssru(name, y), "_ffn")
        else:
            x = self._sublayer(f"{name}_self_Wo", x, lambda y, x: self._causal(name, y, x))
        x = self._sublayer(
            f"{name}_context_Wo", x, lambda y, _: self._attention(name, "context", y, encoded)
        )
        return self._feed_forward(name, x, "decoder-")

    def _ssru(self, name, y):
        gate = y @ self.array(f"{name}_rnn_Wf", SIZE, SIZE) + self.array(f"{name}_rnn_bf", 1, SIZE)
        gate, new = 1 / (1 + np.exp(-gate)), y @ self.array(f"{name}_rnn_W", SIZE, SIZE)
        state, states = np.zeros(SIZE), []
        for f, x in zip(gate, new):
            state = f * state + (1 - f) * x
            states.append(np.maximum(state, 0))
        return np.stack(states)

    def _causal(self, name, y, x):
        """Its decoder normalizes the first keys and values only."""
        rows = [self._attention(name, "self", y[:1], y[:1])]
        for i in range(1, len(y)):
            rows.append(self._attention(name, "self", y[i : i + 1], x[: i + 1]))
        return np.concatenate(rows)

    def _attention(self, layer, kind, x, keys):
        query, key, value = (
            self._affine(f"{layer}_{kind}", part, y).reshape(len(y), HEADS, -1).transpose(1, 0, 2)
            for part, y in (("q", x), ("k", keys), ("v", keys))
        )
        scores = np.exp(query @ key.transpose(0, 2, 1) / (SIZE // HEADS) ** 0.5)
        heads = scores / scores.sum(-1, keepdims=True) @ value
        joined = heads.transpose(1, 0, 2).reshape(len(x), SIZE)
        if self.option("transformer-no-projection"):
            return joined
        return self._affine(f"{layer}_{kind}", "o", joined)

    def _affine(self, name, part, x, size=SIZE):
        weight = self.array(f"{name}_W{part}", x.shape[-1], size)
        return x @ weight + self.array(f"{name}_b{part}", 1, size)

    def _feed_forward(self, layer, x, stack=""):
        width, depth = WIDTH, self.option("transformer-ffn-depth", 2)
        if stack:
            width = self.option("transformer-decoder-dim-ffn") or width
            depth = self.option("transformer-decoder-ffn-depth") or depth
        activation = _ACTIVATIONS[self.option("transformer-ffn-activation")]

        def inner(y, _):
            for i in range(1, depth):
                y = activation(self._affine(f"{layer}_ffn", i, y, width))
            return self._affine(f"{layer}_ffn", depth, y)

        return self._sublayer(f"{layer}_ffn", x, inner, "_ffn")

    def _sublayer(self, name, x, function, after=""):
        # The norms of feed-forward networks are `_ffn_ffn`, before them too.
        first = name if name.endswith(("_Wo", "_rnn")) else name + after
        y = self._steps(first, self.option("transformer-preprocess"), x, x, "_pre")
        y = function(y, x)
        return self._steps(name + after, self.option("transformer-postprocess"), y, x)

    def _steps(self, name, steps, y, x, suffix=""):
        for step in steps:
            if step == "a":
                y = y + x
            if step == "n":
                y = (y - y.mean(-1, keepdims=True)) / (y.var(-1, keepdims=True) + 1e-6) ** 0.5
                y = y * self.array(f"{name}_ln_scale{suffix}", 1, SIZE)
                y = y + self.array(f"{name}_ln_bias{suffix}", 1, SIZE)
        return y

    def write(self, folder, name="model.npz", **search):
        """Write the files of a folder as Marian does, with one vocabulary."""
        folder.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump(self.options).encode() + b"\0"
        np.savez(folder / name, **{**self.arrays, "special:model.yml": np.frombuffer(text, "int8")})
        search = {"models": [name], "vocabs": ["vocab.spm", "vocab.spm"], "beam-size": 2, **search}
        (folder / "decoder.yml").write_text(yaml.safe_dump(search))
        (folder / "vocab.spm").write_bytes(sentencepiece_model())
        return folder


def sentencepiece_model():
    """Return a SentencePiece model as Marian trains them: </s> is 0, <unk> is 1."""
    model = model_proto_class()()
    kinds = (CONTROL, UNKNOWN, *[NORMAL] * (len(TOKENS) - 2))
    for i, (piece, kind) in enumerate(zip(TOKENS, kinds)):
        model.pieces.add(piece=piece, score=-float(i), type=kind)
    spec = model.trainer_spec
    spec.eos_id, spec.unk_id, spec.bos_id, spec.pad_id = 0, 1, -1, -1
    spec.vocab_size = len(TOKENS)
    model.normalizer_spec.name = "identity"
    return model.SerializeToString()
