"""The rows of Table 3, and the small models that the recipes train."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from keras_transformer.errors import UserError
from keras_transformer.validation import (
    check_optional,
    positive_integer,
    positive_number,
    probability,
)

# Hyperparameters of the training, not of the model.
TRAINING_ONLY = ("label_smoothing",)

_BASE = {
    "num_layers": 6,  # N
    "num_decoder_layers": None,  # N of the decoder; None: num_layers
    "hidden_dim": 512,  # d_model
    "intermediate_dim": 2048,  # d_ff
    "num_heads": 8,  # h
    "key_dim": None,  # d_k; None: hidden_dim // num_heads
    "value_dim": None,  # d_v; None: key_dim
    "dropout": 0.1,  # P_drop
    "position_encoding": "sine",
    "max_length": None,
    "label_smoothing": 0.1,  # epsilon_ls, of the training loss
}

_DIFFERENCES_FROM_BASE = {
    "base": {},
    "big": {"hidden_dim": 1024, "intermediate_dim": 4096, "num_heads": 16, "dropout": 0.3},
    # Rows A: more or fewer heads at constant cost.
    "heads_1": {"num_heads": 1},
    "heads_4": {"num_heads": 4},
    "heads_16": {"num_heads": 16},
    "heads_32": {"num_heads": 32},
    # Rows B: smaller keys.
    "key_dim_16": {"key_dim": 16, "value_dim": 64},
    "key_dim_32": {"key_dim": 32, "value_dim": 64},
    # Rows C: the size of the model.
    "layers_2": {"num_layers": 2},
    "layers_4": {"num_layers": 4},
    "layers_8": {"num_layers": 8},
    "hidden_256": {"hidden_dim": 256},
    "hidden_1024": {"hidden_dim": 1024},
    "feed_forward_1024": {"intermediate_dim": 1024},
    "feed_forward_4096": {"intermediate_dim": 4096},
    # Rows D: regularization.
    "dropout_0.0": {"dropout": 0.0},
    "dropout_0.2": {"dropout": 0.2},
    "label_smoothing_0.0": {"label_smoothing": 0.0},
    "label_smoothing_0.2": {"label_smoothing": 0.2},
    # Row E: learned positions in place of sinusoids.
    "learned_positions": {"position_encoding": "learned", "max_length": 1024},
    # Section 6.3: constituency parsing.
    "parsing": {"num_layers": 4, "hidden_dim": 1024},
    # Not in the paper: sizes for small corpora. `tiny` is from Wu et al. (2021), "Good for
    # Misconceived Reasons: An Empirical Revisiting on the Need for Visual Context".
    "tiny": {
        "num_layers": 4,
        "hidden_dim": 128,
        "intermediate_dim": 256,
        "num_heads": 4,
        "dropout": 0.3,
    },
    "small": {
        "num_layers": 4,
        "hidden_dim": 256,
        "intermediate_dim": 1024,
        "num_heads": 4,
        "dropout": 0.2,
    },
}

variants = MappingProxyType(
    {
        name: MappingProxyType({**_BASE, **differences})
        for name, differences in _DIFFERENCES_FROM_BASE.items()
    }
)


@dataclass(kw_only=True)
class ModelOptions:
    """The model (section 3) and its regularization (section 5.4)."""

    variant: str = "tiny"
    """Size of the model: a row of Table 3, or parsing, tiny or small."""
    scale: float = 1.0
    """Factor on the widths of the variant (hidden, intermediate, keys and values)."""
    num_layers: int | None = None
    """N (section 3.1), if not the variant's."""
    num_decoder_layers: int | None = None
    """N of the decoder, if not the encoder's. Fewer layers make searches faster."""
    dropout: float | None = None
    """P_drop (section 5.4), if not the variant's."""
    label_smoothing: float | None = None
    """epsilon_ls (section 5.4), if not the variant's. With `lora`: 0."""
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = "float32"
    """Dtype of the computation; weights are float32. With float16 the loss is scaled."""

    def validate(self) -> None:
        """Validate the options.

        Raises:
            UserError: if there is no such variant, or a number is out of its range.
        """
        self.hyperparameters()
        check_optional(positive_integer, self, "num_layers", "num_decoder_layers")
        check_optional(probability, self, "dropout", "label_smoothing")

    def hyperparameters(self) -> dict[str, Any]:
        """Return the hyperparameters of the model and of its training.

        Raises:
            UserError: if there is no such variant, or it cannot be scaled by this factor.
        """
        hyperparameters = scaled(get_variant(self.variant), self.scale)
        for name in ("num_layers", "num_decoder_layers", "dropout", "label_smoothing"):
            if (value := getattr(self, name)) is not None:
                hyperparameters[name] = value
        return hyperparameters

    def fine_tuned(self, hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the hyperparameters of a preset with which its training continues.

        Args:
            hyperparameters: dict of arguments of `Transformer`, those of the preset.
        """
        return {**hyperparameters, **({} if self.dropout is None else {"dropout": self.dropout})}


def without_training(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters that are arguments of the model."""
    return {name: x for name, x in hyperparameters.items() if name not in TRAINING_ONLY}


def get_variant(name: str) -> dict[str, Any]:
    """Return the hyperparameters of a variant as a new dict.

    Args:
        name: a key of `variants`.

    Raises:
        UserError: if there is no such variant.
    """
    if name not in variants:
        raise UserError(
            f"`variant` must be one of {', '.join(variants)}. Received: variant={name!r}"
        )
    return dict(variants[name])


def scaled(hyperparameters: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return the hyperparameters with all widths multiplied by a factor and rounded.

    The numbers of layers and heads stay, so that the rows of Table 3 can be compared at a smaller
    size.

    Raises:
        UserError: if the factor is not a positive number, or the scaled `hidden_dim` is odd or not
            a multiple of `num_heads`.
    """
    positive_number("scale", factor)
    widths = {
        name: max(1, round(hyperparameters[name] * factor))
        for name in ("hidden_dim", "intermediate_dim", "key_dim", "value_dim")
        if hyperparameters[name] is not None
    }
    hidden_dim, num_heads = widths["hidden_dim"], hyperparameters["num_heads"]
    if hidden_dim % num_heads or hidden_dim % 2:
        raise UserError(
            f"`scale` must make `hidden_dim` even and a multiple of num_heads={num_heads}. "
            f"Received: scale={factor}, which makes hidden_dim={hidden_dim} of "
            f"{hyperparameters['hidden_dim']}"
        )
    return {**hyperparameters, **widths}
