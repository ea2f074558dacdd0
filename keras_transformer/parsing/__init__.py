"""Constituency parsing as translation (section 6.3): `kt.parsing`.

Corpora of trees

- `Treebank`: the trees of one split; `load_treebank` reads a treebank by its name.
- `TreePairs`: trees as pairs of words and symbols; `TreeSymbols`: the symbols as tokens.
- `symbol_inventory`, `most_openings`: the symbols of a treebank, and its deepest openings.
- `TagDictionary`: the tags that each frequent word may have.
- `tokenize_words`: splits raw text by the rules of a treebank; `WordTokenizer`: encodes word by
  word, so that words can be counted.
- `parse_trees`, `read_trees`, `to_bracketed`: trees in brackets.
- `consensus`: the tree on which many trees of a sentence agree.

Model and search

- `DeterministicAttention`: adds the next word's vector to the decoder's input.
- `WordTagger`: predicts tags from the encoder's output.
- `TreeGrammar`, `InOrderTreeGrammar`: constraints under which every output is a tree.
- `WordSynchronousBeamSearch`: a beam search that compares hypotheses word by word.

Training

- `ParserTrainingOptions`, with `TreeOptions` and `ParsingOptions`.
- `make_linearization`, `make_tree_pairs`, `constituents_first`, `make_tree_tokenizer`,
  `parser_hyperparameters`, `parser_metadata`, `quick_parser`: stages that only trees need.

Evaluation

- `evaluate_trees`, `evaluate_files`: EVALB's figures, as `EvalbScores`; `Parameters`: its options.
- `score_trees`: scores a `ConstituencyParser`; `describe_evalb`: formats the scores in one line.
"""

from keras_transformer.namespace import load_on_demand

_HOMES = {
    # Corpora
    "Treebank": "parsing.treebanks",
    "load_treebank": "parsing.treebanks",
    "TreePairs": "parsing.tree_pairs",
    "TreeSymbols": "parsing.tree_symbols",
    "symbol_inventory": "parsing.trees",
    "most_openings": "parsing.trees",
    "parse_trees": "parsing.trees",
    "read_trees": "parsing.trees",
    "to_bracketed": "parsing.trees",
    "consensus": "parsing.trees",
    "TagDictionary": "parsing.tag_dictionary",
    "tokenize_words": "parsing.word_tokenizers",
    "WordTokenizer": "parsing.word_tokens",
    # Model and search
    "DeterministicAttention": "parsing.deterministic_attention",
    "WordTagger": "parsing.word_tagger",
    "TreeGrammar": "parsing.tree_grammar",
    "InOrderTreeGrammar": "parsing.in_order_grammar",
    "WordSynchronousBeamSearch": "parsing.word_sync_search",
    # Training
    "ParserTrainingOptions": "parsing.train_parser",
    "TreeOptions": "parsing.tree_options",
    "ParsingOptions": "parsing.train_parser",
    "make_linearization": "parsing.tree_options",
    "make_tree_pairs": "parsing.train_parser",
    "constituents_first": "parsing.train_parser",
    "make_tree_tokenizer": "parsing.train_parser",
    "parser_hyperparameters": "parsing.train_parser",
    "parser_metadata": "parsing.train_parser",
    "quick_parser": "parsing.train_parser",
    # Evaluation
    "evaluate_trees": "parsing.evalb",
    "evaluate_files": "parsing.evalb",
    "EvalbScores": "parsing.evalb",
    "Parameters": "parsing.evalb",
    "score_trees": "parsing.train_parser",
    "describe_evalb": "parsing.train_parser",
}

__all__ = [*_HOMES]
__getattr__, __dir__ = load_on_demand(__name__, _HOMES)
