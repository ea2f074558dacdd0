"""What the models have in common that fairseq trained, and HuggingFace's transformers keeps."""

from keras_transformer.convert.embedding_tables import Tables
from keras_transformer.convert.generation import generation_option
from keras_transformer.convert.vocabulary import reserve
from keras_transformer.convert.weights import (
    TORCH_NORM_EPSILON,
    assign,
    halves_to_interleaved,
    hyperparameters,
    stack_places,
)
from keras_transformer.errors import UserError
from keras_transformer.models.encoder_decoder import zero_embeddings
from keras_transformer.models.transformer import Transformer
from keras_transformer.reserved_ids import PAD_ID

# Tables of sinusoids that older files have: they are computed.
_POSITIONS = tuple(
    f"model.{stack}.embed_positions.{name}"
    for stack in ("encoder", "decoder")
    for name in ("weight", "weights", "_float_tensor")
)


def model_of(folder, names, order, source_order, normalize_first, needless=()):
    """A `Transformer` with the weights of a folder.

    Its sinusoids are in halves there, of wavelengths of their own, and begin behind the position
    of padding.

    Args:
        folder: a `ForeignFolder`.
        names: the names of the source's and the target's embeddings, and of the projection to
            logits, which may be the same.
        order: `Order` of the target's tokens.
        source_order: `Order` of the source's tokens, should its embeddings be others.
        normalize_first: whether it is pre-norm, with a normalisation after each stack.
        needless: names of weights that may be there, as another name of what is read.

    Returns:
        A `Transformer`.

    Raises:
        UserError: if an option is not there in this package, or weights are missing or left over.
    """
    hidden_dim = folder.size("d_model")
    if hidden_dim < 4 or hidden_dim % 2:
        raise UserError(
            f"{folder.path} has d_model={hidden_dim}, of which there are no pairs of sinusoids. "
            "Expected an even number, 4 or larger."
        )
    tables = Tables.of_names(folder.tensor, names, order, source_order)
    options = {
        **hyperparameters(folder),
        **tables.hyperparameters(),
        "scale_embeddings": folder.option("scale_embedding", True, False),
        "max_wavelength": _max_wavelength(hidden_dim),
        "first_position": int(order.rows[PAD_ID]) + 1,
    }
    with zero_embeddings():
        model = Transformer(
            **options,
            normalize_first=normalize_first,
            use_bias=True,
            layer_norm_epsilon=TORCH_NORM_EPSILON,
        )
    hidden_order = halves_to_interleaved(hidden_dim)
    tables.assign(model, hidden_order)
    assign(stack_places(model), lambda name: folder.tensor(f"model.{name}"), hidden_order)
    folder.check_all_read(needless=(*needless, *_POSITIONS))
    return model


def order_of(folder, size, unknown):
    """The `Order` of a target's vocabulary, whose decoder starts with the end token.

    Args:
        folder: a `ForeignFolder`.
        size: the number of embeddings.
        unknown: the id there of the unknown token.
    """
    start, end, pad = (
        generation_option(folder, f"{name}_token_id", default)
        for name, default in (("decoder_start", 2), ("eos", 2), ("pad", 1))
    )
    return reserve(size, start=start, end=end, unknown=unknown, pad=pad)


def _max_wavelength(hidden_dim):
    """fairseq's rates fall from 1 to 1 / 10000, and ours from 1 to almost 1 / max_wavelength."""
    pairs = hidden_dim // 2
    return 10000 ** (pairs / (pairs - 1))
