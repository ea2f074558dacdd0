"""Pictures of what a model, a search and a parser do: `kt.visualization`.

Attention (the paper's figures 3 to 5)

- `attention_weights`: those of every layer and head for a sentence, as `Attention`.
- `plot_attention`: two columns of tokens with lines between, or heat maps: PNG or SVG.
- `attention_page`: a page of HTML to point at words in, which needs nothing but itself.
- `alignment`: which source tokens each output token was predicted from, as a table: `Alignment`.

Searches

- `beam_tree`: all hypotheses of a beam search of a sentence, as a `BeamTree`.

Trees

- `tree_text`, `tree_svg`: a drawing of letters, and a picture.
- `compare_trees`: where a parse went wrong, beside the gold tree: `TreeComparison`.

All of them together

- `Explanation`: what `translator.explain` and `parser.explain` return.

The paper, and trainings

- `plot_position_encodings`, `plot_learning_rates`, `plot_layer_types`, `plot_runs`,
  `variations_table`: what `python -m keras_transformer.figures DIR` writes.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
