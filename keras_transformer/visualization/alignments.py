"""Which source tokens output tokens were predicted from, as a table."""

from dataclasses import dataclass
from html import escape

from keras_transformer.visualization.attention import numbers


@dataclass(frozen=True)
class Alignment:
    """A table: `print` shows it as text, a notebook as HTML.

    Attributes:
        rows: list of `(target token, source token, weight)`, one of each target token: the source
            token that is looked at most when it is predicted, and the weight of that.
        places: list of the source tokens' positions.
    """

    rows: list
    places: list

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


def alignment(attention, layer=-1, heads=None):
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
