"""Corpora fetched from their public addresses."""

import gzip
import hashlib
import logging
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from keras_transformer.data.text_files import open_bytes
from keras_transformer.errors import UserError

MULTI30K_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1"

# Of the texts themselves, decompressed: a newly compressed copy of the same text is as good.
MULTI30K_SHA256 = {
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    "train.lc.norm.tok.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "train.lc.norm.tok.fr": "8fa41bb718412bcb7c5dfa58603842810a01543eae86a51279f9886b901266e1",
    "val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "val.lc.norm.tok.fr": "b303e301aa21fe7822a846b2b3fb2d5a1121ec807cd5b1d006fb7b2b5507168a",
    "test_2016_flickr.lc.norm.tok.en": (
        "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2"
    ),
    "test_2016_flickr.lc.norm.tok.de": (
        "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4"
    ),
    "test_2016_flickr.lc.norm.tok.fr": (
        "1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836"
    ),
}

# The names of newstest2013 and newstest2014 in sacreBLEU. Its plain "wmt14" is the filtered set of
# 2,737 sentences; the paper, like most since, reports on all 3,003.
NEWSTEST = {"val": "wmt13", "test": "wmt14/full"}


def fetch_multi30k(file_name: str) -> Path:
    """Returns a file of Multi30k, downloaded into the Keras cache unless it is there already.

    The raw texts are published compressed and are kept so: read them with `open_bytes`.

    Args:
        file_name: name of the plain text, such as `"train.en"` or `"val.lc.norm.tok.de"`.

    Returns:
        Path of the file, plain or `.gz`.

    Raises:
        UserError: if the file cannot be fetched, or is not the text it should be.
    """
    if ".lc.norm.tok." in file_name:
        url = f"{MULTI30K_URL}/tok/{file_name}"
    else:
        url = f"{MULTI30K_URL}/raw/{file_name}.gz"
    return _fetch(url, MULTI30K_SHA256[file_name], corpus="Multi30k")


def fetch_newstest(split: str, source: str, target: str) -> tuple[Path, Path]:
    """Returns newstest2013 (`"val"`) or newstest2014 (`"test"`) from sacreBLEU's own data sets.

    Args:
        split: `"val"` or `"test"`.
        source: language code of the source.
        target: language code of the target.

    Returns:
        Paths of the source text and of its reference translation, in sacreBLEU's cache.

    Raises:
        UserError: if sacreBLEU has no such language pair, or the download fails.
    """
    from sacrebleu.dataset import DATASETS
    from sacrebleu.utils import SACREBLEU_DIR

    name = NEWSTEST[split]
    test_set, pair = DATASETS[name], f"{source}-{target}"
    if pair not in test_set.langpairs:
        raise UserError(
            f"sacreBLEU's {name!r} has no language pair {pair}; "
            f"it has {', '.join(sorted(test_set.langpairs))}. Choose one of these, or pass the "
            f"folder that holds {split}.{source} and {split}.{target} with `data_dir`."
        )
    try:
        with _silenced(logging.getLogger("sacrebleu")):
            (reference,) = test_set.get_reference_files(pair)
            return Path(test_set.get_source_file(pair)), Path(reference)
    except (Exception, SystemExit) as error:
        cache = Path(SACREBLEU_DIR, name)
        if isinstance(error, SystemExit):
            # sacreBLEU exits over a wrong checksum, but would trust the file it kept next time.
            shutil.rmtree(cache / "raw", ignore_errors=True)
        raise UserError(
            f"wmt14: sacreBLEU could not fetch {name!r} ({_one_line(error)}). Check the network, "
            f"delete {cache} if an earlier download broke off, or pass the folder that holds "
            f"{split}.{source} and {split}.{target} with `data_dir`."
        ) from None


def _fetch(url: str, sha256: str, corpus: str) -> Path:
    # Imported here: reading local files needs no Keras.
    import keras

    advice = "pass the folder that holds the corpus with `data_dir`"
    file_name = url.rpartition("/")[2]
    subdirectory = f"datasets/{corpus.lower()}"
    try:
        path = Path(keras.utils.get_file(file_name, origin=url, cache_subdir=subdirectory))
    except Exception as error:  # Keras raises a bare Exception: "URL fetch failure on … -- reason".
        reason = _one_line(error).rpartition(" -- ")[2]
        raise UserError(
            f"{corpus}: could not fetch {url} ({reason}). Check the network, or {advice}."
        ) from None
    # Checked at every use, not only after the download, as a download that was killed leaves the
    # beginning of a file under the name of the whole.
    if _sha256(path) != sha256:
        path.unlink()
        raise UserError(
            f"{corpus}: the text fetched from {url} is not the expected one (its SHA-256 differs); "
            f"the file is deleted. Run again to download it anew, or {advice}."
        )
    return path


def _sha256(path: Path) -> str | None:
    """The digest of a file's (decompressed) bytes; None if it is no whole gzip file."""
    try:
        with open_bytes(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return None


def _one_line(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return "broken download or refused certificate"
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def _silenced(logger: logging.Logger) -> Iterator[None]:
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
