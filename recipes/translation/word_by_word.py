"""Score two baselines without a model: copied sources, and word-by-word translation.

The dictionary is learned from the training text with Model 1 of Brown et al. (1993): each source
word gets the target word of the largest t(target | source), and unknown words are copied. Target
words are the pieces of a vocabulary, so that languages without spaces have words too.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.data.corpora import bleu_tokenize, load_parallel_text
from keras_transformer.data.lexical_translation import most_probable
from keras_transformer.evaluation import score_translations


@dataclass(kw_only=True)
class Options:
    dataset: str
    """A corpus of the translation recipe."""
    source: str
    """Language to translate from."""
    target: str
    """Language to translate into."""
    data_dir: Path | None = None
    """Folder that holds the corpus."""
    split: str = "test"
    """val or test."""
    vocabulary_size: int = 16000
    """Number of pieces of the target language."""
    iterations: int = 5
    """Rounds of expectation and maximization."""


def main(options):
    languages = options.source, options.target
    train, test = (
        [*load_parallel_text(options.dataset, split, *languages, options.data_dir)]
        for split in ("train", options.split)
    )
    tokenizer = kt.data.Tokenizer.train(
        [target for _, target in train], options.vocabulary_size, model_type="unigram"
    )
    dictionary = learn(train, tokenizer, options.iterations)
    sources, references = zip(*test)
    systems = {
        "copied": list(sources),
        "word by word": [look_up(source, dictionary) for source in sources],
    }
    how = [references], bleu_tokenize(options.dataset), options.target
    for name, hypotheses in systems.items():
        print(f"{name}:\n{score_translations(hypotheses, *how)}")


def learn(pairs, tokenizer, iterations):
    """Return a dict from each source word to its most probable target piece."""
    sources = [words_of(source) for source, _ in pairs]
    pieces = tokenizer.encode([target for _, target in pairs])
    return most_probable(sources, [tokenizer.ids_to_tokens(ids) for ids in pieces], iterations)


def look_up(source, dictionary):
    return "".join(dictionary.get(x, f"▁{x}") for x in words_of(source)).replace("▁", " ").strip()


def words_of(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


if __name__ == "__main__":
    run(main, Options)
