"""Score two baselines without a model: copied sources, and word-by-word translation.

The dictionary is learned from the training text with Model 1 of Brown et al. (1993): each source
word gets the target word of the largest t(target | source), and unknown words are copied. Target
words are the pieces of a vocabulary, so that languages without spaces have words too.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.data.corpora import bleu_tokenize, load_parallel_text
from keras_transformer.evaluation.bleu import score_translations


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
    numbers = {}
    words = [[numbers.setdefault(x, len(numbers)) for x in words_of(source)] for source, _ in pairs]
    pieces = tokenizer.encode([target for _, target in pairs])
    # Each piece may come from any source word of its pair: one group of links per piece.
    sizes = [len(of_pair) for of_pair, ids in zip(words, pieces) for _ in ids]
    groups = np.repeat(np.arange(len(sizes)), sizes)
    sources = np.concatenate([np.tile(x, len(y)) for x, y in zip(words, pieces)])
    targets = np.concatenate([np.repeat(y, len(x)) for x, y in zip(words, pieces)])
    keys, links = np.unique(
        sources.astype("int64") * tokenizer.vocabulary_size + targets.astype("int64"),
        return_inverse=True,
    )
    of_word, of_piece = np.divmod(keys, tokenizer.vocabulary_size)
    probabilities = np.ones(len(keys))
    for _ in range(iterations):
        shares = probabilities[links]
        shares /= np.bincount(groups, shares)[groups]
        counts = np.bincount(links, shares)
        probabilities = counts / np.bincount(of_word, counts)[of_word]
    order = np.argsort(
        probabilities, kind="stable"
    )  # the best piece of a word comes last, and stays
    best = dict(zip(of_word[order].tolist(), tokenizer.tokens_of(of_piece[order].tolist())))
    return {word: best[number] for word, number in numbers.items() if number in best}


def look_up(source, dictionary):
    return "".join(dictionary.get(x, f"▁{x}") for x in words_of(source)).replace("▁", " ").strip()


def words_of(text):
    return re.findall(r"\w+|[^\w\s]", text.lower())


if __name__ == "__main__":
    run(main, Options)
