from typing import Any

import keras
import keras_hub

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.hub.backbone import ParserTransformerBackbone, TransformerBackbone
from keras_transformer.presets.location import SOURCE_TOKENIZER, TOKENIZER
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID

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
        check_config_file(kwargs, *(f"{name}.json" for name in (TOKENIZER, SOURCE_TOKENIZER)))
        for name in _SPECIAL:
            self._add_special_token(None, name)
        super().__init__(proto=proto, **kwargs)

    def _update_special_token_ids(self):
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


def check_config_file(config: dict[str, Any], *names: str) -> None:
    """Raise a `UserError` if a layer has another file in a preset than the expected one.

    KerasHub would write the layer to that file.
    """
    if config.get("config_file", names[0]) not in names:
        raise UserError(
            f"`config_file` must be {' or '.join(map(repr, names))}. "
            f"Received: config_file={config['config_file']!r}"
        )
