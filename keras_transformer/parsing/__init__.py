"""Constituency parsing as translation (section 6.3): `kt.parsing`.

Corpora of trees

- `Treebank`: the trees of one split; `load_treebank` reads a treebank by its name.
- `TreePairs`: trees as pairs of words and symbols; `TreeSymbols`: the symbols as tokens.
- `TagDictionary`: the tags that each frequent word may have.
- `tokenize_words`: splits raw text by the rules of a treebank; `WordTokenizer`: encodes word by
  word, so that words can be counted.
- `parse_trees`, `read_trees`, `to_bracketed`: trees in brackets.
- `consensus`: the tree on which many trees of a sentence agree.

Model and search

- `ParserTransformer`: the `Transformer` of a parser.
- `DeterministicAttention`: adds the next word's vector to the decoder's input.
- `WordTagger`: predicts tags from the encoder's output.
- `TreeGrammar`, `InOrderTreeGrammar`: constraints under which every output is a tree.

Training

- `ParserTrainingOptions`, with `TreeOptions` and `ParsingOptions`.
- `make_linearization`: how trees are written as symbols.

Evaluation

- `evaluate_trees`, `evaluate_files`: EVALB's figures, as `EvalbScores`; `Parameters`: its options.
- `score_trees`: scores a `ConstituencyParser`; `describe_evalb`: formats the scores in one line.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
