"""The vocabularies of a CTranslate2 model in our order, as tokenizers."""

from typing import NamedTuple

from keras_transformer.convert.vocabulary import Order, reserve
from keras_transformer.data.sentencepiece_model import (
    CONTROL,
    NORMAL,
    RESERVED,
    new_proto,
    reordered_proto,
)
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.reserved_ids import START_ID

# SentencePiece models that may lie beside the model: the source's and the target's.
_ONE = "tokenizer.spm"
_SENTENCEPIECE = (
    ("source.spm", "target.spm"),
    (_ONE, _ONE),
    ("sentencepiece.model", "sentencepiece.model"),
    ("sentencepiece.bpe.model", "sentencepiece.bpe.model"),
)
_PAD_TOKENS = ("<blank>", "<pad>", "[PAD]")
_SPACE = "▁"


class Side(NamedTuple):
    """The vocabulary of source or target."""

    order: Order
    """Ours of its tokens. A row more than there are stands for zeros."""
    tokens: list[str]
    """Its tokens in its own order."""
    pieces: list[str]
    """What the tokenizer calls them, in ours."""
    tokenizer: Tokenizer

    def pieces_of(self, tokens):
        """What the tokenizer calls some tokens.

        Raises:
            UserError: if the vocabulary has no such token.
        """
        places = {
            self.tokens[row]: place
            for place, row in enumerate(self.order.rows)
            if row < len(self.tokens)
        }
        for token in tokens:
            if token not in places:
                raise UserError(f"The vocabulary has no token {token!r}.")
        return tuple(self.pieces[places[token]] for token in tokens)


def vocabularies(files, folder, target_prefix=()):
    """Both sides' vocabularies.

    Args:
        files: `CTranslate2Files`.
        folder: the folder, with SentencePiece models or without.
        target_prefix: tokens of the target; the first is what the decoder starts with where the
            model does not say it.

    Returns:
        The `Side`s of source and target: of one `Order` if they share one matrix.

    Raises:
        UserError: if a vocabulary has another size than its matrix, or has no such tokens.
    """
    source, target = files.source_vocabulary, files.target_vocabulary
    embeddings = [
        f"{stack}/embeddings{n}/weight" for stack, n in (("encoder", "_0"), ("decoder", ""))
    ]
    for name, tokens in zip(embeddings, (source, target)):
        rows = files.variables.shape(name)[0]
        if rows != len(tokens):
            raise UserError(
                f"{folder}: vocabulary and weights do not belong together. There are {len(tokens)} "
                f"tokens for the {rows} rows of `{name}`."
            )
    target_order = _target_order(files, target_prefix)
    source_order = target_order
    if source != target or not files.variables.are_equal(*embeddings):
        source_order = _order(source, files.config, files.config["bos_token"])
    names = _sentencepiece_names(folder)
    return (
        _side(source_order, source, files.config, folder, names[0]),
        _side(target_order, target, files.config, folder, names[1]),
    )


def _target_order(files, target_prefix):
    start = files.config["decoder_start_token"]
    if start is None and not target_prefix:
        raise UserError(
            "The model does not say which token its decoder starts with. Pass it as the first of "
            "`target_prefix`, before that of a language if it wants one."
        )
    start = target_prefix[0] if start is None else start
    tokens = files.target_vocabulary
    for token in (start, files.config["eos_token"]):
        if token not in tokens:
            raise UserError(f"The target vocabulary has no token {token!r}.")
    order = _order(tokens, files.config, start)
    if not files.variables.scalar("decoder/start_from_zero_embedding", 0):
        return order
    # Whatever it starts with is zeros: a row of them, and the token itself is one like the others.
    order = _order(tokens, files.config, files.config["eos_token"])
    order.rows[START_ID] = len(tokens)
    return order


def _order(tokens, config, start):
    """What a vocabulary lacks of the reserved tokens is a copy of one that it has."""
    places = {token: place for place, token in reversed([*enumerate(tokens)])}
    unknown = places[config["unk_token"]]
    end = places.get(config["eos_token"], unknown)
    pad = next((places[token] for token in _PAD_TOKENS if token in places), unknown)
    return reserve(len(tokens), places.get(start, end), end, unknown, pad)


def _sentencepiece_names(folder):
    """The names of both sides' SentencePiece models; None where there are none."""
    for names in _SENTENCEPIECE:
        if all((folder / name).is_file() for name in names):
            return names
    return None, None


def _side(order, tokens, config, folder, sentencepiece_name):
    names = order.pieces(tokens)
    if sentencepiece_name is not None:
        proto = reordered_proto((folder / sentencepiece_name).read_bytes(), names)
        return Side(order, tokens, names, Tokenizer(proto))
    split = next((token for token in tokens if _SPACE in token), None)
    if split is not None:
        raise UserError(
            f"The tokens of {folder} are those of a SentencePiece model ({split!r}), which is not "
            f"there. Put it there as {_ONE}, or two as {' and '.join(_SENTENCEPIECE[0])}."
        )
    # The start of sentences is never a word, also where the decoder starts with another.
    kinds = [
        (name, CONTROL) if tokens[row] == config["bos_token"] else (_SPACE + name, NORMAL)
        for name, row in zip(names[len(RESERVED) :], order.rows[len(RESERVED) :])
    ]
    tokenizer = Tokenizer(new_proto([(name, 0.0, kind) for name, kind in kinds], "word"))
    return Side(order, tokens, [*RESERVED, *(name for name, _ in kinds)], tokenizer)
