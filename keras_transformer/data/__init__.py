"""Corpora, vocabularies and batches: `kt.data`.

Corpora of pairs of sentences

- `ParallelText`: the pairs of one split, streamed from files.
- `load_parallel_text`: one of a corpus that has a name.
- `TaggedText`, `Mixture`: with tags before each source, and of several texts at given ratios;
  `load_mixture`: by their names, with `MixtureOptions`.
- `catalog_pairs`: the messages of programs with their translations.
- `filter_pairs`: what is left of a text without pairs that nobody should learn from, with
  `FilterOptions`.

Corpora of trees

- `Treebank`: the trees of one split; `load_treebank`: one by its name.
- `TreePairs`: trees as pairs of words and symbols; `TreeSymbols`: the symbols as tokens.
- `symbol_inventory`, `most_openings`: what the trees of a treebank hold.
- `TagDictionary`: which tags a word may have.
- `tokenize_words`: words by the rules of a treebank.
- `split_sentences`: the sentences of a paragraph.
- `parse_trees`, `read_trees`, `to_bracketed`: trees in brackets.
- `consensus`: the tree on which many trees of a sentence agree.

Vocabulary (section 5.1)

- `make_tokenizer`: the stage of a training, with `VocabularyOptions`.
- `Tokenizer`: a SentencePiece model; `MosesTokenizer`: Moses's words in pieces; `WordTokenizer`:
  word by word, so that words can be counted.
- `SubwordSampler`: other segmentations of the same sentences, to train on.

Batches (section 5.1)

- `TokenStore`: a tokenised corpus on disk.
- `plan_batches`: the stage of a training, with `BatchingOptions`.
- `TokenBatches`: batches of about equal numbers of tokens, for `fit`; `StagedBatches`: those of
  one text, then those of another.
"""

from keras_transformer.namespace import load_on_demand

_HOMES = {
    # Corpora
    "ParallelText": "data.parallel_text",
    "load_parallel_text": "data.corpora",
    "TaggedText": "data.mixtures",
    "Mixture": "data.mixtures",
    "MixtureOptions": "data.mixtures",
    "load_mixture": "data.mixtures",
    "catalog_pairs": "data.catalogs",
    "FilterOptions": "data.filters",
    "filter_pairs": "data.filters",
    "Treebank": "data.treebanks",
    "load_treebank": "data.treebanks",
    "TreePairs": "data.tree_pairs",
    "TreeSymbols": "data.tree_symbols",
    "symbol_inventory": "data.trees",
    "most_openings": "data.trees",
    "parse_trees": "data.trees",
    "read_trees": "data.trees",
    "to_bracketed": "data.trees",
    "consensus": "data.trees",
    "TagDictionary": "data.tag_dictionary",
    "tokenize_words": "data.word_tokenizers",
    "split_sentences": "data.sentences",
    # Vocabulary
    "VocabularyOptions": "data.tokenizer",
    "make_tokenizer": "data.tokenizer",
    "Tokenizer": "data.tokenizer",
    "MosesTokenizer": "data.moses_tokenizer",
    "WordTokenizer": "data.word_tokens",
    "SubwordSampler": "data.subword_sampling",
    # Batches
    "TokenStore": "data.token_store",
    "BatchingOptions": "data.batching",
    "plan_batches": "data.batching",
    "TokenBatches": "data.batching",
    "StagedBatches": "data.staged_batches",
}

__all__ = [*_HOMES]
__getattr__, __dir__ = load_on_demand(__name__, _HOMES)
