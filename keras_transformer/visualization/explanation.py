"""The explanation of one output: attention, alignment, beam and trees together."""

import os
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

from keras_transformer.decoding.beam_trace import replay
from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import to_bracketed
from keras_transformer.parsing.traversal import tagged_words
from keras_transformer.untranslated import SYMBOLS
from keras_transformer.visualization.attention import (
    Alignment,
    Attention,
    alignment,
    attention_section,
    best_output,
    task_attention,
)
from keras_transformer.visualization.beams import BeamTree, task_beam_tree
from keras_transformer.visualization.drawing import in_frame, page, save, scrolled
from keras_transformer.visualization.trees import TreeComparison, tree_svg, tree_text

if TYPE_CHECKING:
    from nltk import Tree

    from keras_transformer.parsing.constituency_parser import ConstituencyParser
    from keras_transformer.parsing.words import Sentence
    from keras_transformer.translation.translator import Translator

# Fonts have no sign for a reserved symbol: circled numbers stand for them.
_VISIBLE = str.maketrans({symbol: chr(0x2460 + i) for i, symbol in enumerate(SYMBOLS)})


@dataclass(frozen=True, eq=False)
class Explanation:
    """The explanation of an output. `print` shows it as text, and a notebook as the page that
    `save("sentence.html")` writes.

    Attributes:
        source: the sentence, a string.
        output: the translation, or the tree in brackets.
        attention: the `Attention` that predicted it.
        alignment: the `Alignment` of a translation; None for a parse.
        beam: the `BeamTree` of the search; None without a beam, or if the output was given.
        tree: the `nltk.Tree` of a parse; None for a translation.
        comparison: the `TreeComparison` with a gold tree, if one was given.
    """

    source: str
    output: str
    attention: Attention = field(repr=False)
    alignment: Alignment | None = field(default=None, repr=False)
    beam: BeamTree | None = field(default=None, repr=False)
    tree: "Tree | None" = field(default=None, repr=False)
    comparison: TreeComparison | None = field(default=None, repr=False)

    def __str__(self) -> str:
        parts = [self.source, self.output]
        if self.comparison is not None:
            parts.append(str(self.comparison))
        elif self.tree is not None:
            parts.append(tree_text(self.tree))
        parts += [str(x) for x in (self.alignment, self.beam) if x is not None]
        return "\n\n".join(parts).translate(_VISIBLE)

    def html(self) -> str:
        """Return the page, a self-contained HTML string."""
        sections = [f"<p>{escape(self.output)}</p>"]
        if self.comparison is not None:
            sections += ["<h2>Comparison with the gold tree</h2>", self.comparison._repr_html_()]
        elif self.tree is not None:
            sections += ["<h2>Tree</h2>", scrolled(tree_svg(self.tree))]
        sections += ["<h2>Attention</h2>", attention_section(self.attention)]
        if self.alignment is not None:
            sections += [
                "<h2>Alignment</h2>",
                f'<p class="muted">{escape(self.alignment.description)}</p>',
                self.alignment._repr_html_(),
            ]
        if self.beam is not None:
            sections += ["<h2>Beam</h2>", scrolled(self.beam.svg())]
        return page(self.source, sections).translate(_VISIBLE)

    def save(self, path: str | os.PathLike) -> None:
        """Write the page if the path ends with .html, and the text if it ends with .txt.

        Raises:
            UserError: if it ends otherwise.
        """
        save(path, html=self.html, txt=self.__str__)

    def _repr_html_(self) -> str:
        return in_frame(self.html())


def explain_translation(
    translator: "Translator", sentence: str, translation: str | None = None
) -> Explanation:
    """Show the translation of a sentence with its attention, alignment and beam.

    ```python
    explain_translation(translator, "A dog runs.")  # displayed by a notebook
    explain_translation(translator, "A dog runs.").save("dog.html")
    ```

    Args:
        translator: a `Translator`.
        sentence: a string, which is read as one sentence and shown as the model reads it: without
            placeholders and tags, or with symbols in their place (①, ②, ...).
        translation: the translation whose attention is shown. Defaults to the search's.

    Returns:
        An `Explanation`.

    Raises:
        UserError: if an argument is not a string, or the sentence has no tokens.
    """
    (sentence,), (translation,) = translator.texts_read([sentence], [translation])
    source, target, beam = _searched(translator, sentence, translation)
    (output,) = translator.preprocessor.decode([target], sentence)
    attention = task_attention(translator, source, target)
    # A converted model may have been trained to align with one head.
    heads = translator.metadata.get("alignment", {})
    return Explanation(sentence, output, attention, alignment(attention, **heads), beam)


def explain_parse(
    parser: "ConstituencyParser", sentence: "Sentence", tree: "Tree | None" = None
) -> Explanation:
    """Show how a sentence is parsed: its tree, the attention and, of a beam search, the beam.

    The tree is the best result of the search. With the decision `"consensus"`, a call of the parser
    may return another tree.

    Args:
        parser: a `ConstituencyParser`.
        sentence: a sentence, as in a call of the parser.
        tree: the gold tree (`nltk.Tree`), to show next to the parser's.

    Returns:
        An `Explanation`.

    Raises:
        UserError: if it is not a sentence, has no words, or is longer than `max_source_length`.
    """
    source, target, beam = _searched(parser, sentence)
    predicted = parser.output_tree(sentence, target)
    comparison = None if tree is None else TreeComparison(tree, predicted)
    if not isinstance(sentence, str):
        sentence = " ".join(word for word, _ in tagged_words(predicted))
    return Explanation(
        sentence,
        to_bracketed(predicted),
        task_attention(parser, source, target),
        beam=beam,
        tree=predicted,
        comparison=comparison,
    )


def _searched(
    task: Any, sentence: Any, output: str | None = None
) -> tuple[list[int], list[int], BeamTree | None]:
    """Return the ids of source and output, and the `BeamTree` of the search or None."""
    if output is not None:
        return task.source_ids(sentence), task.output_ids(output), None
    if task.search.is_stochastic:
        return *best_output(task, sentence), None
    source, history = task.search_sentence(sentence, run=replay)
    if not history.results:
        raise UserError("The search found no output for this sentence.")
    return source, list(history.results[0].tokens), task_beam_tree(task, history)
