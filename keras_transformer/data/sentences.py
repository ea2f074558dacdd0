"""The sentences of a paragraph."""

from functools import cache

from keras_transformer.errors import UserError


def split_sentences(text: str) -> list[str]:
    """Splits an English paragraph into sentences, by the rules of pySBD.

    They know abbreviations, initials and decimals, and need no trained model.

    Args:
        text: the paragraph.

    Returns:
        The sentences, without the white space around them; none for a text of white space alone.

    Raises:
        UserError: if pySBD is not installed.
    """
    return [sentence for part in _segmenter().segment(text) if (sentence := part.strip())]


@cache
def _segmenter():
    try:
        import pysbd
    except ImportError as error:
        raise UserError(
            'Splitting into sentences needs pysbd: pip install "keras-transformer[sentences]".'
        ) from error
    return pysbd.Segmenter(language="en", clean=False)
