"""Where a parse went wrong, beside the gold tree."""

from html import escape
from typing import NamedTuple

from keras_transformer.files import atomic_write
from keras_transformer.parsing.evalb.differences import (
    MATCHED,
    UNMATCHED,
    find_differences,
)
from keras_transformer.parsing.evalb.parameters import Parameters
from keras_transformer.parsing.trees.traversal import is_leaf
from keras_transformer.visualization import svg
from keras_transformer.visualization.trees import drawn, refuse_deep_trees, tree_text

_GAP = 40  # pixels between the trees
_MARK = "*"


class Constituent(NamedTuple):
    """A bracket of a tree: its label, its words, and where in the tree it is."""

    label: str
    words: tuple
    position: tuple

    def __str__(self):
        return f"{self.label} ({' '.join(self.words)})"


class TreeComparison:
    """Two trees of a sentence as EVALB compares them. `print` tells it in text, a notebook in HTML.

    Args:
        gold: the gold tree (`nltk.Tree`).
        predicted: the predicted tree.
        parameters: EVALB's `Parameters`.

    Attributes:
        missing: list of `Constituent` of the gold tree that the predicted one has not.
        wrong: list of `Constituent` of the predicted tree that the gold one has not.
        wrong_tags: list of `(word, gold tag, predicted tag)`.
        num_matched: how many constituents both have.
        message: what EVALB says where it finds different words, as it may for a wrong tag of a
            comma; then nothing is scored. Else empty.
    """

    @refuse_deep_trees()
    def __init__(self, gold, predicted, parameters):
        self.gold, self.predicted = gold, predicted
        differences = find_differences(gold, predicted, parameters)
        self.message = differences.message
        self.missing = _unmatched(gold, differences.gold)
        self.wrong = _unmatched(predicted, differences.predicted)
        self.num_matched = differences.gold.count(MATCHED)
        pairs = zip(_leaves(gold), _leaves(predicted))
        self._wrong_leaves = [
            (place, other)
            for place, other in pairs
            if not parameters.same_label(gold[place].label(), predicted[other].label())
        ]
        self.wrong_tags = [
            (gold[place][0], gold[place].label(), predicted[other].label())
            for place, other in self._wrong_leaves
        ]

    def __str__(self):
        """Both trees, with a star at each label that differs, and then what differs."""
        gold_marks, predicted_marks = self._colours()
        parts = ["gold", tree_text(_marked(self.gold, gold_marks)), "parser"]
        parts += [tree_text(_marked(self.predicted, predicted_marks)), *self._lines()]
        return "\n".join(parts)

    def __repr__(self):
        return f"<TreeComparison: {self._lines()[0]}>"

    def _repr_html_(self):
        lines = "<br>".join(map(escape, self._lines()))
        return f'<div class="scroll">{self.svg()}</div><p>{lines}</p>'

    def svg(self):
        """Both trees beside each other, as an SVG picture: a string.

        What the parser misses is ochre in the gold tree, and what is wrong is red in the parser's.

        Raises:
            UserError: if svgling is not installed.
        """
        trees = (self.gold, self.predicted)
        pictures = [drawn(tree, colours) for tree, colours in zip(trees, self._colours())]
        sizes = [[_pixels(p, name) for name in ("width", "height")] for p in pictures]
        (left, _), (right, _) = sizes
        root = svg.document(left + _GAP + right, max(height for _, height in sizes) + 30)
        frame = svg.element(root, "g", font_family="sans-serif", font_size=13)
        for x, title, picture in zip((0, left + _GAP), ("gold", "parser"), pictures):
            svg.element(frame, "text", title, x=x + 8, y=18, css="muted")
            picture.set("x", str(x))
            picture.set("y", "30")
            root.append(picture)
        return svg.to_string(root)

    def save(self, path):
        """Write the picture, if the path ends with .svg, and otherwise the text."""
        text = self.svg() if str(path).lower().endswith(".svg") else f"{self}\n"
        with atomic_write(path) as new:
            new.write_text(text, "utf-8")

    def _lines(self):
        """What differs, in words."""
        yes, no, wrong = self.num_matched, len(self.missing), len(self.wrong)
        lines = [f"{yes} brackets are right, {no} missing, {wrong} wrong"]
        if self.message:
            lines = [f"EVALB cannot compare them: {self.message}"]
        else:
            lines += [f"missing: {constituent}" for constituent in self.missing]
            lines += [f"wrong: {constituent}" for constituent in self.wrong]
        return lines + [f"tag: {w} is {gold}, not {tag}" for w, gold, tag in self.wrong_tags]

    def _colours(self):
        """Place -> colour, of each tree."""
        gold = {place: "missing" for place, _ in self._wrong_leaves}
        predicted = {place: "bad" for _, place in self._wrong_leaves}
        gold.update({each.position: "missing" for each in self.missing})
        predicted.update({each.position: "bad" for each in self.wrong})
        return gold, predicted


def compare_trees(gold, predicted, parameters=None):
    """Set a predicted tree beside the gold one: which brackets are missing, and which are wrong.

    ```python
    print(compare_trees(gold, parser([gold.leaves()])[0]))
    ```

    Args:
        gold: an `nltk.Tree`.
        predicted: an `nltk.Tree`.
        parameters: EVALB's, a `kt.parsing.Parameters`. Defaults to `COLLINS.prm`'s, by which
            punctuation and the root do not count.

    Returns:
        A `TreeComparison`.

    Raises:
        UserError: if a word of a tree has no tag of its own, or a tree has too many levels.
    """
    return TreeComparison(gold, predicted, parameters or Parameters.named("COLLINS"))


def _pixels(picture, name):
    return float(picture.get(name).removesuffix("px"))


def _unmatched(tree, statuses):
    """The constituents that the other tree has not."""
    places = [place for place in tree.treepositions() if _is_constituent(tree, place)]
    return [
        Constituent(tree[place].label(), tuple(tree[place].leaves()), place)
        for place, status in zip(places, statuses)
        if status == UNMATCHED
    ]


def _leaves(tree):
    """The places of the tags, from left to right."""
    return [place[:-1] for place in tree.treepositions("leaves")]


def _is_constituent(tree, place):
    node = tree[place]
    return not isinstance(node, str) and not is_leaf(node)


@refuse_deep_trees()
def _marked(tree, places):
    """The tree with a star at the labels of some places."""
    tree = tree.copy(deep=True)
    for place in places:
        tree[place].set_label(f"{tree[place].label()}{_MARK}")
    return tree
