"""The names of a model's weights in Marian's own files."""

from keras_transformer.convert.foreign_transformer import ForeignConfig

_ATTENTIONS = {"self_attn": "self", "encoder_attn": "context"}
_NORMS = {"self_attn": "self_Wo", "encoder_attn": "context_Wo", "final": "ffn_ffn"}
_KINDS = {"weight": "scale", "bias": "bias"}  # of a norm


def marian_name(name: str, config: ForeignConfig) -> tuple[str, bool]:
    """Return the name of a weight in Marian's files, and whether it is a matrix.

    Matrices are `(inputs, outputs)` there, and vectors have the shape `(1, size)`.

    Args:
        name: a name of `weights.stack_mappings`.
        config: the `ForeignConfig`. A tied layer has the first such layer's name.
    """
    path, _, kind = name.rpartition(".")
    stack, _, part = path.partition(".")
    if part == "layer_norm":
        return f"{stack}_top_ln_{_KINDS[kind]}", False
    if part == "layernorm_embedding":
        return f"{stack}_emb_ln_{_KINDS[kind]}_pre", False
    _, number, part = part.split(".", 2)
    index = int(number) + 1
    if stack == "decoder" and config.tied_decoder_layers is not None:
        index = config.tied_decoder_layers[int(number)]
    layer = f"{stack}_l{index}"
    is_ssru = stack == "decoder" and config.decoder_type == "ssru" and "self_attn" in part
    if part.endswith("layer_norm"):
        return f"{layer}_{_norm_name(part, kind, config, is_ssru)}", False
    letter = {"weight": "W", "bias": "b"}[kind]
    if part.startswith("fc"):
        return f"{layer}_ffn_{letter}{part.removeprefix('fc')}", kind == "weight"
    attention, projection = part.split(".")
    if is_ssru:
        gate = "f" if projection == "forget_proj" else ""
        return f"{layer}_rnn_{letter}{gate}", kind == "weight"
    return f"{layer}_{_ATTENTIONS[attention]}_{letter}{projection[0]}", kind == "weight"


def _norm_name(part, kind, config, is_ssru):
    """Return the name of a norm of a sub-layer, after the layer's."""
    sublayer = part.removesuffix("_layer_norm").removesuffix("_pre")
    # The only norm of a sub-layer may be before or after it.
    is_before = part.endswith("_pre_layer_norm") or "n" not in config.steps.partition("s")[2]
    if is_ssru:
        prefix = "rnn" if is_before else "rnn_ffn"
    else:
        prefix = _NORMS[sublayer]
    return f"{prefix}_ln_{_KINDS[kind]}{'_pre' if is_before else ''}"
