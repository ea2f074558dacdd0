"""The commands that draw how a model translates or parses a sentence."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions
from keras_transformer.commands.parse import ParserOptions
from keras_transformer.commands.translate import TranslatorOptions
from keras_transformer.files import check_writable
from keras_transformer.parsing.brackets import clean_tree
from keras_transformer.parsing.traversal import tagged_words
from keras_transformer.visualization.trees import load_svgling

_KINDS = ("encoder", "decoder", "cross")


@dataclass(kw_only=True)
class PictureOptions(CommonOptions):
    """Options of the pictures."""

    output_dir: Path
    """Folder for the pictures."""
    layer: int = -1
    """Number of the layer whose attention is drawn, from 0; -1 is the last. The page shows all."""
    heads: tuple[int, ...] | None = None
    """Numbers of the heads to draw. Defaults to all."""

    def draw(self, attention: "kt.visualization.Attention", words: Sequence[str] = ()) -> None:
        """Draw the three kinds of attention into the folder, of some words or of all."""
        for kind in _KINDS:
            tokens, _, _ = attention.of_kind(kind)
            chosen = [word for word in words if word in tokens] or None
            picture = kt.visualization.attention_svg(
                attention, kind, self.layer, self.heads, chosen
            )
            (self.output_dir / f"{kind}.svg").write_text(picture, "utf-8")


@dataclass(kw_only=True)
class ExplainTranslationOptions(TranslatorOptions, PictureOptions):
    sentence: tyro.conf.Positional[str]
    """The sentence to translate."""
    translation: str | None = None
    """Show the attention of this translation instead of the model's own."""
    words: tuple[str, ...] | None = None
    """Draw only the attention of these tokens. Defaults to all."""


def explain_translation(options: ExplainTranslationOptions) -> None:
    """Draw the translation of a sentence: its attention, its alignment and the search's beam."""
    folder = options.output_dir
    check_writable("output_dir", folder / "translation.html")
    translator = options.load()
    explanation = kt.visualization.explain_translation(
        translator, options.sentence, options.translation
    )
    print(explanation)
    folder.mkdir(parents=True, exist_ok=True)
    explanation.save(folder / "translation.html")
    if explanation.beam is not None:
        explanation.beam.save(folder / "beam.svg")
    attention = explanation.attention
    known = {*attention.source_tokens, *attention.target_tokens}
    if unknown := [word for word in options.words or () if word not in known]:
        raise kt.UserError(f"`words` must be among the tokens. Received: {' '.join(unknown)}")
    options.draw(attention, options.words or ())
    print(f"\nPictures are in {folder}, and all of them to point at in translation.html.")


@dataclass(kw_only=True)
class ExplainParsingOptions(ParserOptions, PictureOptions):
    sentence: tyro.conf.Positional[str]
    """The sentence; or its gold tree in brackets, whose words are parsed and compared with it."""


def explain_parsing(options: ExplainParsingOptions) -> None:
    """Draw how a sentence is parsed: its tree, a gold tree, attention and the beam."""
    folder = options.output_dir
    check_writable("output_dir", folder / "parse.html")
    load_svgling()
    parser = kt.ConstituencyParser.from_preset(options.model, **options.search())
    sentence, gold = options.sentence, None
    if sentence.lstrip().startswith("("):
        gold = _read_tree(sentence)
        sentence = [word for word, _ in tagged_words(gold)]
    explanation = kt.visualization.explain_parse(parser, sentence, gold)
    print(explanation)
    folder.mkdir(parents=True, exist_ok=True)
    explanation.save(folder / "parse.html")
    (folder / "tree.svg").write_text(kt.visualization.tree_svg(explanation.tree), "utf-8")
    for name in ("beam", "comparison"):
        if (part := getattr(explanation, name)) is not None:
            part.save(folder / f"{name}.svg")
    options.draw(explanation.attention)
    print(f"\nPictures are in {folder}; parse.html is an interactive page of all.")


def _read_tree(text: str) -> Any:
    """Return the only tree in a text, without traces."""
    trees = [*kt.parsing.parse_trees([text])]
    if len(trees) != 1:
        raise kt.UserError(f"Expected one sentence or one tree. Received: {len(trees)} trees")
    if (tree := clean_tree(trees[0])) is None:
        raise kt.UserError(f"The tree has only traces. Received: {text}")
    return tree
