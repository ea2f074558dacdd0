"""The two stacks as plain Python: `Transformer` builds its graph with them, and its `encode` and
`decode` run them again one at a time."""

import keras
from keras import ops

from keras_transformer.layers import (
    Dropout,
    LearnedPositionEncoding,
    SinePositionEncoding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)

_LAYER_OPTIONS = (
    *("intermediate_dim", "num_heads", "key_dim", "value_dim", "dropout", "attention_dropout"),
    *("activation", "normalize_first", "layer_norm_epsilon", "use_bias"),
)


def padding_mask(token_ids):
    """True at tokens, false at padding: `(batch, length)`."""
    return ops.not_equal(token_ids, 0)


class _Stack:
    """What the encoder and the decoder share: embedding, and the layers of one kind."""

    name = None
    layer_class = None

    def __init__(self, config, token_embedding, dtype):
        self.token_embedding = token_embedding
        if config["position_encoding"] == "sine":
            self.position_encoding = SinePositionEncoding(
                dtype=dtype, name=f"{self.name}_position_encoding"
            )
        else:
            self.position_encoding = LearnedPositionEncoding(
                config["max_length"], dtype=dtype, name=f"{self.name}_position_encoding"
            )
        self.dropout = Dropout(config["dropout"], dtype=dtype, name=f"{self.name}_dropout")
        options = {name: config[name] for name in _LAYER_OPTIONS}
        self.layers = [
            self.layer_class(**options, dtype=dtype, name=f"{self.name}_layer_{i}")
            for i in range(config["num_layers"])
        ]
        # A post-norm layer ends with a normalisation of its own.
        self.layer_norm = None
        if config["normalize_first"]:
            self.layer_norm = keras.layers.LayerNormalization(
                epsilon=config["layer_norm_epsilon"], dtype=dtype, name=f"{self.name}_norm"
            )

    def embed(self, token_ids, start_index=0, training=None):
        """Sections 3.4 and 3.5: embeddings times sqrt(d_model), plus positions; 5.4: dropout."""
        scale = self.token_embedding.output_dim**0.5
        x = ops.multiply(self.token_embedding(token_ids), scale)
        x = self.position_encoding(x, start_index=start_index)
        return self.dropout(x, training=training)

    def normalize(self, x):
        return x if self.layer_norm is None else self.layer_norm(x)


class Encoder(_Stack):
    name = "encoder"
    layer_class = TransformerEncoderLayer

    def __call__(self, token_ids, training=None):
        mask = padding_mask(token_ids)
        x = self.embed(token_ids, training=training)
        for layer in self.layers:
            x = layer(x, padding_mask=mask, training=training)
        return self.normalize(x)


class Decoder(_Stack):
    name = "decoder"
    layer_class = TransformerDecoderLayer

    def __call__(self, token_ids, encoder_sequence, encoder_padding_mask, training=None):
        x = self.embed(token_ids, training=training)
        for layer in self.layers:
            x = layer(
                x, encoder_sequence, encoder_padding_mask=encoder_padding_mask, training=training
            )
        return self.logits(x)

    def step(self, token_ids, encoder_padding_mask, cache, cache_index):
        """Like a call, for the tokens from position `cache_index` on."""
        x = self.embed(token_ids, start_index=cache_index, training=False)
        new_cache = []
        for layer, layer_cache in zip(self.layers, cache):
            x, layer_cache = layer(
                x,
                encoder_padding_mask=encoder_padding_mask,
                cache=layer_cache,
                cache_index=cache_index,
                training=False,
            )
            new_cache.append(layer_cache)
        return self.logits(x), new_cache

    def logits(self, x):
        logits = self.token_embedding(self.normalize(x), reverse=True)
        return ops.cast(logits, "float32")
