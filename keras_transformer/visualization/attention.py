"""The attention weights of a sentence, and the alignment that follows from them."""

import operator
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write
from keras_transformer.models.transformer import Transformer
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID

if TYPE_CHECKING:
    from keras_transformer.parsing.constituency_parser import ConstituencyParser
    from keras_transformer.translation.translator import Translator

# The three attentions of section 3.2.3, and what they are called.
KINDS = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Encoder-decoder attention",
}
_RESERVED = {PAD_ID: "<pad>", START_ID: "<s>", END_ID: "</s>"}
_SPACE = "▁"  # SentencePiece's mark before a word


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention weights with which outputs were predicted of a source.

    A notebook shows it as the page that `save("attention.html")` writes.

    Attributes:
        source_tokens: list of strings.
        target_tokens: list of strings: the tokens that were predicted, the end token included.
        input_tokens: list of strings, as many: what the decoder read, the start token and then all
            but the last of `target_tokens`.
        encoder: float32 array `(num_layers, num_heads, source, source)`.
        decoder: float32 array `(num_layers, num_heads, target, target)`: from what the decoder read
            to what it read before.
        cross: float32 array `(num_layers, num_heads, target, source)`: row j is of the position
            whose next token is `target_tokens[j]`.
    """

    source_tokens: list[str]
    target_tokens: list[str]
    input_tokens: list[str]
    encoder: np.ndarray = field(repr=False)
    decoder: np.ndarray = field(repr=False)
    cross: np.ndarray = field(repr=False)

    def of_kind(self, kind: str) -> tuple[list[str], list[str], np.ndarray]:
        """The tokens that look, the tokens that they look at, and the weights between them.

        Args:
            kind: `"encoder"`, `"decoder"` or `"cross"`.

        Returns:
            Two lists of strings, and a float32 array `(num_layers, num_heads, queries, keys)`.

        Raises:
            UserError: if there is no such kind.
        """
        if kind not in KINDS:
            raise UserError(f"`kind` must be one of {', '.join(KINDS)}. Received: kind={kind!r}")
        queries, keys = {
            "encoder": (self.source_tokens, self.source_tokens),
            "decoder": (self.input_tokens, self.input_tokens),
            "cross": (self.target_tokens, self.source_tokens),
        }[kind]
        return queries, keys, getattr(self, kind)

    def save(self, path: str | os.PathLike) -> None:
        """Write the interactive page: a file of HTML that needs nothing but itself."""
        from keras_transformer.visualization.pages import attention_page

        with atomic_write(path) as new:
            new.write_text(attention_page(self), "utf-8")

    def _repr_html_(self):
        from keras_transformer.visualization.pages import attention_page, framed

        return framed(attention_page(self))


def attention_weights(
    model: "Transformer | Translator | ConstituencyParser",
    source: str | Sequence,
    target: Any = None,
) -> Attention:
    """Every layer's and head's attention weights for one sentence (section 3.2.3).

    ```python
    translator = kt.Translator.from_preset("saved_models/multi30k_en_de")
    attention = kt.attention_weights(translator, "A dog runs.", "Ein Hund rennt.")
    attention = kt.attention_weights(translator, "A dog runs.")  # of what it translates to
    attention = kt.attention_weights(model, [5, 6, 2], [7, 8, 2])  # of a `Transformer` alone
    attention.cross[-1].mean(axis=0)  # of the last layer: (target, source)
    ```

    They are noted while the model computes its logits for the pair: rows sum to 1, and are exactly
    0 at later positions, at padding and outside of an `attention_window`.

    Args:
        model: a `Translator`, a `ConstituencyParser` or a `Transformer`.
        source: one sentence: a string; to a parser also a list of words; to a `Transformer` a list
            of token ids.
        target: what is to be predicted of it: a string; to a parser a tree; to a `Transformer` a
            list of token ids as a search gives them, without the start token. Defaults to what the
            task's search finds, or to the `Transformer`'s greedy search.

    Returns:
        An `Attention`. Tokens of a `Transformer` alone are their ids, as strings.

    Raises:
        UserError: if source or target are of another type, empty, or no ids of the model's.
    """
    if isinstance(model, Transformer):
        source, target = _ids_of_model(model, source, target)
        names = [_RESERVED.get(i, str(i)) for i in (*source, *target)]
        return of_ids(model, source, target, names[: len(source)], names[len(source) :])
    if target is None:
        source, (token_ids, _) = model.search_sentence(source)
        target = ops.convert_to_numpy(token_ids)[0, 0].tolist()
        target = [i for i in target if i != PAD_ID]
        if not target:
            raise UserError("The search finds no output of this sentence. Pass a `target`.")
    else:
        source, target = model.source_ids(source), model.output_ids(target)
    return of_task(model, source, target)


def of_task(
    task: "Translator | ConstituencyParser", source: Sequence[int], target: Sequence[int]
) -> Attention:
    """As `attention_weights`, of the token ids of a task's model."""
    return of_ids(
        task.model,
        source,
        target,
        plain_tokens(task.source_tokenizer.tokens_of(source)),
        plain_tokens(task.output_tokens(target)),
    )


def of_ids(
    model: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    source_tokens: list[str],
    target_tokens: list[str],
) -> Attention:
    """As `attention_weights`, of a `Transformer`, with names of the tokens."""
    inputs = [START_ID, *target[:-1]]
    weights = run_compiled(_attention, model, np.array([inputs]), np.array([source]))
    return Attention(
        source_tokens,
        target_tokens,
        [_RESERVED[START_ID], *target_tokens[:-1]],
        **{kind: ops.convert_to_numpy(values)[0] for kind, values in weights.items()},
    )


@dataclass(frozen=True)
class Alignment:
    """A table: `print` shows it as text, a notebook as HTML.

    Attributes:
        rows: list of `(target token, source token, weight)`, one of each target token: the source
            token that is looked at most when it is predicted, and the weight of that.
        places: list of the source tokens' positions.
    """

    rows: list[tuple[str, str, float]]
    places: list[int]

    def __str__(self):
        widest = max((len(target) for target, _, _ in self.rows), default=0)
        return "\n".join(
            f"{target:>{widest}}  {weight:4.2f}  {source}" for target, source, weight in self.rows
        )

    def _repr_html_(self):
        rows = "".join(
            f"<tr><td>{escape(target)}</td><td>{escape(source)}</td><td>{weight:.2f}</td>"
            f'<td><meter min="0" max="1" value="{weight:.3f}"></meter></td></tr>'
            for target, source, weight in self.rows
        )
        head = "<tr><th>predicted</th><th>looking at</th><th colspan=2>weight</th></tr>"
        return f'<table class="alignment">{head}{rows}</table>'


def alignment(
    attention: Attention, layer: int = -1, heads: Sequence[int] | None = None
) -> Alignment:
    """Align each output token with the source token that is looked at most.

    ```python
    print(alignment(kt.attention_weights(translator, "A dog runs.")))
    ```

    Args:
        attention: an `Attention`.
        layer: number of the layer of the decoder; -1 is the last.
        heads: list of numbers of heads, over which weights are averaged. Defaults to all.

    Returns:
        An `Alignment`.

    Raises:
        UserError: if there is no such layer or head.
    """
    num_layers, num_heads = attention.cross.shape[:2]
    (layer,) = numbers("layer", [layer], num_layers)
    heads = numbers("heads", range(num_heads) if heads is None else heads, num_heads)
    weights = attention.cross[layer, heads].mean(axis=0)
    places = weights.argmax(axis=1).tolist()
    rows = [
        (target, attention.source_tokens[place], float(row[place]))
        for target, place, row in zip(attention.target_tokens, places, weights)
    ]
    return Alignment(rows, places)


def plain_tokens(tokens: Iterable[str]) -> list[str]:
    """Tokens without SentencePiece's marks of spaces, where something is left."""
    return [token.removeprefix(_SPACE) or token for token in tokens]


def numbers(name: str, values: int | Iterable[int], size: int) -> list[int]:
    """Numbers of layers or heads as a list, all from 0 on.

    Raises:
        UserError: if there are none, or one is too large.
    """
    values = [values] if isinstance(values, int) else list(values)
    wrong = [value for value in values if value not in range(-size, size)]
    if wrong or not values:
        received = wrong[0] if wrong else values
        raise UserError(f"`{name}` must be from 0 to {size - 1}. Received: {name}={received}")
    return [value % size for value in values]


def _attention(model, decoder_token_ids, encoder_token_ids):
    weights = model.attention(decoder_token_ids, encoder_token_ids)
    return {kind: ops.cast(values, "float32") for kind, values in weights.items()}


def _ids_of_model(model, source, target):
    source = _checked("source", source, model.encoder.token_embedding.input_dim)
    if target is None:
        token_ids, _ = BeamSearch.greedy()(model, np.array([source]))
        target = [i for i in ops.convert_to_numpy(token_ids).ravel().tolist() if i != PAD_ID]
    return source, _checked("target", target, model.config.vocabulary_size)


def _checked(name, token_ids, size):
    try:
        token_ids = [operator.index(token_id) for token_id in token_ids]
    except TypeError:
        raise UserError(
            f"To a `Transformer`, `{name}` must be a list of the token ids of one sentence. "
            f"Received: {name}={token_ids!r}"
        ) from None
    if not any(token_ids) or not all(0 <= token_id < size for token_id in token_ids):
        raise UserError(
            f"`{name}` must be ids from 0 to {size - 1}, one at least that is no padding. "
            f"Received: {name}={token_ids}"
        )
    return token_ids
