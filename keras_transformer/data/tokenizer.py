"""SentencePiece: training, loading, saving."""

import io
import random
import re
from pathlib import Path

from keras_transformer.files import whole

PAD_ID, START_ID, END_ID, UNKNOWN_ID = 0, 1, 2, 3
_RESERVED = 4


class Tokenizer:
    """A SentencePiece model whose first ids are 0 padding, 1 start, 2 end and 3 unknown.

    The same proto gives the same ids here, in `keras_nlp.tokenizers.SentencePieceTokenizer` and in
    `tensorflow_text.SentencepieceTokenizer`.

    Args:
        proto: the serialised SentencePiece model.

    Raises:
        ValueError: if `proto` is no SentencePiece model, or reserves other ids.
    """

    def __init__(self, proto):
        import sentencepiece

        self.proto = bytes(proto)
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.proto)
        except RuntimeError as error:
            raise ValueError(
                f"Expected a SentencePiece model. Received {len(self.proto)} bytes that are none: "
                "the file is damaged or of another kind."
            ) from error
        ids = tuple(
            getattr(self._processor, name)() for name in ("pad_id", "bos_id", "eos_id", "unk_id")
        )
        if ids != (PAD_ID, START_ID, END_ID, UNKNOWN_ID):
            raise ValueError(
                "The SentencePiece model must have the ids pad=0, start=1, end=2, unknown=3. "
                f"Received: pad={ids[0]}, start={ids[1]}, end={ids[2]}, unknown={ids[3]}"
            )

    @classmethod
    def train(
        cls,
        sentences,
        vocabulary_size,
        model_type="bpe",
        character_coverage=1.0,
        user_defined_symbols=(),
        max_sentences=None,
        num_threads=16,
    ):
        """Train a vocabulary on an iterable of strings.

        Args:
            sentences: iterable of strings, source and target together for a shared vocabulary.
            vocabulary_size: the number of ids, the four reserved ones included.
            model_type: `"bpe"` (section 5.1), `"unigram"`, `"char"` or `"word"`.
            character_coverage: the share of the text's characters that the vocabulary covers.
            user_defined_symbols: strings that are always one token.
            max_sentences: of more sentences, train on so many, drawn at random, the same ones each
                time. Memory grows with them: by about 0.5 GB for a million.
            num_threads: threads to train with. The vocabulary does not depend on it, but the proto
                records it, so the default is the same on all machines.

        Returns:
            A `Tokenizer`.

        Raises:
            ValueError: if there is no text, or it is too small for `vocabulary_size`.
        """
        import sentencepiece

        if max_sentences is not None and max_sentences < 1:
            raise ValueError(
                f"`max_sentences` must be positive. Received: max_sentences={max_sentences}"
            )
        sentences = _sample(sentences, max_sentences)
        proto = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(sentences),
                model_writer=proto,
                vocab_size=vocabulary_size,
                model_type=model_type,
                character_coverage=character_coverage,
                user_defined_symbols=list(user_defined_symbols),
                pad_id=PAD_ID,
                bos_id=START_ID,
                eos_id=END_ID,
                unk_id=UNKNOWN_ID,
                num_threads=num_threads,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise ValueError(_explain(str(error), vocabulary_size)) from error
        return cls(proto.getvalue())

    @classmethod
    def from_file(cls, path):
        """Load what `save` wrote.

        Raises:
            ValueError: if there is no such file, or it is no SentencePiece model.
        """
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"There is no tokenizer at {path}.")
        try:
            return cls(path.read_bytes())
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error

    def save(self, path):
        """Write the proto to `path`: whole, or not at all."""
        with whole(path) as new:
            new.write_bytes(self.proto)

    @property
    def vocabulary_size(self):
        return self._processor.get_piece_size()

    def ids_of(self, symbols):
        """The ids of strings that are one token each, such as user-defined symbols.

        Raises:
            ValueError: if one of them is no token of the vocabulary.
        """
        token_ids = [self._processor.piece_to_id(symbol) for symbol in symbols]
        if UNKNOWN_ID in token_ids:
            unknown = symbols[token_ids.index(UNKNOWN_ID)]
            raise ValueError(f"The vocabulary has no token {unknown!r}.")
        return token_ids

    def encode(self, sentences):
        """Turn strings into lists of ids, without start and end tokens.

        Args:
            sentences: list of strings.

        Returns:
            A list of lists of ids.
        """
        return self._processor.encode(list(sentences))

    def decode(self, token_ids):
        """Turn ids back into strings; padding, start and end tokens leave no trace.

        Args:
            token_ids: an iterable of sequences of ids, such as an int array `(batch, length)`.

        Returns:
            A list of strings.
        """
        return [self._processor.decode([int(i) for i in ids]) for ids in token_ids]


def _sample(sentences, count):
    """`count` of an iterable's items, each with the same probability, or all if there are fewer."""
    if count is None:
        return sentences
    generator, sample = random.Random(0), []
    # Algorithm R (Vitter, 1985): one pass over what may not fit into memory.
    for index, sentence in enumerate(sentences):
        if index < count:
            sample.append(sentence)
        elif (place := generator.randrange(index + 1)) < count:
            sample[place] = sentence
    return sample


def _explain(message, vocabulary_size):
    limit = re.search(r"<= (\d+)", message)
    if limit:
        return (
            f"The text is too small for a vocabulary of {vocabulary_size}. Choose at most "
            f"{limit[1]}, or give more text."
        )
    if "sentences_.empty" in message:
        return "There is no text to train a vocabulary on."
    return f"SentencePiece could not train a vocabulary of {vocabulary_size}: {message.strip()}"
