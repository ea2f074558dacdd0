"""The hyperparameters of a `Transformer`: their names, defaults, types and checks."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from keras_transformer.errors import UserError
from keras_transformer.layers.feed_forward import get_activation, serialize_activation
from keras_transformer.layers.transformer_layer import check_steps
from keras_transformer.validation import not_negative, positive_number

DECODER_TYPES = ("attention", "ssru")


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
    attention_dropout: float = 0.0
    activation: str | dict[str, Any] | Callable = "relu"
    position_encoding: Literal["sine", "learned"] = "sine"
    max_length: int | None = None
    normalize_first: bool = False
    layer_norm_epsilon: float = 1e-6
    use_bias: bool = False
    attention_window: int | None = None
    source_vocabulary_size: int | None = None
    tie_weights: bool = True
    output_bias: bool = False
    scale_embeddings: bool = True
    max_wavelength: float = 10000
    first_position: int = 0
    final_norm: bool | None = None
    num_decoder_layers: int | None = None
    decoder_intermediate_dim: int | None = None
    decoder_type: Literal["attention", "ssru"] = "attention"
    tied_decoder_layers: Sequence[int] | None = None
    feed_forward_depth: int = 2
    decoder_feed_forward_depth: int | None = None
    embedding_steps: str = "d"
    sublayer_steps: str | None = None
    final_steps: str | None = None
    normalize_keys: bool = True
    zero_start: bool = False

    def __post_init__(self):
        self._set("activation", serialize_activation(get_activation(self.activation)))
        for name in ("vocabulary_size", "num_layers", "hidden_dim", "num_heads"):
            self._check_size(name)
        self._check_size("feed_forward_depth")
        for name in (
            *("source_vocabulary_size", "num_decoder_layers", "decoder_intermediate_dim"),
            "decoder_feed_forward_depth",
        ):
            if getattr(self, name) is not None:
                self._check_size(name)
        if self.key_dim is None and self.hidden_dim % self.num_heads:
            raise UserError(
                "`num_heads` must divide `hidden_dim` if `key_dim` is not given. Received: "
                f"num_heads={self.num_heads}, hidden_dim={self.hidden_dim}"
            )
        not_negative("layer_norm_epsilon", self.layer_norm_epsilon)
        self._check_positions()
        self._check_steps()
        self._check_decoder()

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

    @classmethod
    def from_arguments(cls, arguments: dict[str, Any]) -> Self:
        """Make a configuration from the arguments that are hyperparameters.

        Args:
            arguments: dict of values by name, such as the `locals()` of a constructor.
        """
        return cls(**{name: arguments[name] for name in cls.names()})

    def to_dict(self) -> dict[str, Any]:
        """Return the hyperparameters as JSON values, in the order of the arguments."""
        return {name: getattr(self, name) for name in self.names()}

    def _set(self, name, value):
        """Replace a value while the instance is made."""
        object.__setattr__(self, name, value)

    def _check_size(self, name):
        size = getattr(self, name)
        if not isinstance(size, int) or size < 1:
            raise UserError(f"`{name}` must be a positive integer. Received: {name}={size!r}")

    def _check_steps(self):
        check_steps("embedding_steps", self.embedding_steps, "dn")
        if self.sublayer_steps is not None:
            check_steps("sublayer_steps", self.sublayer_steps, "nsda")
        if self.final_steps is not None:
            check_steps("final_steps", self.final_steps, "dan")
        if self.sublayer_steps is not None and self.normalize_first:
            raise UserError(
                "`sublayer_steps` replaces `normalize_first`. Received: "
                f"sublayer_steps={self.sublayer_steps!r}, normalize_first=True"
            )
        if self.final_steps is not None and self.final_norm is not None:
            raise UserError(
                "`final_steps` replaces `final_norm`. Received: "
                f"final_steps={self.final_steps!r}, final_norm={self.final_norm}"
            )

    def _check_decoder(self):
        if self.decoder_type not in DECODER_TYPES:
            raise UserError(
                f"`decoder_type` must be one of {', '.join(DECODER_TYPES)}. "
                f"Received: decoder_type={self.decoder_type!r}"
            )
        if not self.normalize_keys and self.decoder_type != "attention":
            raise UserError('`normalize_keys=False` requires `decoder_type="attention"`.')
        if self.tied_decoder_layers is None:
            return
        numbers = list(self.tied_decoder_layers)
        self._set("tied_decoder_layers", numbers)
        is_valid = len(numbers) == self.decoder_layers and all(
            type(number) is int and 1 <= number <= i + 1 and number in (i + 1, *numbers[:i])
            for i, number in enumerate(numbers)
        )
        if not is_valid:
            raise UserError(
                "`tied_decoder_layers` must have one number per layer of the decoder: its own, from"
                f" 1 to {self.decoder_layers}, or that of an earlier layer whose weights it has. "
                f"Received: tied_decoder_layers={numbers}"
            )

    def _check_positions(self):
        first_position, max_wavelength = self.first_position, self.max_wavelength
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
        if not isinstance(first_position, int) or first_position < 0:
            raise UserError(
                "`first_position` must be an integer, 0 or larger. "
                f"Received: first_position={first_position}"
            )
        positive_number("max_wavelength", max_wavelength)
        if is_learned and (first_position, max_wavelength) != (0, 10000):
            raise UserError(
                "`first_position` and `max_wavelength` are options of sinusoids. Expected their "
                'defaults with `position_encoding="learned"`. '
                f"Received: first_position={first_position}, max_wavelength={max_wavelength}"
            )
