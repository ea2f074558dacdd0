"""Translators into capitals, and others without a model, for the tests of documents."""

import io
import zipfile

from keras_transformer.protection.spans import MarkedText


def upper(texts):
    return [text.upper() for text in texts]


def upper_unit(marked):
    """Return a unit with each letter in upper case whose upper case is one character."""
    text = "".join(x.upper() if len(x.upper()) == 1 else x for x in marked.text)
    return MarkedText(text, marked.spans)


class Upper:
    """A translator into capitals that keeps the places of spans."""

    def translate_units(self, units):
        return [MarkedText(unit.text.upper(), unit.spans) for unit in units]


class Identity:
    def translate_units(self, units):
        return units


def zipped(members, compression=zipfile.ZIP_DEFLATED):
    """Return an archive of pairs of a name and a content."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as new:
        for name, content in members:
            new.writestr(name, content)
    return file.getvalue()
