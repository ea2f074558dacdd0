"""SentencePiece's models as messages of protobuf, where more is needed than the library tells."""

from keras_transformer.errors import UserError


def model_proto_class():
    """The class `ModelProto`.

    Raises:
        UserError: if protobuf cannot be used.
    """
    try:
        from sentencepiece.sentencepiece_model_pb2 import ModelProto
    except Exception as error:  # it is not there, or older than what wrote the module
        raise UserError(
            "SentencePiece models are read with the package `protobuf`, which cannot be used "
            f"here ({error}). Install it: pip install 'sentencepiece[protobuf]'"
        ) from error
    return ModelProto
