# Attention
from keras_transformer.visualization.attention import Attention as Attention
from keras_transformer.visualization.attention import attention_weights as attention_weights
from keras_transformer.visualization.attention_picture import attention_svg as attention_svg
from keras_transformer.visualization.attention import attention_page as attention_page
from keras_transformer.visualization.attention import Alignment as Alignment
from keras_transformer.visualization.attention import alignment as alignment

# Searches
from keras_transformer.visualization.beams import BeamTree as BeamTree

# Trees
from keras_transformer.visualization.trees import tree_text as tree_text
from keras_transformer.visualization.trees import tree_svg as tree_svg
from keras_transformer.visualization.trees import TreeComparison as TreeComparison

# Together
from keras_transformer.visualization.explanation import Explanation as Explanation
from keras_transformer.visualization.explanation import explain_translation as explain_translation
from keras_transformer.visualization.explanation import explain_parse as explain_parse
