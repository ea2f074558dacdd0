"""Corpora, vocabularies and batches: `kt.data`.

Parallel corpora

- `ParallelText`: the sentence pairs of one split, streamed from files.
- `load_parallel_text`: loads a named corpus.
- `TaggedText`, `Mixture`: add tags before each source; mix several texts at given ratios.
  `load_mixture` loads them by name, with `MixtureOptions`.
- `catalog_pairs`: reads program messages and their translations.
- `filter_pairs`: removes unsuitable pairs, as `FilterOptions` define them.
- `split_sentences`: splits a paragraph into sentences.
- `pairs_to_arrays`: converts sentence pairs to the arrays of Keras's own `fit`.

Vocabulary (section 5.1)

- `make_tokenizer`: the stage of a training, with `VocabularyOptions`.
- `Tokenizer`: a SentencePiece model. `MosesTokenizer`: Moses's words, split into pieces.
- `TranslationPreprocessor`: the text side of a translator: tokenizers, prefixes, end token, limit.
- `Shortlist`: the tokens that are likely in the translation of each source token.

Batches (section 5.1)

- `TokenStore`: a tokenized corpus on disk.
- `plan_batches`: the stage of a training, with `BatchingOptions`.
- `TokenBatches`: batches with about equal numbers of tokens, for `fit`.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
