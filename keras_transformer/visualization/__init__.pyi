# Attention
from keras_transformer.visualization.attention import Attention as Attention
from keras_transformer.visualization.attention import attention_weights as attention_weights
from keras_transformer.visualization.attention_figures import plot_attention as plot_attention
from keras_transformer.visualization.pages import attention_page as attention_page
from keras_transformer.visualization.attention import Alignment as Alignment
from keras_transformer.visualization.attention import alignment as alignment

# Searches
from keras_transformer.visualization.beams import BeamTree as BeamTree
from keras_transformer.visualization.beams import beam_tree as beam_tree

# Trees
from keras_transformer.visualization.trees import tree_text as tree_text
from keras_transformer.visualization.trees import tree_svg as tree_svg
from keras_transformer.visualization.trees import TreeComparison as TreeComparison
from keras_transformer.visualization.trees import compare_trees as compare_trees

# Together
from keras_transformer.visualization.explanation import Explanation as Explanation
from keras_transformer.visualization.explanation import explain_translation as explain_translation
from keras_transformer.visualization.explanation import explain_parse as explain_parse

# The paper
from keras_transformer.visualization.paper_figures import (
    plot_position_encodings as plot_position_encodings,
)
from keras_transformer.visualization.paper_figures import plot_learning_rates as plot_learning_rates
from keras_transformer.visualization.paper_figures import plot_layer_types as plot_layer_types
from keras_transformer.visualization.runs import plot_runs as plot_runs
from keras_transformer.visualization.runs import variations_table as variations_table
