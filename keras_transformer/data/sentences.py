"""The sentences of a paragraph."""

from functools import cache
from itertools import pairwise

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
    # Only where a sentence begins is taken from pySBD, which drops what holds a character that it
    # has a use of its own for, such as a musical note.
    starts, end = [], 0
    for part in map(str.strip, _segmenter().segment(text)):
        start = text.find(part, end)
        if part and start >= 0:
            starts.append(start)
            end = start + len(part)
    cuts = [0, *starts[1:], len(text)]
    return [sentence for span in pairwise(cuts) if (sentence := text[slice(*span)].strip())]


@cache
def _segmenter():
    try:
        import pysbd
    except ImportError as error:
        raise UserError(
            'Splitting into sentences needs pysbd: pip install "keras-transformer[sentences]".'
        ) from error
    return pysbd.Segmenter(language="en", clean=False)
