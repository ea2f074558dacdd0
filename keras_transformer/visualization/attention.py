"""The attention weights of a sentence, and the alignment that follows from them."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.decoding.static_fields import validate_integers
from keras_transformer.errors import UserError
from keras_transformer.models.transformer import Transformer
from keras_transformer.reserved_ids import END_ID, PAD_ID, START_ID
from keras_transformer.visualization.drawing import colors, filled, in_frame, page, save

if TYPE_CHECKING:
    from keras_transformer.parsing.constituency_parser import ConstituencyParser
    from keras_transformer.translation.translator import Translator

# The three attentions of section 3.2.3, and their titles.
KINDS = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Encoder-decoder attention",
}
_RESERVED = {PAD_ID: "<pad>", START_ID: "<s>", END_ID: "</s>"}
_SPACE = "▁"  # SentencePiece's mark before a word


@dataclass(frozen=True, eq=False)
class Attention:
    """The attention weights of a source and an output.

    A notebook displays it as the page that `save("attention.html")` writes.

    Attributes:
        source_tokens: list of strings.
        target_tokens: list of strings: the predicted tokens, the end token included.
        input_tokens: list of strings: the input of the decoder, which is the start token and all
            but the last of `target_tokens`.
        encoder: float32 array `(num_layers, num_heads, source, source)`.
        decoder: float32 array `(num_layers, num_heads, target, target)`, between input tokens of
            the decoder.
        cross: float32 array `(num_layers, num_heads, target, source)`: row j belongs to the
            position that predicts `target_tokens[j]`.
    """

    source_tokens: list[str]
    target_tokens: list[str]
    input_tokens: list[str]
    encoder: np.ndarray = field(repr=False)
    decoder: np.ndarray = field(repr=False)
    cross: np.ndarray = field(repr=False)

    def of_kind(self, kind: str) -> tuple[list[str], list[str], np.ndarray]:
        """Return the query tokens, the key tokens, and the weights between them.

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
        """Write the interactive page, a self-contained HTML file.

        Raises:
            UserError: if the path does not end with .html.
        """
        save(path, html=lambda: attention_page(self))

    def _repr_html_(self) -> str:
        return in_frame(attention_page(self))


def attention_page(attention: Attention, title: str = "Attention") -> str:
    """Return an interactive page that shows the attention of words, by layer and head.

    Args:
        attention: an `Attention`.
        title: the title of the page.

    Returns:
        A string of HTML. It loads no other files, and follows the light or dark scheme of the
        reader's system. Weights are rounded to thousandths.
    """
    return page(title, [attention_section(attention)])


def attention_section(attention: Attention) -> str:
    """Return the HTML section that shows an `Attention`."""
    kinds = {}
    for kind, name in KINDS.items():
        queries, keys, weights = attention.of_kind(kind)
        values = np.rint(1000 * weights).astype(int).tolist()
        kinds[kind] = {"title": name, "queries": queries, "keys": keys, "weights": values}
    data = {"colors": colors(attention.cross.shape[1]), "kinds": kinds}
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    # "</" would end the script.
    return filled("attention.html", data=text.replace("<", "\\u003c"))


def attention_weights(
    model: "Transformer | Translator | ConstituencyParser",
    source: Any,
    target: Any = None,
) -> Attention:
    """Return the attention weights of every layer and head for one sentence (section 3.2.3).

    ```python
    translator = kt.Translator.from_preset("saved_models/multi30k_en_de")
    attention = attention_weights(translator, "A dog runs.", "Ein Hund rennt.")
    attention = attention_weights(translator, "A dog runs.")  # with its own translation
    attention = attention_weights(model, [5, 6, 2], [7, 8, 2])  # of a `Transformer`
    attention.cross[-1].mean(axis=0)  # the last layer: (target, source)
    ```

    They are recorded while the model computes its logits for the pair. Rows sum to 1, and are
    exactly 0 at later positions, at padding and outside an `attention_window`.

    Args:
        model: a `Translator`, a `ConstituencyParser` or a `Transformer`.
        source: one sentence: a string; for a parser, a string or a list of words; for a
            `Transformer`, a list of token ids.
        target: the output: a string; for a parser, a tree; for a `Transformer`, a list of token ids
            as in a search's results, without the start token. Defaults to the result of the task's
            search, or of a greedy search for a `Transformer`.

    Returns:
        An `Attention`. The tokens of a `Transformer` are its ids, as strings.

    Raises:
        UserError: if source or target have the wrong type, are empty, or are not ids of the
            model's vocabularies.
    """
    if isinstance(model, Transformer):
        source, target = _validate_pair(model, source, target)
        names = [_RESERVED.get(i, str(i)) for i in (*source, *target)]
        return model_attention(model, source, target, names[: len(source)], names[len(source) :])
    task: Any = model  # The sentence of a parser may be a list of words.
    if target is None:
        source, target = best_output(task, source)
    else:
        source, target = task.source_ids(source), task.output_ids(target)
    return task_attention(task, source, target)


def best_output(
    task: "Translator | ConstituencyParser", sentence: Any
) -> tuple[list[int], list[int]]:
    """Return the token ids of a sentence, and of the best output that the task's search finds.

    Raises:
        UserError: if the search finds no output.
    """
    source, (token_ids, _) = task.search_sentence(sentence)
    target = [i for i in ops.convert_to_numpy(token_ids)[0, 0].tolist() if i != PAD_ID]
    if not target:
        raise UserError("The search found no output for this sentence.")
    return source, target


def task_attention(
    task: "Translator | ConstituencyParser", source: Sequence[int], target: Sequence[int]
) -> Attention:
    """Return the attention weights for the token ids of a task's model."""
    return model_attention(
        task.model,
        source,
        target,
        plain_tokens(task.source_tokenizer.ids_to_tokens(source)),
        plain_tokens(task.output_tokens(target)),
    )


def model_attention(
    model: Transformer,
    source: Sequence[int],
    target: Sequence[int],
    source_tokens: list[str],
    target_tokens: list[str],
) -> Attention:
    """Return the attention weights of a `Transformer`, with the given token names."""
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
    """A table of aligned tokens. `print` shows it as text, a notebook as HTML.

    Attributes:
        rows: list of `(target token, source token, weight)`, one per target token: the source token
            with the largest weight when the target token is predicted, and this weight.
        description: the layer and the heads, as a sentence.
    """

    rows: list[tuple[str, str, float]]
    description: str = ""

    def __str__(self) -> str:
        widest = max((len(target) for target, _, _ in self.rows), default=0)
        return "\n".join(
            f"{target:>{widest}}  {weight:4.2f}  {source}" for target, source, weight in self.rows
        )

    def _repr_html_(self) -> str:
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
    """Align each output token with the source token that has the largest weight.

    ```python
    print(alignment(kt.visualization.attention_weights(translator, "A dog runs.")))
    ```

    Args:
        attention: an `Attention`.
        layer: index of the decoder layer; -1 is the last.
        heads: indices of the heads whose weights are averaged. Defaults to all.

    Returns:
        An `Alignment`.

    Raises:
        UserError: if there is no such layer or head.
    """
    num_layers, num_heads = attention.cross.shape[:2]
    (layer,) = validate_indices("layer", [layer], num_layers)
    heads = validate_indices("heads", range(num_heads) if heads is None else heads, num_heads)
    weights = attention.cross[layer, heads].mean(axis=0)
    places = weights.argmax(axis=1).tolist()
    rows = [
        (target, attention.source_tokens[place], float(row[place]))
        for target, place, row in zip(attention.target_tokens, places, weights)
    ]
    where = "the last layer" if layer == num_layers - 1 else f"layer {layer + 1}"
    what = "The mean over the heads" if len(heads) == num_heads else "The mean over some heads"
    if len(heads) == 1:
        what = f"Head {heads[0] + 1}"
    return Alignment(rows, f"{what} of {where}.")


def plain_tokens(tokens: Iterable[str]) -> list[str]:
    """Return the tokens without SentencePiece's space marks, except tokens that are only a mark."""
    return [token.removeprefix(_SPACE) or token for token in tokens]


def validate_indices(name: str, values: int | Iterable[int], size: int) -> list[int]:
    """Return indices of layers or heads as a list, without negative indices.

    Raises:
        UserError: if there are no indices, or one is out of range.
    """
    values = [values] if isinstance(values, int) else list(values)
    wrong = [value for value in values if value not in range(-size, size)]
    if wrong or not values:
        received = wrong[0] if wrong else values
        raise UserError(f"`{name}` must be from 0 to {size - 1}. Received: {name}={received}")
    return [value % size for value in values]


def _attention(
    model: Transformer, decoder_token_ids: Tensor, encoder_token_ids: Tensor
) -> dict[str, Tensor]:
    weights = model.attention(decoder_token_ids, encoder_token_ids)
    return {kind: ops.cast(values, "float32") for kind, values in weights.items()}


def _validate_pair(model: Transformer, source: Any, target: Any) -> tuple[list[int], list[int]]:
    source = _validate_ids("source", source, model.encoder.token_embedding.input_dim)
    if target is None:
        token_ids, _ = BeamSearch.greedy()(model, np.array([source]))
        target = [i for i in ops.convert_to_numpy(token_ids).ravel().tolist() if i != PAD_ID]
    return source, _validate_ids("target", target, model.config.vocabulary_size)


def _validate_ids(name: str, token_ids: Any, size: int) -> list[int]:
    ids = ops.convert_to_numpy(validate_integers(name, token_ids))
    if ids.ndim != 1 or not ids.any() or (ids < 0).any() or (ids >= size).any():
        raise UserError(
            f"`{name}` must be the ids of one sentence, from 0 to {size - 1}, not all of them "
            f"padding. Received: {name}={ids.tolist()}"
        )
    return ids.tolist()
