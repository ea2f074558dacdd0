"""The same weights in KerasHub's encoder and decoder layers, combined as in its guides."""

import keras
import keras_hub
from keras import ops


def keras_hub_model(model):
    """Return a functional `keras.Model` of KerasHub's layers that computes the same as `model`."""
    config = model.config
    token_ids = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("encoder_token_ids", "decoder_token_ids")
    }
    embedding = keras_hub.layers.ReversibleEmbedding(
        config.vocabulary_size, config.hidden_dim, name="token_embedding"
    )

    def embed(ids):
        x = embedding(ids) * config.hidden_dim**0.5
        return keras.layers.Dropout(config.dropout)(x + keras_hub.layers.SinePositionEncoding()(x))

    is_token = token_ids["encoder_token_ids"] != 0
    encoded = embed(token_ids["encoder_token_ids"])
    for layer in _layers(keras_hub.layers.TransformerEncoder, config):
        encoded = layer(encoded, padding_mask=is_token)
    decoded = embed(token_ids["decoder_token_ids"])
    for layer in _layers(keras_hub.layers.TransformerDecoder, config):
        decoded = layer(decoded, encoded, encoder_padding_mask=is_token)
    hub = keras.Model(token_ids, embedding(decoded, reverse=True))

    _assign(embedding.embeddings, model.encoder.token_embedding.embeddings)
    for kind, stack in (("Encoder", model.encoder), ("Decoder", model.decoder)):
        theirs = [layer for layer in hub.layers if type(layer).__name__ == f"Transformer{kind}"]
        for their_layer, our_layer in zip(theirs, stack.layers, strict=True):
            for variable in their_layer.weights:
                _copy(variable, our_layer)
    return hub


def _layers(layer_class, config):
    for _ in range(config.num_layers):
        yield layer_class(
            config.intermediate_dim,
            config.num_heads,
            dropout=config.dropout,
            activation=config.activation,
            layer_norm_epsilon=config.layer_norm_epsilon,
            normalize_first=config.normalize_first,
        )


def _copy(variable, our_layer):
    """Copy a weight. KerasHub's names differ in a few words, and its kernels have a head axis."""
    path = variable.path
    for theirs, ours in (
        ("self_attention_layer", "self_attention"),
        ("_layer_norm", "_norm"),
        ("feedforward", "feed_forward"),
        ("attention_output", "output"),
    ):
        path = path.replace(theirs, ours)
    *_, block, part, name = path.split("/")
    if "attention" in block and "norm" not in part:
        owner = getattr(getattr(our_layer, block), f"{part}_dense")
        if name == "bias":
            variable.assign(ops.zeros(variable.shape))  # ours has none
            return
    elif part.endswith("_dense"):
        owner = getattr(our_layer.feed_forward, part.removeprefix("feed_forward_"))
    else:
        owner = getattr(our_layer, part)
    _assign(variable, getattr(owner, name))


def _assign(variable, values):
    # A copy: on JAX two variables would share one array, which training one of them deletes.
    variable.assign(ops.convert_to_numpy(values).reshape(variable.shape).copy())
