# Corpora
from keras_transformer.data.batch_planner import BatchingOptions as BatchingOptions
from keras_transformer.data.parallel_text import ParallelText as ParallelText
from keras_transformer.data.corpora import load_parallel_text as load_parallel_text
from keras_transformer.data.mixtures import TaggedText as TaggedText
from keras_transformer.data.mixtures import Mixture as Mixture
from keras_transformer.data.mixtures import MixtureOptions as MixtureOptions
from keras_transformer.data.mixtures import load_mixture as load_mixture
from keras_transformer.data.gettext_corpus import catalog_pairs as catalog_pairs
from keras_transformer.data.filters import FilterOptions as FilterOptions
from keras_transformer.data.filters import filter_pairs as filter_pairs
from keras_transformer.data.text_lines import split_sentences as split_sentences
from keras_transformer.data.batching import pairs_to_arrays as pairs_to_arrays

# Vocabulary
from keras_transformer.data.tokenizer import VocabularyOptions as VocabularyOptions
from keras_transformer.data.tokenizer import make_tokenizer as make_tokenizer
from keras_transformer.data.tokenizer import Tokenizer as Tokenizer
from keras_transformer.data.moses_tokenizer import MosesTokenizer as MosesTokenizer
from keras_transformer.data.preprocessor import TranslationPreprocessor as TranslationPreprocessor
from keras_transformer.data.shortlist import Shortlist as Shortlist

# Batches
from keras_transformer.data.token_store import TokenStore as TokenStore
from keras_transformer.data.batching import plan_batches as plan_batches
from keras_transformer.data.batching import TokenBatches as TokenBatches
