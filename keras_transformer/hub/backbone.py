"""KerasHub's backbones of our models, and their tokenizers and preprocessors."""

from collections.abc import Sequence
from typing import Any, Self

import keras
import keras_hub
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.convert.foreign_transformer import ForeignTransformer
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.data.text_lines import without_breaks
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.models.quantization import (
    as_policy_map,
    get_dtype_policy,
    is_quantized,
    with_default_policy,
)
from keras_transformer.models.transformer import Transformer
from keras_transformer.parsing.parser_transformer import ParserTransformer
from keras_transformer.presets.format import QUANTIZATION, SEQUENCE_LENGTH
from keras_transformer.presets.location import PREPROCESSOR, SOURCE_TOKENIZER, TOKENIZER
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID

# Backbones


class _Backbone:
    """Mixin of the backbones, which precedes the class of the model.

    It is not derived from `Transformer`, because Keras changes the bases of functional models and
    fails if it meets a class twice.
    """

    logits_dtype = None

    def __init__(self, *, dtype: Any = None, quantization: Any = None, **hyperparameters: Any):
        if quantization is not None:
            dtype = with_default_policy(quantization, as_policy_map(dtype).default_policy)
        super().__init__(**hyperparameters, dtype=dtype)  # pyright: ignore[reportCallIssue] mixin

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()  # pyright: ignore[reportAttributeAccessIssue] mixin
        if is_quantized(self):
            config[QUANTIZATION] = keras.dtype_policies.serialize(get_dtype_policy(self))
        return config


_from_preset = keras_hub.models.Backbone.from_preset.__func__


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerBackbone(_Backbone, Transformer, keras_hub.models.Backbone):
    """A `kt.Transformer` that is also a `keras_hub.models.Backbone`.

    It has the arguments, weights and methods of `kt.Transformer`, including `encode` and `decode`,
    and `from_preset` and `save_to_preset` of KerasHub's class. It returns logits in the dtype that
    its layers compute in, as KerasHub expects of a backbone.

    Args:
        dtype: as for `kt.Transformer`.
        quantization: dtype policy of the quantized layers, which takes precedence over `dtype`.
            KerasHub loads backbones with its own `dtype` instead of the saved one.
        **hyperparameters: the other arguments of `kt.Transformer`.

    Raises:
        UserError: as `kt.Transformer`.
    """

    # The preset's class may be another one: KerasHub looks.
    from_preset = classmethod(_from_preset)  # pyright: ignore[reportAssignmentType] more arguments


@keras.saving.register_keras_serializable(package="keras_transformer")
class ParserTransformerBackbone(_Backbone, ParserTransformer, keras_hub.models.Backbone):
    """A `kt.parsing.ParserTransformer` that is also a `keras_hub.models.Backbone`.

    Args:
        dtype: as for `TransformerBackbone`.
        quantization: as for `TransformerBackbone`.
        **hyperparameters: the other arguments of `kt.parsing.ParserTransformer`.

    Raises:
        UserError: as `kt.parsing.ParserTransformer`.
    """

    from_preset = classmethod(_from_preset)  # pyright: ignore[reportAssignmentType] more arguments


@keras.saving.register_keras_serializable(package="keras_transformer")
class ForeignTransformerBackbone(_Backbone, ForeignTransformer, keras_hub.models.Backbone):
    """A `kt.convert.ForeignTransformer` that is also a `keras_hub.models.Backbone`.

    Args:
        dtype: as for `TransformerBackbone`.
        quantization: as for `TransformerBackbone`.
        **hyperparameters: the other arguments of `kt.convert.ForeignTransformer`.

    Raises:
        UserError: as `kt.convert.ForeignTransformer`.
    """

    from_preset = classmethod(_from_preset)  # pyright: ignore[reportAssignmentType] more arguments


# Tokenizers

_SPECIAL = {"pad_token": PAD_ID, "start_token": START_ID, "end_token": END_ID}


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerTokenizer(keras_hub.tokenizers.SentencePieceTokenizer):
    """The tokenizer of a preset: a SentencePiece model with reserved first ids.

    The ids are 0 for padding, 1 for the start, 2 for the end and 3 for unknown tokens.

    Args:
        proto: the serialized SentencePiece model as bytes, or None to load the preset's.
        **kwargs: further arguments of `keras_hub.tokenizers.SentencePieceTokenizer`. For the second
            tokenizer of a model, `config_file="source_tokenizer.json"`.

    Raises:
        UserError: if the model's first ids or `config_file` differ.
    """

    backbone_cls = TransformerBackbone

    def __init__(self, proto: bytes | str | None = None, **kwargs: Any):
        _validate_config_file(kwargs, *(f"{name}.json" for name in (TOKENIZER, SOURCE_TOKENIZER)))
        for name in _SPECIAL:
            self._add_special_token(None, name)
        super().__init__(proto=proto, **kwargs)

    def _update_special_token_ids(self) -> None:
        Tokenizer(self.proto)  # checks the first ids, whose tokens may have any names
        for name, token_id in _SPECIAL.items():
            setattr(self, name, self.get_vocabulary()[token_id])
            setattr(self, f"{name}_id", token_id)

    def tokens_to_ids(self, tokens: list[str]) -> list[int]:
        """Return the ids of strings that are one token each.

        Raises:
            UserError: if a string is not a token of the vocabulary.
        """
        return Tokenizer(self.proto).tokens_to_ids(tokens) if tokens else []


@keras.saving.register_keras_serializable(package="keras_transformer")
class ParserTransformerTokenizer(TransformerTokenizer):
    """The `TransformerTokenizer` class that KerasHub looks for with a `ParserTransformerBackbone`.

    A preset names the base class, and `from_preset` returns an object of it.
    """

    backbone_cls = ParserTransformerBackbone


@keras.saving.register_keras_serializable(package="keras_transformer")
class ForeignTransformerTokenizer(TransformerTokenizer):
    """The `TransformerTokenizer` class that KerasHub looks for with a `ForeignTransformerBackbone`.

    A preset names the base class, and `from_preset` returns an object of it.
    """

    backbone_cls = ForeignTransformerBackbone


def _validate_config_file(config: dict[str, Any], *names: str) -> None:
    """Raise a `UserError` if a layer has another file in a preset than the expected one.

    KerasHub would write the layer to that file.
    """
    if config.get("config_file", names[0]) not in names:
        raise UserError(
            f"`config_file` must be {' or '.join(map(repr, names))}. "
            f"Received: config_file={config['config_file']!r}"
        )


# Preprocessors


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerSeq2SeqLMPreprocessor(keras_hub.models.Seq2SeqLMPreprocessor):
    """Converts strings to the inputs of a `TransformerBackbone`, and its outputs to strings.

    ```python
    x, y, sample_weight = preprocessor(
        {"encoder_text": ["A dog runs."], "decoder_text": ["Ein Hund rennt."]}
    )
    ```

    Args:
        tokenizer: the `TransformerTokenizer` of the targets, and of the sources if they have no
            other.
        source_tokenizer: the `TransformerTokenizer` of the sources, with its own `config_file`, or
            None.
        encoder_sequence_length: the length that sources are cut and padded to.
        decoder_sequence_length: the length that targets are cut and padded to.
        source_prefix: tokens before each source, as strings.
        target_prefix: tokens that each target begins with, as strings.
        source_end: whether sources end with the end token.
        max_source_length: the largest number of tokens of a source for `kt.Translator`, or None. It
            is stored with the preset. The limit here is `encoder_sequence_length`.
        **kwargs: further arguments of `keras_hub.models.Seq2SeqLMPreprocessor`.

    Call arguments:
        x: a dict of `"encoder_text"` and `"decoder_text"`: strings, lists or tensors of strings.

    Returns:
        The tuple of the model's inputs (a dict of `"encoder_token_ids"` and `"decoder_token_ids"`),
        the next tokens, and weights of 1 for tokens and 0 for padding.

    Raises:
        UserError: if `config_file` is not the default; at the first call, if a token of a prefix is
            not in the vocabulary.
    """

    backbone_cls = TransformerBackbone
    tokenizer_cls = TransformerTokenizer

    def __init__(
        self,
        tokenizer: TransformerTokenizer,
        source_tokenizer: TransformerTokenizer | None = None,
        encoder_sequence_length: int = SEQUENCE_LENGTH,
        decoder_sequence_length: int = SEQUENCE_LENGTH,
        source_prefix: Sequence[str] = (),
        target_prefix: Sequence[str] = (),
        source_end: bool = True,
        max_source_length: int | None = TranslationPreprocessor.max_source_length,
        **kwargs: Any,
    ):
        _validate_config_file(kwargs, PREPROCESSOR)
        super().__init__(tokenizer, encoder_sequence_length, decoder_sequence_length, **kwargs)
        self.source_tokenizer = source_tokenizer  # As an attribute, so that Keras saves it.
        self.texts = TranslationPreprocessor(
            tokenizer,
            source_tokenizer,
            source_prefix,
            target_prefix,
            source_end,
            max_source_length,
        )

    @property
    def encoder_tokenizer(self) -> TransformerTokenizer:
        """The tokenizer of sources."""
        return self.tokenizer if self.source_tokenizer is None else self.source_tokenizer

    def build(self, input_shape: Any) -> None:
        # Not earlier, because KerasHub loads the vocabularies of a preset late.
        self.encoder_packer = _packer(
            self.texts.source_prefix_ids, self.encoder_sequence_length, self.texts.source_end
        )
        self.decoder_packer = _packer(
            [START_ID, *self.texts.target_prefix_ids], self.decoder_sequence_length
        )
        self.built = True

    def call(
        self,
        x: dict[str, Any],
        y: Any = None,
        sample_weight: Any = None,
        *,
        encoder_sequence_length: int | None = None,
        decoder_sequence_length: int | None = None,
        sequence_length: int | None = None,
    ) -> Any:
        length = decoder_sequence_length or sequence_length or self.decoder_sequence_length
        source = self._pack_source(x["encoder_text"], encoder_sequence_length)
        target, is_token = self.decoder_packer(
            self.tokenizer(x["decoder_text"]), sequence_length=length + 1
        )
        inputs = {"encoder_token_ids": source, "decoder_token_ids": target[..., :-1]}
        return keras.utils.pack_x_y_sample_weight(inputs, target[..., 1:], is_token[..., 1:])

    def generate_preprocess(
        self,
        x: Any,
        *,
        encoder_sequence_length: int | None = None,
        decoder_sequence_length: int | None = None,
        sequence_length: int | None = None,
    ) -> dict[str, Tensor]:
        """Convert strings to the arrays that `TransformerSeq2SeqLM.generate_step` takes.

        Args:
            x: strings, or a dict of `"encoder_text"` and `"decoder_text"`, with which the outputs
                begin.
            encoder_sequence_length: the length that sources are cut and padded to.
            decoder_sequence_length: the largest number of tokens of an output, including the start
                token.
            sequence_length: another name of `decoder_sequence_length`.

        Returns:
            A dict of int32 `"encoder_token_ids"` `(batch, source)`, int32 `"decoder_token_ids"`
            `(batch, target)` and bool `"decoder_padding_mask"`, true at the given tokens of
            outputs.
        """
        if not self.built:
            self.build(None)
        if not isinstance(x, dict):
            x = {"encoder_text": x, "decoder_text": self._empty_decoder_text(x)}
        source = self._pack_source(x["encoder_text"], encoder_sequence_length)
        length = decoder_sequence_length or sequence_length or self.decoder_sequence_length
        target, is_token = self.decoder_packer(
            self.tokenizer(x["decoder_text"]), sequence_length=length, add_end_value=False
        )
        return {
            "encoder_token_ids": source,
            "decoder_token_ids": target,
            "decoder_padding_mask": is_token,
        }

    def _pack_source(self, text: Any, length: int | None) -> Tensor:
        token_ids = self.encoder_tokenizer(text)
        length = length or self.encoder_sequence_length
        return self.encoder_packer(token_ids, sequence_length=length)[0]

    def generate_postprocess(self, x: dict[str, Tensor]) -> list[str]:
        """Convert the result of `TransformerSeq2SeqLM.generate_step` to a list of strings.

        Line breaks and tabs become spaces, even if the sources contain them.
        """
        first = 1 + len(self.texts.target_prefix)
        token_ids = ops.convert_to_numpy(x["decoder_token_ids"])[:, first:]
        rows = [[int(i) for i in row if i > END_ID] for row in token_ids]
        return [without_breaks(text) for text in self.tokenizer.detokenize(rows)]

    def get_config(self) -> dict[str, Any]:
        source = self.source_tokenizer
        return {
            **super().get_config(),
            "source_tokenizer": None if source is None else keras.layers.serialize(source),
            "encoder_sequence_length": self.encoder_sequence_length,
            "decoder_sequence_length": self.decoder_sequence_length,
            **self.texts.get_config(),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        source = config.get("source_tokenizer")
        if isinstance(source, dict):
            config = {**config, "source_tokenizer": keras.layers.deserialize(source)}
        return super().from_config(config)


def _packer(start_ids: list[int], sequence_length: int, has_end: bool = True) -> Any:
    return keras_hub.layers.StartEndPacker(
        sequence_length,
        start_value=start_ids or None,
        end_value=END_ID if has_end else None,
        pad_value=PAD_ID,
        return_padding_mask=True,
    )


@keras.saving.register_keras_serializable(package="keras_transformer")
class ParserTransformerSeq2SeqLMPreprocessor(TransformerSeq2SeqLMPreprocessor):
    """The `TransformerSeq2SeqLMPreprocessor` of a `ParserTransformerBackbone`."""

    backbone_cls = ParserTransformerBackbone
    tokenizer_cls = ParserTransformerTokenizer


@keras.saving.register_keras_serializable(package="keras_transformer")
class ForeignTransformerSeq2SeqLMPreprocessor(TransformerSeq2SeqLMPreprocessor):
    """The `TransformerSeq2SeqLMPreprocessor` of a `ForeignTransformerBackbone`."""

    backbone_cls = ForeignTransformerBackbone
    tokenizer_cls = ForeignTransformerTokenizer
