"""SentencePiece tokenizers: training, loading and saving."""

import hashlib
import io
import logging
import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

from keras_transformer.data.sentencepiece_model import in_our_order
from keras_transformer.data.text_lines import without_surrogates
from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write
from keras_transformer.progress import spinner
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID, UNKNOWN_ID
from keras_transformer.validation import check_choice, check_optional, positive_integer, real_number

Normalization = Literal["nmt_nfkc", "nmt_nfkc_cf", "nfkc", "nfkc_cf", "identity"]  # SentencePiece's
NORMALIZATIONS = get_args(Normalization)
_NORMALIZATION: Normalization = (
    "nmt_nfkc"  # default, unless it changes more than this share of the targets
)
_LARGEST_CHANGE = 0.001
_MODEL_TYPES = ("bpe", "unigram", "char", "word")  # SentencePiece's, too

logger = logging.getLogger(__name__)

_SPACE = "▁"  # SentencePiece's mark before a word
# Characters that a SentencePiece vocabulary cannot learn, and halves of surrogate pairs.
_RESERVED = re.compile("[\0▅\ud800-\udfff]")
_LONGEST = 1000  # characters, with at most four bytes each


@dataclass(kw_only=True)
class VocabularyOptions:
    """Options for the vocabulary (section 5.1)."""

    vocabulary_size: int = 6000
    """Size of the BPE vocabulary that source and target share (section 5.1)."""
    vocabulary_sentences: int = 1_000_000
    """The most sentences to train the vocabulary on, source and target sentences together."""
    vocabulary_type: Literal["bpe", "unigram"] = "bpe"
    """Byte-pair encoding (section 5.1), or a unigram language model (Kudo, 2018)."""
    normalization: Normalization | None = None
    """Normalization of all text: Unicode's NFKC and more for white space (nmt_nfkc), NFKC alone,
    either with case folding (_cf), or none, also of spaces (identity). NFKC turns ，！… into ,!...
    and then only these can be produced. Defaults to nmt_nfkc, and to identity if nmt_nfkc would
    change more than 1 character in 1,000 of the targets."""
    character_coverage: float = 1.0
    """Share of the text's characters that the vocabulary covers: 0.9995, for example, for languages
    with thousands of characters such as Chinese."""
    byte_fallback: bool = False
    """Read and produce characters outside the vocabulary as the bytes of their UTF-8."""

    def validate(self) -> None:
        """Validate the options.

        Raises:
            UserError: if a number is out of its range.
        """
        check_optional(positive_integer, self, "vocabulary_size", "vocabulary_sentences")
        _coverage("character_coverage", self.character_coverage)


def make_tokenizer(
    sentences: Iterable[str],
    options: VocabularyOptions,
    path: str | PathLike,
    keep: bool = False,
    user_defined_symbols: Iterable[str] = (),
    targets: "Iterable[str] | NormalizationChanges" = (),
) -> "Tokenizer":
    """Train the tokenizer of a training and write it to a file, or read the existing file.

    Args:
        sentences: iterable of strings, source and target together for a shared vocabulary.
        options: `VocabularyOptions`.
        path: the file.
        keep: whether to read an existing file, as when a training resumes.
        user_defined_symbols: strings that are always one token.
        targets: iterable of the sentences that the model learns to produce. They determine the
            normalization if the options do not. Or `NormalizationChanges` to which `sentences` adds
            them, so that one pass over a text suffices.

    Returns:
        A `Tokenizer`.

    Raises:
        UserError: if there is no text, it has more characters than the vocabulary can contain, or
            the file is damaged.
    """
    if keep and Path(path).is_file():
        return Tokenizer.from_file(path)
    sample = _sample(sentences, options.vocabulary_sentences)
    with spinner("reading the sentences for the vocabulary"):
        first = [*islice(sample, 1)]  # after a pass over all sentences
        changes = targets if isinstance(targets, NormalizationChanges) else NormalizationChanges()
        if not (options.normalization or isinstance(targets, NormalizationChanges)):
            for target in targets:
                changes.add(target)
    tokenizer = Tokenizer.train(
        chain(first, sample),
        options.vocabulary_size,
        model_type=options.vocabulary_type,
        character_coverage=options.character_coverage,
        user_defined_symbols=user_defined_symbols,
        max_sentences=options.vocabulary_sentences,
        normalization=options.normalization or changes.normalization(),
        byte_fallback=options.byte_fallback,
    )
    tokenizer.save(path)
    return tokenizer


class Tokenizer:
    """A SentencePiece model whose first ids are 0 padding, 1 start, 2 end and 3 unknown.

    The same proto yields the same ids here, in `keras_hub.tokenizers.SentencePieceTokenizer` and in
    `tensorflow_text.SentencepieceTokenizer`.

    Args:
        proto: the serialized SentencePiece model.

    Raises:
        UserError: if `proto` is not a SentencePiece model, or reserves other ids.
    """

    # The class that a preset names, and the file that `save` and `from_file` write and read.
    preset_class, preset_file = "TransformerTokenizer", "vocabulary.spm"

    def __init__(self, proto: bytes):
        import sentencepiece

        self.proto = bytes(proto)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.proto)
        except RuntimeError as error:
            raise UserError(
                f"Expected a SentencePiece model. Received: {len(self.proto)} bytes of a damaged "
                "file or of another kind of file"
            ) from error
        ids = tuple(
            getattr(self._processor, name)() for name in ("pad_id", "bos_id", "eos_id", "unk_id")
        )
        if ids != (PAD_ID, START_ID, END_ID, UNKNOWN_ID):
            raise UserError(
                "The SentencePiece model must have the ids pad=0, start=1, end=2, unknown=3. "
                f"Received: pad={ids[0]}, start={ids[1]}, end={ids[2]}, unknown={ids[3]}. "
                "`Tokenizer.from_sentencepiece` reorders any model."
            )

    def __repr__(self) -> str:
        return f"<Tokenizer: {self.vocabulary_size:,} tokens of SentencePiece>"

    @classmethod
    def train(
        cls,
        sentences: Iterable[str],
        vocabulary_size: int,
        model_type: str = "bpe",
        character_coverage: float = 1.0,
        user_defined_symbols: Iterable[str] = (),
        max_sentences: int | None = None,
        num_threads: int = 16,
        normalization: str = _NORMALIZATION,
        byte_fallback: bool = False,
    ) -> "Tokenizer":
        """Train a vocabulary on an iterable of strings.

        Args:
            sentences: iterable of strings, source and target together for a shared vocabulary.
            vocabulary_size: the number of ids, including the four reserved ones. If the text is too
                small, there are fewer, which is logged as a warning.
            model_type: `"bpe"` (section 5.1), `"unigram"`, `"char"` or `"word"`.
            character_coverage: the share of the text's characters that the vocabulary covers.
            user_defined_symbols: strings that are always one token.
            max_sentences: the most sentences to train on. A larger text is sampled, with a fixed
                seed. Memory grows by about 0.5 GB per million sentences. Defaults to no limit.
            num_threads: number of threads. The vocabulary does not depend on it, but the proto
                records it, so the default is the same on all machines.
            normalization: SentencePiece's rule for normalizing all text, which the proto records:
                `"nmt_nfkc"`, `"nmt_nfkc_cf"`, `"nfkc"`, `"nfkc_cf"` or `"identity"`. Characters
                that it replaces can never be produced. With `"identity"`, all text is restored
                exactly, except for `▁`, which stands for a space in SentencePiece.
            byte_fallback: whether characters outside the vocabulary become the bytes of their
                UTF-8, 256 tokens of the vocabulary, instead of the unknown token.

        Returns:
            A `Tokenizer`.

        Raises:
            UserError: if there is no text, it has more characters than `vocabulary_size`, or an
                argument is out of its range.
        """
        import sentencepiece

        positive_integer("vocabulary_size", vocabulary_size)
        if max_sentences is not None:
            positive_integer("max_sentences", max_sentences)
        check_choice("model_type", model_type, _MODEL_TYPES)
        check_choice("normalization", normalization, NORMALIZATIONS)
        _coverage("character_coverage", character_coverage)
        sentences = _readable(_sample(sentences, max_sentences))
        proto = io.BytesIO()
        try:
            with spinner("training the vocabulary"):
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=iter(sentences),
                    model_writer=proto,
                    vocab_size=vocabulary_size,
                    hard_vocab_limit=False,
                    model_type=model_type,
                    character_coverage=character_coverage,
                    user_defined_symbols=list(user_defined_symbols),
                    pad_id=PAD_ID,
                    bos_id=START_ID,
                    eos_id=END_ID,
                    unk_id=UNKNOWN_ID,
                    num_threads=num_threads,
                    normalization_rule_name=normalization,
                    byte_fallback=byte_fallback,
                    # With "identity", spaces are not changed either.
                    remove_extra_whitespaces=normalization != "identity",
                    minloglevel=2,
                )
        except RuntimeError as error:
            raise UserError(_explain(str(error), vocabulary_size)) from error
        tokenizer = cls(proto.getvalue())
        if tokenizer.vocabulary_size < vocabulary_size:
            logger.warning(
                "The text is too small for a vocabulary of %s: there are %s tokens.",
                f"{vocabulary_size:,}",
                f"{tokenizer.vocabulary_size:,}",
            )
        return tokenizer

    @classmethod
    def from_file(cls, path: str | PathLike) -> "Tokenizer":
        """Load a tokenizer that `save` has written.

        Args:
            path: the file.

        Returns:
            A `Tokenizer`.

        Raises:
            UserError: if the file does not exist, or is not a SentencePiece model.
        """
        path = Path(path)
        if not path.is_file():
            raise UserError(f"Cannot find the tokenizer {path}. Check the path.")
        try:
            return cls(path.read_bytes())
        except ValueError as error:
            raise UserError(f"{path}: {error}") from error

    @classmethod
    def from_sentencepiece(cls, path: str | PathLike) -> "Tokenizer":
        """Load any SentencePiece model, and give its tokens the ids that this package needs.

        ```python
        tokenizer = kt.data.Tokenizer.from_sentencepiece("spm.model")  # unknown 0, start 1, end 2
        tokenizer.save("tokenizer.spm")
        ```

        The padding, start, end and unknown tokens come first, and are added if they are missing.
        The other tokens keep their order, and text is split into the same tokens as before. Because
        the ids differ, a model that was trained with the original ids does not fit (see
        `kt.convert`).

        Args:
            path: the file, which is not changed.

        Returns:
            A `Tokenizer`.

        Raises:
            UserError: if the file does not exist or is not a SentencePiece model, or the package
                `protobuf` is not installed.
        """
        path = Path(path)
        if not path.is_file():
            raise UserError(f"Cannot find the SentencePiece model {path}. Check the path.")
        try:
            return cls(in_our_order(path.read_bytes()))
        except UserError as error:
            raise UserError(f"{path}: {error}") from error

    def save(self, path: str | PathLike) -> None:
        """Write the proto to `path`, completely or not at all.

        Args:
            path: the file.
        """
        with atomic_write(path) as new:
            new.write_bytes(self.proto)

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of the proto."""
        return hashlib.sha256(self.proto).hexdigest()

    @property
    def vocabulary_size(self) -> int:
        return self._processor.get_piece_size()

    @property
    def word_start_ids(self) -> list[int]:
        """The ids of the tokens that begin a word, as a list."""
        pieces = map(self._processor.id_to_piece, range(self.vocabulary_size))
        return [token_id for token_id, piece in enumerate(pieces) if piece.startswith(_SPACE)]

    @cached_property
    def _space_ids(self) -> set[int]:
        """The ids of tokens that consist of spaces; with `"identity"`, some have several."""
        pieces = map(self._processor.id_to_piece, range(self.vocabulary_size))
        return {i for i, piece in enumerate(pieces) if piece and not piece.strip(_SPACE)}

    def tokens_to_ids(self, symbols: Sequence[str]) -> list[int]:
        """Return the ids of strings that are one token each, such as user-defined symbols.

        Args:
            symbols: list of strings.

        Returns:
            A list of integers.

        Raises:
            UserError: if one of them is not a token of the vocabulary.
        """
        token_ids = [self._processor.piece_to_id(symbol) for symbol in symbols]
        if UNKNOWN_ID in token_ids:
            unknown = symbols[token_ids.index(UNKNOWN_ID)]
            raise UserError(f"The vocabulary has no token {unknown!r}.")
        return token_ids

    def tokens(self, sentence: str) -> list[str]:
        """Return the tokens of a sentence as strings, such as `"▁dog"`.

        Args:
            sentence: a string.
        """
        return self._processor.encode(without_surrogates(sentence), out_type=str)

    def encode(self, sentences: Iterable[str]) -> list[list[int]]:
        """Convert strings to lists of ids, without start and end tokens.

        Args:
            sentences: list of strings.

        Returns:
            A list of lists of ids.
        """
        return self._processor.encode([*map(without_surrogates, sentences)])

    def ids_to_tokens(self, token_ids: Iterable[int]) -> list[str]:
        """Return the tokens with these ids, as the vocabulary spells them: a list of strings.

        Args:
            token_ids: iterable of ids.
        """
        return [self._processor.id_to_piece(int(token_id)) for token_id in token_ids]

    def is_unknown(self, token_ids: Iterable[int]) -> bool:
        """Return whether a text has no known token, such as Chinese for a German vocabulary.

        Args:
            token_ids: the text's ids, as `encode` returns them.

        Returns:
            Whether all of its tokens are the unknown token, apart from spaces. False if there are
            no others.
        """
        return {*token_ids} - self._space_ids == {UNKNOWN_ID}

    def decode(self, token_ids: Iterable[Iterable[int]]) -> list[str]:
        """Convert ids back to strings, without padding, start and end tokens.

        Args:
            token_ids: an iterable of sequences of ids, such as an int array `(batch, length)`.

        Returns:
            A list of strings.
        """
        return [self._processor.decode([int(i) for i in ids]) for ids in token_ids]


def _coverage(name: str, value: float) -> float:
    return real_number(name, value, lambda x: 0.98 <= x <= 1, "from 0.98 to 1")


class NormalizationChanges:
    """The number of characters of sentences that the default normalization would change."""

    def __init__(self) -> None:
        import sentencepiece

        self._num_characters = self._num_changed = 0
        self._normalizer = sentencepiece.SentencePieceNormalizer(
            rule_name=_NORMALIZATION,
            # Do not count the marks before words, and single spaces, as changes.
            add_dummy_prefix=False,
            escape_whitespaces=False,
            remove_extra_whitespaces=False,
        )

    def add(self, sentence: str) -> str:
        """Count the changes of a sentence, and return it unchanged."""
        text = without_surrogates(sentence)
        self._num_characters += len(text)
        if (normalized := self._normalizer.normalize(text)) != text:
            self._num_changed += (Counter(text) - Counter(normalized)).total()
        return sentence

    def normalization(self) -> Normalization:
        """Return the default normalization, or `"identity"` if the changes are too many."""
        if self._num_changed <= _LARGEST_CHANGE * self._num_characters:
            return _NORMALIZATION
        logger.info(
            "%s would change %.2f%% of the characters of the targets, so text is not normalized: "
            "`normalization=identity`.",
            _NORMALIZATION,
            100 * self._num_changed / self._num_characters,
        )
        return "identity"


def _sample(sentences: Iterable[str], count: int | None) -> Iterator[str]:
    """Yield a uniform sample of `count` items, or all items if there are fewer.

    Items are released as they are yielded: SentencePiece keeps its own copy.
    """
    if count is None:
        yield from sentences
        return
    generator, sample = random.Random(0), []
    # Algorithm R (Vitter, 1985): one pass over items that may not fit into memory.
    for index, sentence in enumerate(sentences):
        if index < count:
            sample.append(sentence)
        elif (place := generator.randrange(index + 1)) < count:
            sample[place] = sentence
    sample.reverse()
    while sample:
        yield sample.pop()


def _readable(sentences: Iterable[str]) -> Iterator[str]:
    """Split lines that SentencePiece would silently drop.

    In training it drops lines with more than 4,192 bytes, or with a character that it reserves.
    """
    for sentence in sentences:
        for part in _RESERVED.split(sentence):
            for start in range(0, len(part), _LONGEST):
                yield part[start : start + _LONGEST]


def _explain(message: str, vocabulary_size: int) -> str:
    if characters := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return (
            f"`vocabulary_size` must be greater than {characters[1]}, the number of characters in "
            f"the text. Received: vocabulary_size={vocabulary_size}. Pass more, or a "
            "`character_coverage` of less than 1, such as 0.9995, with `byte_fallback` for the "
            "other characters."
        )
    if "sentences_.empty" in message or "(all_chars_count) > (0)" in message:
        return "`sentences` must contain text to train a vocabulary on. Received: no text"
    return f"Cannot train a vocabulary of {vocabulary_size} tokens: {message.strip()}"
