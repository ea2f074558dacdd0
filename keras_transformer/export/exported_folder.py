"""Exported folders: their mark, by which the next export may replace one, and their tokenizers."""

import contextlib
import functools
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from keras_transformer.convert.foreign_transformer import ForeignConfig, foreign_values
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.files import FolderKind, atomic_write_folder, read_json
from keras_transformer.presets.format import Preset, write_json
from keras_transformer.presets.location import EXPORT_MARK

TOKENIZER_FILES = "tokenizer.spm", "source.spm", "target.spm"


@contextlib.contextmanager
def exported_folder(path: str | Path, format: str, names: Sequence[str]) -> Iterator[Path]:
    """Write an exported folder, completely or not at all, and mark it as one.

    Args:
        path: the folder.
        format: name of the format, as in `formats.export`.
        names: patterns of the files that the format has, as in `FolderKind`.

    Raises:
        UserError: immediately, if `path` contains anything but an earlier export to this format.
    """
    is_marked = functools.partial(_is_marked, format=format)
    kind = FolderKind(f"an export to {format}", (*names, EXPORT_MARK), is_marked)
    with atomic_write_folder(path, kind) as folder:
        yield folder
        write_json(folder / EXPORT_MARK, {"library": "keras_transformer", "format": format})


def _is_marked(folder: Path, format: str) -> bool:
    try:
        mark = read_json(folder / EXPORT_MARK)
    except (UserError, OSError):
        return False
    return isinstance(mark, dict) and mark.get("format") == format


def validate_foreign_values(
    config: ForeignConfig, format_name: str, supported: Collection[str]
) -> None:
    """Raise a `UserError` if a model has hyperparameters that a format lacks.

    Args:
        config: the `ForeignConfig`.
        format_name: name of the format, for the error.
        supported: the hyperparameters of a `ForeignTransformer` that the format has.
    """
    for name, value in foreign_values(config.to_dict()).items():
        if name not in supported:
            raise UserError(
                f"{format_name} only supports {name}={config.defaults()[name]!r}. "
                f"Received a model with {name}={value!r}"
            )


def validate_tokenizers(preset: Preset) -> None:
    """Raise a `UserError` if a tokenizer is not a SentencePiece model."""
    for tokenizer in (preset.source_tokenizer, preset.tokenizer):
        if not hasattr(tokenizer, "proto"):
            raise UserError(
                f"Exporting needs SentencePiece tokenizers. Received: {type(tokenizer).__name__}"
            )


def token_pieces(tokenizer: Tokenizer) -> list[str]:
    """Return the tokens in the order of their ids."""
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.proto)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def save_tokenizers(preset: Preset, folder: Path) -> None:
    """Write `tokenizer.spm`, or `source.spm` and `target.spm` if each side has its own."""
    source, target = preset.source_tokenizer, preset.tokenizer
    if source.proto == target.proto:
        target.save(folder / "tokenizer.spm")
    else:
        source.save(folder / "source.spm")
        target.save(folder / "target.spm")
