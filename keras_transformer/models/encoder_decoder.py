"""The two stacks as plain Python: `Transformer` builds its graph with them, and its `encode` and
`decode` run them again one at a time."""

import math

import keras
from keras import ops

from keras_transformer.layers import (
    Dropout,
    LearnedPositionEncoding,
    SinePositionEncoding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.layers.output_bias import OutputBias
from keras_transformer.layers.padding_mask import padding_mask
from keras_transformer.parsing.word_tagger import WordTagger

_LAYER_OPTIONS = (
    *("intermediate_dim", "num_heads", "key_dim", "value_dim", "dropout", "attention_dropout"),
    *("activation", "normalize_first", "layer_norm_epsilon", "use_bias"),
)


class _Stack:
    """What the encoder and the decoder share: embedding, and the layers of one kind."""

    name = None
    layer_class = None
    layer_options = _LAYER_OPTIONS

    def __init__(self, config, token_embedding, dtype):
        self.token_embedding = token_embedding
        self.embedding_scale = config["hidden_dim"] ** 0.5 if config["scale_embeddings"] else 1.0
        if config["position_encoding"] == "sine":
            self.position_encoding = SinePositionEncoding(
                config["max_wavelength"],
                config["first_position"],
                dtype=dtype,
                name=f"{self.name}_position_encoding",
            )
        else:
            self.position_encoding = LearnedPositionEncoding(
                config["max_length"], dtype=dtype, name=f"{self.name}_position_encoding"
            )
        self.dropout = Dropout(config["dropout"], dtype=dtype, name=f"{self.name}_dropout")
        options = {name: config[name] for name in self.layer_options}
        self.layers = [
            self.layer_class(**options, dtype=dtype, name=f"{self.name}_layer_{i}")
            for i in range(config["num_layers"])
        ]
        # A post-norm layer ends with a normalisation of its own.
        self.layer_norm = None
        final_norm = config["final_norm"]
        if config["normalize_first"] if final_norm is None else final_norm:
            self.layer_norm = keras.layers.LayerNormalization(
                epsilon=config["layer_norm_epsilon"], dtype=dtype, name=f"{self.name}_norm"
            )

    def embed(self, token_ids, positions=None, added=None, training=None):
        """Sections 3.4 and 3.5: embeddings times sqrt(d_model), plus positions; 5.4: dropout.

        `added` is a further summand, if there is one: `(batch, length, hidden_dim)`.
        """
        x = self.token_embedding(ops.maximum(token_ids, 0))
        x = ops.multiply(x, self._scale(token_ids, x.dtype))
        x = self.position_encoding(x, positions=positions)
        if added is not None:
            x = ops.add(x, added)
        return self.dropout(x, training=training)

    def _scale(self, token_ids, dtype):
        """Return what the embedding of each id is multiplied by: NaN for one that has none.

        Backends differ in what they take from outside of an array, and XLA takes the last row.
        """
        is_known = ops.less(token_ids, self.token_embedding.input_dim)
        scale = ops.where(is_known, self.embedding_scale, math.nan)
        return ops.expand_dims(ops.cast(scale, dtype), -1)

    @property
    def dense_layers(self):
        return [dense for layer in self.layers for dense in layer.dense_layers]

    def normalize(self, x):
        return x if self.layer_norm is None else self.layer_norm(x)


class Encoder(_Stack):
    name = "encoder"
    layer_class = TransformerEncoderLayer
    layer_options = (*_LAYER_OPTIONS, "attention_window")

    def __call__(self, token_ids, training=None):
        mask = padding_mask(token_ids)
        x = self.embed(token_ids, training=training)
        for layer in self.layers:
            x = layer(x, padding_mask=mask, training=training)
        return self.normalize(x)


class Decoder(_Stack):
    name = "decoder"
    layer_class = TransformerDecoderLayer

    def __init__(self, config, token_embedding, dtype):
        own = {
            "num_layers": config["num_decoder_layers"] or config["num_layers"],
            "intermediate_dim": config["decoder_intermediate_dim"] or config["intermediate_dim"],
        }
        super().__init__({**config, **own}, token_embedding, dtype)
        self.output_bias = None
        if config["output_bias"]:
            self.output_bias = OutputBias(dtype="float32", name="output_bias")
        self.tagger = _make_tagger(config)

    def __call__(
        self, token_ids, encoder_sequence, encoder_padding_mask, next_words=None, training=None
    ):
        return self.logits(
            self.sequence(
                token_ids, encoder_sequence, encoder_padding_mask, next_words, training=training
            )
        )

    def embed(self, token_ids, **options):
        token_ids = token_ids if self.tagger is None else self.tagger.untagged(token_ids)
        return super().embed(token_ids, **options)

    def sequence(
        self, token_ids, encoder_sequence, encoder_padding_mask, next_words=None, training=None
    ):
        """What the logits are made from, `(batch, target, hidden_dim)`.

        `next_words` are vectors that are added to the embeddings, `(batch, target, hidden_dim)`.
        """
        x = self.embed(token_ids, added=next_words, training=training)
        for layer in self.layers:
            x = layer(
                x, encoder_sequence, encoder_padding_mask=encoder_padding_mask, training=training
            )
        return self.normalize(x)

    def attention(self, token_ids, encoder_sequence, encoder_padding_mask, next_words=None):
        """The encoder-decoder attention weights, `(batch, num_heads, target, source)` a layer."""
        x = self.embed(token_ids, added=next_words, training=False)
        attention_scores = []
        for layer in self.layers:
            x, weights = layer(
                x,
                encoder_sequence,
                encoder_padding_mask=encoder_padding_mask,
                return_attention_scores=True,
                training=False,
            )
            attention_scores.append(weights)
        return attention_scores

    def step_sequence(
        self,
        token_ids,
        encoder_padding_mask,
        cache,
        cache_index,
        next_words=None,
        positions=None,
        self_attention_mask=None,
        return_attention_scores=False,
    ):
        """Like `sequence`, for tokens whose keys and values go into `cache` from `cache_index` on.

        Returns `(batch, target, hidden_dim)`, the cache and, if wanted, the last layer's
        encoder-decoder attention weights.
        """
        if positions is None:
            positions = cache_index + ops.arange(ops.shape(token_ids)[1], dtype="int32")
        x = self.embed(token_ids, positions=positions, added=next_words, training=False)
        new_cache, attention_scores = [], []
        for layer, layer_cache in zip(self.layers, cache):
            is_wanted = return_attention_scores and layer is self.layers[-1]
            x, layer_cache, *attention_scores = layer(
                x,
                encoder_padding_mask=encoder_padding_mask,
                cache=layer_cache,
                cache_index=cache_index,
                self_attention_mask=self_attention_mask,
                return_attention_scores=is_wanted,
                training=False,
            )
            new_cache.append(layer_cache)
        return self.normalize(x), new_cache, *attention_scores

    def step(self, *args, **kwargs):
        """Return logits in place of the first result of `step_sequence`, with its arguments."""
        sequence, *others = self.step_sequence(*args, **kwargs)
        return self.logits(sequence), *others

    def logits(self, sequence):
        logits = self.project(sequence)
        return logits if self.tagger is None else self.tagger.without_tags(logits)

    def project(self, sequence):
        logits = ops.cast(self.token_embedding(sequence, reverse=True), "float32")
        return logits if self.output_bias is None else self.output_bias(logits)

    def tag_log_probs(self, words):
        """Of the vectors of words, `(batch, n, hidden_dim)`: see `WordTagger.log_probs`."""
        return self.tagger.log_probs(self.project(words))

    def logit_factors(self, sequence):
        """Two matrices whose product `sequence E^T` the logits are: see `Transformer`."""
        layer = self.token_embedding
        table = layer.embeddings if layer.tie_weights else ops.transpose(layer.reverse_embeddings)
        if self.output_bias is None:
            return sequence, table
        # One more column of E, with ones to multiply it.
        ones = ops.ones_like(sequence[..., :1])
        bias = ops.cast(self.output_bias.bias, table.dtype)
        table = ops.concatenate([table, ops.expand_dims(bias, -1)], axis=-1)
        return ops.concatenate([sequence, ones], axis=-1), table


def _make_tagger(config):
    weight = config["tag_loss_weight"]
    if config["untagged_leaf_id"] is None and weight is None:
        return None
    return WordTagger(
        config["leaf_ids"],
        config["untagged_leaf_id"],
        1.0 if weight is None else weight,
        dtype="float32",
        name="tagger",
    )
