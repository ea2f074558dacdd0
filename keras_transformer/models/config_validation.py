"""What the arguments of a `Transformer` may be."""

from keras_transformer.errors import UserError
from keras_transformer.validation import not_negative, positive_number


def check_hyperparameters(config):
    """Check those of a `Transformer`, as a dict, that its layers cannot: they never see them, or
    see them too late.

    Raises:
        UserError: if one is out of its range, or two do not go together.
    """
    for name in ("vocabulary_size", "num_layers", "hidden_dim", "num_heads"):
        _check_size(name, config[name])
    for name in ("source_vocabulary_size", "num_decoder_layers", "decoder_intermediate_dim"):
        if config[name] is not None:
            _check_size(name, config[name])
    if config["key_dim"] is None and config["hidden_dim"] % config["num_heads"]:
        raise UserError(
            "Without `key_dim`, `num_heads` must divide `hidden_dim`. Received: "
            f"num_heads={config['num_heads']}, hidden_dim={config['hidden_dim']}"
        )
    if config["position_encoding"] not in ("sine", "learned"):
        raise UserError(
            '`position_encoding` must be "sine" or "learned". '
            f"Received: position_encoding={config['position_encoding']!r}"
        )
    if (config["max_length"] is not None) != (config["position_encoding"] == "learned"):
        raise UserError(
            '`max_length` is the number of learned positions: pass it with "learned", and only '
            f"with it. Received: position_encoding={config['position_encoding']!r}, "
            f"max_length={config['max_length']}"
        )
    not_negative("layer_norm_epsilon", config["layer_norm_epsilon"])
    _check_sinusoids(config)
    _check_deterministic_attention(config)


def _check_size(name, size):
    if not isinstance(size, int) or size < 1:
        raise UserError(f"`{name}` must be a positive integer. Received: {name}={size}")


def _check_sinusoids(config):
    first_position, max_wavelength = config["first_position"], config["max_wavelength"]
    if not isinstance(first_position, int) or first_position < 0:
        raise UserError(
            "`first_position` must be an integer, 0 or larger. "
            f"Received: first_position={first_position}"
        )
    positive_number("max_wavelength", max_wavelength)
    if config["position_encoding"] == "learned" and (first_position, max_wavelength) != (0, 10000):
        raise UserError(
            "`first_position` and `max_wavelength` are of sinusoids: leave them out with "
            '`position_encoding="learned"`. '
            f"Received: first_position={first_position}, max_wavelength={max_wavelength}"
        )


def _check_deterministic_attention(config):
    starts, leaves = config["word_start_ids"], config["leaf_ids"]
    if (starts is None) != (leaves is None):
        raise UserError(
            "`word_start_ids` and `leaf_ids` are both of deterministic attention: pass both or "
            f"neither. Received: word_start_ids={starts}, leaf_ids={leaves}"
        )
    for name in ("untagged_leaf_id", "tag_loss_weight"):
        if leaves is None and config[name] is not None:
            raise UserError(
                f"`{name}` is of a tagger, which reads the vectors of deterministic attention: "
                f"pass `leaf_ids` too. Received: {name}={config[name]}"
            )
    if leaves is None:
        return
    if config["tag_loss_weight"] is not None:
        positive_number("tag_loss_weight", config["tag_loss_weight"])
    target_size = config["vocabulary_size"]
    source_size = config["source_vocabulary_size"] or target_size
    for name, size in (("word_start_ids", source_size), ("leaf_ids", target_size)):
        largest = max(config[name], default=0)
        if largest >= size:
            raise UserError(
                f"`{name}` must be below {size}, the vocabulary size. Received: {largest}"
            )


def describe(model):
    """A model in a line: its sizes by the paper's symbols."""
    sizes = model.hyperparameters
    layers = f"{sizes['num_layers']} + {sizes['num_decoder_layers'] or sizes['num_layers']} layers"
    source = sizes["source_vocabulary_size"]
    tokens = f"{sizes['vocabulary_size']:,} tokens"
    return (
        f"<{type(model).__name__}: {layers}, d_model {sizes['hidden_dim']}, "
        f"d_ff {sizes['intermediate_dim']}, {sizes['num_heads']} heads, "
        f"{f'{source:,} source and {tokens}' if source else tokens}, "
        f"{model.count_params():,} parameters, {model.dtype_policy.name}>"
    )
