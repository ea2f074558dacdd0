"""A `Transformer` with the options that only models trained elsewhere need."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import keras
from keras import ops

from keras_transformer.annotations import DType, Shape, Tensor
from keras_transformer.convert.foreign_layers import (
    POST_NORM,
    PRE_NORM,
    ForeignDecoderLayer,
    ForeignEncoderLayer,
    ForeignSinePositionEncoding,
    run_steps,
)
from keras_transformer.errors import UserError
from keras_transformer.models.config import TransformerConfig
from keras_transformer.models.encoder_decoder import Decoder, Encoder, Stack
from keras_transformer.models.transformer import Transformer
from keras_transformer.reserved_ids import START_ID
from keras_transformer.validation import (
    check_choice,
    positive_number,
    whole_number,
)


@dataclass(frozen=True, kw_only=True)
class ForeignConfig(TransformerConfig):
    """The hyperparameters of a `ForeignTransformer`, whose docstring describes each of them.

    Raises:
        UserError: if a value is out of its range, or two values exclude each other.
    """

    attention_dropout: float = 0.0
    output_bias: bool = False
    max_wavelength: float = 10000
    first_position: int = 0
    final_norm: bool | None = None
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

    def __post_init__(self) -> None:
        super().__post_init__()
        self._validate_size("feed_forward_depth")
        for name in ("decoder_intermediate_dim", "decoder_feed_forward_depth"):
            if getattr(self, name) is not None:
                self._validate_size(name)
        self._validate_sinusoids()
        self._validate_steps()
        self._validate_decoder()

    @classmethod
    def from_config(cls, config: TransformerConfig) -> Self:
        """Return the same hyperparameters, with the defaults of those that `config` lacks."""
        names = cls.names()
        return cls(**{name: x for name, x in config.to_dict().items() if name in names})

    @property
    def steps(self) -> str:
        """The steps of each sub-layer."""
        return self.sublayer_steps or (PRE_NORM if self.normalize_first else POST_NORM)

    @property
    def steps_at_the_end(self) -> str:
        """The steps after each stack."""
        if self.final_steps is not None:
            return self.final_steps
        # A post-norm layer ends with a normalization of its own.
        is_normal = self.normalize_first if self.final_norm is None else self.final_norm
        return "n" if is_normal else ""

    def _validate_sinusoids(self) -> None:
        self._set("first_position", whole_number("first_position", self.first_position))
        positive_number("max_wavelength", self.max_wavelength)
        first_position, max_wavelength = self.first_position, self.max_wavelength
        if self.max_length is not None and (first_position, max_wavelength) != (0, 10000):
            raise UserError(
                "`first_position` and `max_wavelength` are options of sinusoids. Expected their "
                'defaults with `position_encoding="learned"`. '
                f"Received: first_position={first_position}, max_wavelength={max_wavelength}"
            )

    def _validate_steps(self) -> None:
        letters = {"embedding_steps": "dn", "sublayer_steps": "nsda", "final_steps": "dan"}
        for name, known in letters.items():
            steps = getattr(self, name)
            if steps is None and self.defaults()[name] is None:
                continue
            is_text = isinstance(steps, str) and {*steps} <= {*known}
            if not is_text or ("s" in known and str(steps).count("s") != 1):
                once = ', with "s" once' if "s" in known else ""
                raise UserError(
                    f"`{name}` must be a string of the letters {', '.join(known)}{once}. "
                    f"Received: {name}={steps!r}"
                )
        for name, other in (("sublayer_steps", "normalize_first"), ("final_steps", "final_norm")):
            if getattr(self, name) is not None and getattr(self, other) != self.defaults()[other]:
                raise UserError(
                    f"`{name}` replaces `{other}`. Received: {name}={getattr(self, name)!r}, "
                    f"{other}={getattr(self, other)}"
                )

    def _validate_decoder(self) -> None:
        check_choice("decoder_type", self.decoder_type, ("attention", "ssru"))
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


class OutputBias(keras.layers.Layer):
    """A bias that is added to the logits. The paper has none (section 3.4)."""

    def build(self, logits_shape: Shape) -> None:
        self.bias = self.add_weight(shape=logits_shape[-1:], initializer="zeros", name="bias")

    def call(self, logits: Tensor) -> Tensor:
        return logits + self.bias


class ForeignStack(Stack):
    """The options that encoder and decoder share. It precedes the class of the stack."""

    def __init__(self, config: ForeignConfig, token_embedding: Any, dtype: DType):
        super().__init__(config, token_embedding, dtype)
        if config.max_length is None:
            self.position_encoding = ForeignSinePositionEncoding(
                config.max_wavelength,
                config.first_position,
                dtype=dtype,
                name=f"{self.name}_position_encoding",
            )

        self.embedding_steps, self.final_steps = config.embedding_steps, config.steps_at_the_end
        self.embedding_norm = self.layer_norm = None
        if "n" in self.embedding_steps:
            self.embedding_norm = self.make_norm("embedding_norm", config, dtype)
        if "n" in self.final_steps:
            self.layer_norm = self.make_norm("norm", config, dtype)

    def layer_options(self, config: ForeignConfig) -> dict[str, Any]:
        return {
            **super().layer_options(config),
            "steps": config.steps,
            "feed_forward_depth": config.feed_forward_depth,
            "attention_dropout": config.attention_dropout,
        }

    def embed(self, token_ids: Tensor, training: bool | None = None, **options: Any) -> Tensor:
        x = super().embed(token_ids, training=False, **options)
        dropout = functools.partial(self.dropout, training=training)
        return run_steps(x, self.embedding_steps, self.embedding_norm, dropout)

    def finish(self, x: Tensor, embedded: Tensor, training: bool | None = None) -> Tensor:
        dropout = functools.partial(self.dropout, training=training)
        return run_steps(x, self.final_steps, self.layer_norm, dropout, embedded)


class ForeignEncoder(ForeignStack, Encoder):
    """The encoder stack of a `ForeignTransformer`."""

    layer_class = ForeignEncoderLayer


class ForeignDecoder(ForeignStack, Decoder):
    """The decoder stack of a `ForeignTransformer`."""

    layer_class = ForeignDecoderLayer

    def __init__(self, config: ForeignConfig, token_embedding: Any, dtype: DType):
        super().__init__(config, token_embedding, dtype)
        if config.tied_decoder_layers is not None:
            self.layers = [self.layers[number - 1] for number in config.tied_decoder_layers]
        self.zero_start = config.zero_start
        self.output_bias = None
        if config.output_bias:
            self.output_bias = OutputBias(dtype="float32", name="output_bias")

    def layer_options(self, config: ForeignConfig) -> dict[str, Any]:
        return {
            **super().layer_options(config),
            "intermediate_dim": config.decoder_intermediate_dim or config.intermediate_dim,
            "feed_forward_depth": config.decoder_feed_forward_depth or config.feed_forward_depth,
            "self_attention": config.decoder_type,
            "normalize_keys": config.normalize_keys,
        }

    @property
    def dense_layers(self) -> list[keras.layers.Dense]:
        return [*dict.fromkeys(super().dense_layers)]  # A tied layer occurs several times.

    def _scale(self, token_ids: Tensor, dtype: DType) -> Tensor:
        scale = super()._scale(token_ids, dtype)
        if not self.zero_start:
            return scale
        is_start = ops.expand_dims(ops.equal(token_ids, START_ID), -1)
        return ops.where(is_start, ops.zeros_like(scale), scale)

    def logits(self, sequence: Tensor, output_rows: Sequence[Tensor] | None = None) -> Tensor:
        logits = super().logits(sequence, output_rows)
        if self.output_bias is None:
            return logits
        return self.output_bias(logits) if output_rows is None else logits + output_rows[1]

    def output_rows(self, token_ids: Tensor) -> list[Tensor]:
        rows = super().output_rows(token_ids)
        if self.output_bias is not None:
            rows.append(ops.take(self.output_bias.bias, token_ids, axis=0))
        return rows

    def logit_factors(self, sequence: Tensor) -> tuple[Tensor, Tensor]:
        sequence, table = super().logit_factors(sequence)
        if self.output_bias is None:
            return sequence, table
        # The bias is one more column of E, which is multiplied by ones.
        ones = ops.ones_like(sequence[..., :1])
        bias = ops.cast(self.output_bias.bias, table.dtype)
        table = ops.concatenate([table, ops.expand_dims(bias, -1)], axis=-1)
        return ops.concatenate([sequence, ones], axis=-1), table


@keras.saving.register_keras_serializable(package="keras_transformer")
class ForeignTransformer(Transformer):
    """A `Transformer` with the options of models that were trained elsewhere.

    The functions of `kt.convert` make it where a file needs it, and a `Transformer` otherwise.

    ```python
    model = kt.convert.ForeignTransformer(32000, decoder_type="ssru", output_bias=True)
    ```

    Args:
        *args: arguments of `Transformer`, such as `vocabulary_size`.
        dtype: as for `Transformer`.
        name: name of the model.
        trainable: whether training changes the weights.
        **hyperparameters: further arguments of `Transformer`, and the following ones.
        attention_dropout: probability of dropping an attention weight.
        output_bias: whether a bias is added to the logits.
        max_wavelength: the sinusoids' wavelengths grow from 2π to this number times 2π (section
            3.5).
        first_position: the number of the first position in the sinusoids.
        final_norm: whether each stack ends with its own layer normalization. Defaults to the value
            of `normalize_first`.
        decoder_intermediate_dim: d_ff of the decoder. Defaults to `intermediate_dim`.
        decoder_type: `"attention"`, or `"ssru"` for a recurrent unit in place of the decoder's
            self-attention, which makes searches faster: see `kt.convert.SSRU`.
        tied_decoder_layers: list of one number per layer of the decoder. Layers with the same
            number, the position of the first of them from 1, have the same weights. Defaults to
            different weights.
        feed_forward_depth: the number of matrices of each feed-forward network. The paper's has 2.
        decoder_feed_forward_depth: likewise in the decoder. Defaults to `feed_forward_depth`.
        embedding_steps: the steps after the sums of embeddings and positions, as letters: "d" is
            dropout and "n" a layer normalization.
        sublayer_steps: the steps of each sub-layer as letters, where "s" is the sub-layer and "a"
            adds its input: `"sdan"` is the paper's. Defaults to it, or with `normalize_first` to
            `"nsda"`.
        final_steps: the steps after each stack, where "a" adds the stack's input. Defaults to `"n"`
            with `final_norm`, else to none.
        normalize_keys: whether the keys and values of the decoder's self-attention are normalized
            as its queries are. If false, they are not, except at the first position: so Marian's
            decoder computes pre-norm models.
        zero_start: whether the embedding of the start token in the decoder is zero, as in Marian.

    Call arguments:
        inputs: as for `Transformer`.
        training: whether to apply dropout.

    Returns:
        Float32 tensor `(batch, target, vocabulary_size)`, as for `Transformer`.

    Raises:
        UserError: as `Transformer`; or if a value is out of its range, or two exclude each other.
    """

    decoder: ForeignDecoder
    config: ForeignConfig
    config_class = ForeignConfig
    encoder_class = ForeignEncoder
    decoder_class = ForeignDecoder
    backbone_name = "ForeignTransformerBackbone"

    def __init__(
        self,
        *args: Any,
        dtype: DType = None,
        name: str | None = None,
        trainable: bool = True,
        **hyperparameters: Any,
    ):
        config = ForeignConfig(*args, **hyperparameters)
        self._build_graph(config, dtype, name, trainable)


# The defaults of the hyperparameters that `Transformer` lacks.
_DEFAULTS = {
    name: default
    for name, default in ForeignConfig.defaults().items()
    if name not in TransformerConfig.names()
}


def foreign_values(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters that only `ForeignTransformer` has, except those with defaults.

    Args:
        hyperparameters: dict of arguments of `ForeignTransformer`.
    """
    return {
        name: hyperparameters[name]
        for name, default in _DEFAULTS.items()
        if hyperparameters.get(name, default) != default
    }


def make_transformer(**arguments: Any) -> Transformer:
    """Return a `Transformer`, or a `ForeignTransformer` if a value requires it.

    Args:
        **arguments: arguments of `ForeignTransformer`.

    Raises:
        UserError: as `ForeignTransformer`.
    """
    if foreign_values(arguments):
        return ForeignTransformer(**arguments)
    return Transformer(**{name: x for name, x in arguments.items() if name not in _DEFAULTS})


def output_bias(model: Transformer) -> keras.Variable | None:
    """Return the bias of the logits of a `Transformer` of either class, if it has one."""
    layer = getattr(model.decoder, "output_bias", None)
    return None if layer is None else layer.bias


def with_zero_start(hyperparameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of a model that Marian can run.

    Args:
        hyperparameters: dict of arguments of `Transformer`.
    """
    changed = {**hyperparameters, "zero_start": True}
    if hyperparameters["position_encoding"] == "sine":
        changed["max_wavelength"] = marian_wavelength(hyperparameters["hidden_dim"])
    return changed


def marian_wavelength(hidden_dim: int) -> float:
    """Return our `max_wavelength` for the sinusoids of Marian, fairseq and tensor2tensor.

    Their last wavelength is 10000 * 2 pi. In the paper, this is the wavelength after the last one.

    Args:
        hidden_dim: d_model.
    """
    half = hidden_dim // 2
    return 10000 ** (half / (half - 1)) if half > 1 else 10000
