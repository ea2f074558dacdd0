"""Pictures of attention, searches, trees and trainings: `kt.visualization`.

Attention (the paper's figures 3 to 5)

- `attention_weights` returns the weights of every layer and head for a sentence: `Attention`.
- `plot_attention` draws lines between two columns of tokens, or heat maps: PNG or SVG.
- `attention_page` returns an interactive, self-contained HTML page.
- `alignment` returns the source token of each output token, as a table: `Alignment`.

Searches

- `beam_tree` returns all hypotheses of a sentence's beam search: `BeamTree`.

Trees

- `tree_text` and `tree_svg` draw a tree as text and as an SVG picture.
- `compare_trees` compares a parse with the gold tree: `TreeComparison`.

All of them together

- `explain_translation` and `explain_parse` return them as one page: `Explanation`.

The paper, and trainings

- `plot_position_encodings`, `plot_learning_rates`, `plot_layer_types`, `plot_runs` and
  `variations_table` make the files of `python -m keras_transformer.figures DIR`.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
