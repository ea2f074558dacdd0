import keras
import keras_hub
from keras import ops

from keras_transformer.data.text_lines import without_breaks
from keras_transformer.hub.backbone import TransformerBackbone
from keras_transformer.hub.tokenizer import TransformerTokenizer, check_config_file
from keras_transformer.presets.format import PREPROCESSOR, SEQUENCE_LENGTH
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerSeq2SeqLMPreprocessor(keras_hub.models.Seq2SeqLMPreprocessor):
    """From strings to what a `TransformerBackbone` takes, and back.

    ```python
    x, y, sample_weight = preprocessor(
        {"encoder_text": ["A dog runs."], "decoder_text": ["Ein Hund rennt."]}
    )
    ```

    Args:
        tokenizer: a `TransformerTokenizer`; the target's, if there are two.
        source_tokenizer: that of the source, if it is another; its `config_file` is another too.
        encoder_sequence_length: the length that sources are cut and padded to.
        decoder_sequence_length: the length that targets are cut and padded to.
        source_prefix: tokens that are put before each source, as strings.
        target_prefix: tokens that each target begins with, as strings.
        source_end: whether sources end with the end token.
        **kwargs: further arguments of `keras_hub.models.Seq2SeqLMPreprocessor`.

    Call arguments:
        x: a dict of `"encoder_text"` and `"decoder_text"`: strings, lists or tensors of strings.

    Returns:
        The tuple of the model's inputs (a dict of `"encoder_token_ids"` and `"decoder_token_ids"`),
        the next tokens, and a weight of 1 for tokens and 0 for padding.

    Raises:
        UserError: if `config_file` is another than the default; when first called, if what is to be
            a token of a prefix is none.
    """

    backbone_cls = TransformerBackbone
    tokenizer_cls = TransformerTokenizer

    def __init__(
        self,
        tokenizer,
        source_tokenizer=None,
        encoder_sequence_length=SEQUENCE_LENGTH,
        decoder_sequence_length=SEQUENCE_LENGTH,
        source_prefix=(),
        target_prefix=(),
        source_end=True,
        **kwargs,
    ):
        check_config_file(kwargs, PREPROCESSOR)
        super().__init__(tokenizer, encoder_sequence_length, decoder_sequence_length, **kwargs)
        self.source_tokenizer = source_tokenizer
        self.source_prefix = list(source_prefix)
        self.target_prefix = list(target_prefix)
        self.source_end = source_end

    @property
    def encoder_tokenizer(self):
        """The tokenizer of sources."""
        return self.tokenizer if self.source_tokenizer is None else self.source_tokenizer

    @property
    def source_prefix_ids(self):
        return self.encoder_tokenizer.ids_of(self.source_prefix)

    @property
    def target_prefix_ids(self):
        return self.tokenizer.ids_of(self.target_prefix)

    def build(self, input_shape):
        # Here, and not earlier: the tokenizers of a preset get their vocabularies late.
        self.encoder_packer = _packer(
            self.source_prefix_ids, self.encoder_sequence_length, self.source_end
        )
        self.decoder_packer = _packer(
            [START_ID, *self.target_prefix_ids], self.decoder_sequence_length
        )
        self.built = True

    def call(
        self,
        x,
        y=None,
        sample_weight=None,
        *,
        encoder_sequence_length=None,
        decoder_sequence_length=None,
        sequence_length=None,
    ):
        length = decoder_sequence_length or sequence_length or self.decoder_sequence_length
        source, _ = self.encoder_packer(
            self.encoder_tokenizer(x["encoder_text"]),
            sequence_length=encoder_sequence_length or self.encoder_sequence_length,
        )
        target, is_token = self.decoder_packer(
            self.tokenizer(x["decoder_text"]), sequence_length=length + 1
        )
        inputs = {"encoder_token_ids": source, "decoder_token_ids": target[..., :-1]}
        return keras.utils.pack_x_y_sample_weight(inputs, target[..., 1:], is_token[..., 1:])

    def generate_preprocess(
        self,
        x,
        *,
        encoder_sequence_length=None,
        decoder_sequence_length=None,
        sequence_length=None,
    ):
        """From strings to the arrays that `TransformerSeq2SeqLM.generate_step` takes.

        Args:
            x: strings, or a dict of `"encoder_text"` and `"decoder_text"`, with which the outputs
                begin.
            encoder_sequence_length: the length that sources are cut and padded to.
            decoder_sequence_length: the most tokens of an output, the start token included.
            sequence_length: another name of `decoder_sequence_length`.

        Returns:
            A dict of int32 `"encoder_token_ids"` `(batch, source)`, int32 `"decoder_token_ids"`
            `(batch, target)` and bool `"decoder_padding_mask"`, true at what is given of the
            outputs.
        """
        if not self.built:
            self.build(None)
        if not isinstance(x, dict):
            x = {"encoder_text": x, "decoder_text": self._empty_decoder_text(x)}
        source, _ = self.encoder_packer(
            self.encoder_tokenizer(x["encoder_text"]),
            sequence_length=encoder_sequence_length or self.encoder_sequence_length,
        )
        target, is_token = self.decoder_packer(
            self.tokenizer(x["decoder_text"]),
            sequence_length=decoder_sequence_length
            or sequence_length
            or self.decoder_sequence_length,
            add_end_value=False,
        )
        return {
            "encoder_token_ids": source,
            "decoder_token_ids": target,
            "decoder_padding_mask": is_token,
        }

    def generate_postprocess(self, x):
        """From what `TransformerSeq2SeqLM.generate_step` gives to a list of strings.

        Line breaks and tabs become spaces, even if the sources have them.
        """
        first = 1 + len(self.target_prefix_ids)
        token_ids = ops.convert_to_numpy(x["decoder_token_ids"])[:, first:]
        rows = [[int(i) for i in row if i > END_ID] for row in token_ids]
        return [without_breaks(text) for text in self.tokenizer.detokenize(rows)]

    def get_config(self):
        source = self.source_tokenizer
        return {
            **super().get_config(),
            "source_tokenizer": None if source is None else keras.layers.serialize(source),
            "encoder_sequence_length": self.encoder_sequence_length,
            "decoder_sequence_length": self.decoder_sequence_length,
            "source_prefix": list(self.source_prefix),
            "target_prefix": list(self.target_prefix),
            "source_end": self.source_end,
        }

    @classmethod
    def from_config(cls, config):
        source = config.get("source_tokenizer")
        if isinstance(source, dict):
            config = {**config, "source_tokenizer": keras.layers.deserialize(source)}
        return super().from_config(config)


def _packer(start_ids, sequence_length, has_end=True):
    return keras_hub.layers.StartEndPacker(
        sequence_length,
        start_value=start_ids or None,
        end_value=END_ID if has_end else None,
        pad_value=PAD_ID,
        return_padding_mask=True,
    )
