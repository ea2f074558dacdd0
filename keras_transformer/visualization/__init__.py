"""Pictures of attention, searches and trees: `kt.visualization`.

Attention (the paper's figures 3 to 5)

- `attention_weights` returns the weights of every layer and head for a sentence: `Attention`.
- `attention_svg` draws lines between two columns of tokens.
- `attention_page` returns an interactive, self-contained HTML page.
- `alignment` returns the source token of each output token, as a table: `Alignment`.

Searches

- `BeamTree` shows all hypotheses of a beam search.

Trees

- `tree_text` and `tree_svg` draw a tree as text and as an SVG picture.
- `TreeComparison` compares a parse with the gold tree.

All of them together

- `explain_translation` and `explain_parse` return them as one page: `Explanation`.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
