"""Corpora, vocabularies and batches: `kt.data`.

Corpora of pairs of sentences

- `ParallelText`: the pairs of one split, streamed from files.
- `load_parallel_text`: one of a corpus that has a name.
- `TaggedText`, `Mixture`: with tags before each source, and of several texts at given ratios;
  `load_mixture`: by their names, with `MixtureOptions`.
- `catalog_pairs`: the messages of programs with their translations.
- `filter_pairs`: what is left of a text without pairs that nobody should learn from, with
  `FilterOptions`.
- `split_sentences`: the sentences of a paragraph.

Vocabulary (section 5.1)

- `make_tokenizer`: the stage of a training, with `VocabularyOptions`.
- `Tokenizer`: a SentencePiece model; `MosesTokenizer`: Moses's words in pieces.
- `SubwordSampler`: other segmentations of the same sentences, to train on.

Batches (section 5.1)

- `TokenStore`: a tokenised corpus on disk.
- `plan_batches`: the stage of a training, with `BatchingOptions`.
- `TokenBatches`: batches of about equal numbers of tokens, for `fit`; `StagedBatches`: those of
  one text, then those of another.
"""

from keras_transformer.namespace import load_on_demand

__all__, __getattr__, __dir__ = load_on_demand(__name__, __file__)
