"""Show how a sentence is parsed: its tree, compared with a gold tree, attention and the beam."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, ParserSearchOptions
from keras_transformer.files import check_writable
from keras_transformer.parsing.brackets import clean_tree
from keras_transformer.parsing.traversal import tagged_words
from keras_transformer.visualization.trees import load_svgling


@dataclass(kw_only=True)
class Options(ParserSearchOptions, CommonOptions):
    sentence: tyro.conf.Positional[str]
    """The sentence; or its gold tree in brackets, whose words are parsed and compared with it."""
    model: str
    """Model folder, such as runs/x/model, or hf://user/repository."""
    output_dir: Path
    """Folder to write the pictures into."""
    layer: int = -1
    """Number of the layer whose attention is drawn, from 0; -1 is the last. The page shows all."""
    heads: tuple[int, ...] | None = None
    """Numbers of the heads to draw. Defaults to all."""
    form: Literal["png", "svg"] = "png"
    """Kind of the pictures of attention."""
    dark: bool = False
    """Draw attention for a dark page. Other pictures follow the reader's system."""


def main(options: Options) -> None:
    check_writable("output_dir", options.output_dir / "parse.html")
    load_svgling()
    parser = kt.ConstituencyParser.from_preset(options.model, **options.search())
    sentence, gold = options.sentence, None
    if sentence.lstrip().startswith("("):
        trees = [*kt.parsing.parse_trees([sentence])]
        if len(trees) != 1:
            raise kt.UserError(f"Expected one sentence or one tree. Received: {len(trees)} trees")
        gold = clean_tree(trees[0])
        if gold is None:
            raise kt.UserError("The tree has only traces. Received: " + options.sentence)
        sentence = [word for word, _ in tagged_words(gold)]
    explanation = kt.visualization.explain_parse(parser, sentence, gold)
    print(explanation)
    folder = options.output_dir
    folder.mkdir(parents=True, exist_ok=True)
    explanation.save(folder / "parse.html")
    (folder / "tree.svg").write_text(kt.visualization.tree_svg(explanation.tree), "utf-8")
    for name in ("beam", "comparison"):
        if (part := getattr(explanation, name)) is not None:
            part.save(folder / f"{name}.svg")
    chosen = {"layer": options.layer, "heads": options.heads, "dark": options.dark}
    for kind in ("encoder", "decoder", "cross"):
        path = folder / f"{kind}.{options.form}"
        kt.visualization.plot_attention(
            explanation.attention, kind, style="heatmap", path=path, **chosen
        )
    print(f"\nPictures are in {folder}; parse.html is an interactive page of all.")
