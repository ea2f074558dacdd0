# Corpora
from keras_transformer.parsing.parser_options import ParserTrainingOptions as ParserTrainingOptions
from keras_transformer.parsing.parser_options import ParsingOptions as ParsingOptions
from keras_transformer.parsing.parser_options import TreeOptions as TreeOptions
from keras_transformer.parsing.treebanks import Treebank as Treebank
from keras_transformer.parsing.treebanks import load_treebank as load_treebank
from keras_transformer.parsing.treebanks import TreePairs as TreePairs
from keras_transformer.parsing.parser_tokens import TreeSymbols as TreeSymbols
from keras_transformer.parsing.brackets import parse_trees as parse_trees
from keras_transformer.parsing.brackets import read_trees as read_trees
from keras_transformer.parsing.brackets import to_bracketed as to_bracketed
from keras_transformer.parsing.tree_consensus import consensus as consensus
from keras_transformer.parsing.word_tags import TagDictionary as TagDictionary
from keras_transformer.parsing.words import tokenize_words as tokenize_words
from keras_transformer.parsing.parser_tokens import WordTokenizer as WordTokenizer

# Model and search
from keras_transformer.parsing.deterministic_attention import (
    DeterministicAttention as DeterministicAttention,
)
from keras_transformer.parsing.parser_transformer import ParserTransformer as ParserTransformer
from keras_transformer.parsing.deterministic_attention import WordTagger as WordTagger
from keras_transformer.parsing.tree_grammar import TreeGrammar as TreeGrammar
from keras_transformer.parsing.tree_grammar import InOrderTreeGrammar as InOrderTreeGrammar

# Training
from keras_transformer.parsing.train_parser import make_linearization as make_linearization

# Evaluation
from keras_transformer.parsing.evalb import evaluate_trees as evaluate_trees
from keras_transformer.parsing.evalb import evaluate_files as evaluate_files
from keras_transformer.parsing.evalb import EvalbScores as EvalbScores
from keras_transformer.parsing.evalb import Parameters as Parameters
from keras_transformer.parsing.train_parser import score_trees as score_trees
from keras_transformer.parsing.train_parser import describe_evalb as describe_evalb
