"""The hyperparameters of a `Transformer`: their names, defaults, types and checks."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from keras_transformer.errors import UserError
from keras_transformer.layers.feed_forward import get_activation, serialize_activation
from keras_transformer.validation import not_negative


@dataclass(frozen=True)
class TransformerConfig:
    """The hyperparameters of a `Transformer`, whose docstring describes each of them.

    A derived class adds the fields of a derived model, keyword-only.

    Raises:
        UserError: if a value is out of its range, or two values exclude each other.
    """

    vocabulary_size: int
    num_layers: int = 6
    hidden_dim: int = 512
    intermediate_dim: int = 2048
    num_heads: int = 8
    key_dim: int | None = None
    value_dim: int | None = None
    dropout: float = 0.1
    activation: str | dict[str, Any] | Callable = "relu"
    position_encoding: Literal["sine", "learned"] = "sine"
    max_length: int | None = None
    normalize_first: bool = False
    layer_norm_epsilon: float = 1e-6
    use_bias: bool = False
    attention_window: int | None = None
    source_vocabulary_size: int | None = None
    tie_weights: bool = True
    scale_embeddings: bool = True
    num_decoder_layers: int | None = None

    def __post_init__(self) -> None:
        self._set("activation", serialize_activation(get_activation(self.activation)))
        for name in ("vocabulary_size", "num_layers", "hidden_dim", "num_heads"):
            self._validate_size(name)
        for name in ("source_vocabulary_size", "num_decoder_layers"):
            if getattr(self, name) is not None:
                self._validate_size(name)
        if self.key_dim is None and self.hidden_dim % self.num_heads:
            raise UserError(
                "`num_heads` must divide `hidden_dim` if `key_dim` is not given. Received: "
                f"num_heads={self.num_heads}, hidden_dim={self.hidden_dim}"
            )
        not_negative("layer_norm_epsilon", self.layer_norm_epsilon)
        self._validate_positions()

    @property
    def decoder_layers(self) -> int:
        """The number of layers of the decoder."""
        return self.num_decoder_layers or self.num_layers

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of all hyperparameters, in the order of the arguments."""
        return tuple(field.name for field in dataclasses.fields(cls))

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Return the defaults of the hyperparameters that have one."""
        return {
            field.name: field.default
            for field in dataclasses.fields(cls)
            if field.default is not dataclasses.MISSING
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the hyperparameters as JSON values, in the order of the arguments."""
        return {name: getattr(self, name) for name in self.names()}

    def _set(self, name: str, value: Any) -> None:
        """Replace a value while the instance is made."""
        object.__setattr__(self, name, value)

    def _validate_size(self, name: str) -> None:
        size = getattr(self, name)
        if not isinstance(size, int) or size < 1:
            raise UserError(f"`{name}` must be a positive integer. Received: {name}={size!r}")

    def _validate_positions(self) -> None:
        is_learned = self.position_encoding == "learned"
        if self.position_encoding not in ("sine", "learned"):
            raise UserError(
                '`position_encoding` must be "sine" or "learned". '
                f"Received: position_encoding={self.position_encoding!r}"
            )
        if (self.max_length is not None) != is_learned:
            raise UserError(
                '`max_length` is the number of learned positions. Expected it with "learned", and '
                f"only with it. Received: position_encoding={self.position_encoding!r}, "
                f"max_length={self.max_length}"
            )
