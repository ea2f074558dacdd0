"""Write sentences of biology in CRAFT's words, for silver trees, without sentences of CRAFT itself.

The sentences come from the corpora that Crichton et al. (2017) converted to one format, with one
word per line and a blank line after each sentence: github.com/cambridgeltl/MTL-Bioinformatics-2016,
CC BY 4.0. Some corpora share articles with CRAFT: sentences near a known one are left out.
"""

import itertools
import json
import random
import re
from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.parsing.brackets import unescape

CORPORA = (
    *("linnaeus", "BC2GM", "AnatEM", "BC5CDR", "NCBI-disease", "BioNLP13CG", "BioNLP11EPI"),
    *("BioNLP13GE", "BioNLP13PC", "BioNLP09", "BioNLP11ID", "Ex-PTM"),
)
# The corpora split words at each mark. These patterns, applied in order, join them again, so that
# CRAFT's rules can split them.
JOINS = (
    (r"(?<=\d) \. (?=\d)", "."),
    *((rf"(?<= \d{{{digits}}}) , (?=\d{{3}} )", ",") for digits in (1, 2, 3)),
    (r"(?<=\w) ' s ", "'s "),
    (r" (i|e) \. (e|g) \. ", r" \1.\2. "),
    (r" (al|vs|Figs?|cf|No|Dr|approx|resp|St|Inc|Co|Ltd|Corp|spp?|ca) \. (?=\S)", r" \1. "),
    (r" ([A-Z]) \. (?=[a-z])", r" \1. "),
    *[(r"(?<=[A-Za-z0-9]) ([-/]) (?=[A-Za-z0-9])", r"\1")] * 2,
    (r"([\(\[]) ", r"\1"),
    (r" ([\)\]])", r"\1"),
    (r" ([,;:]) ", r"\1 "),
    (r"(?<=\d) ([%°])", r"\1"),
    (r" ([.?!]) $", r"\1"),
)


@dataclass(kw_only=True)
class Options:
    data_dir: Path
    """The folder `data` of that repository."""
    treebanks: tuple[Path, ...]
    """CRAFT's trees."""
    near: int = 20
    """The number of sentences to leave out before and after a sentence of CRAFT."""
    max_words: int = 60
    """Longer sentences are left out."""
    max_letters: int = 25
    """Sentences with longer words, mostly of DNA, are left out."""
    seed: int = 1
    """Seed of the order of the sentences."""


def main(options):
    known = {key(sentence) for sentence in sentences_of_craft(options) if len(key(sentence)) >= 30}
    found = {}
    for path in paths(options, CORPORA):
        sentences = [*sentences_of(path)]
        for sentence in far_from(known, sentences, options.near):
            if len(key(sentence)) >= 8:
                found.setdefault(key(sentence), " ".join(sentence))
    cut = (words_of(text, options) for text in found.values())
    different = [*{" ".join(words): words for words in cut if words}.values()]
    random.Random(options.seed).shuffle(different)
    for sentence in different:
        # NLTK reads a backslash in a tree as an escape.
        if max(map(len, sentence)) <= options.max_letters and "\\" not in sentence:
            print(json.dumps(sentence))


def paths(options, corpora):
    """Yield the files of corpora, with the files of all entity types together."""
    for corpus in corpora:
        files = sorted(options.data_dir.glob(f"{corpus}-IOB/*.tsv"))
        if not files:
            raise kt.UserError(f"There is no {corpus}-IOB/*.tsv in {options.data_dir}.")
        yield from files


def sentences_of(path):
    for is_blank, lines in itertools.groupby(path.open(encoding="utf-8"), lambda x: x == "\n"):
        if not is_blank:
            yield [line.rstrip("\n").split("\t")[0] for line in lines]


def sentences_of_craft(options):
    for path in options.treebanks:
        for tree in kt.parsing.Treebank.from_file(path):
            yield [unescape(word) for word in tree.leaves()]
    for path in paths(options, ["CRAFT*"]):
        yield from sentences_of(path)


def key(sentence):
    """Return a text that does not depend on how a sentence was split into words."""
    return re.sub(r"[^a-z0-9]", "", "".join(sentence).lower())


def far_from(known, sentences, distance):
    left_out = set()
    for i, sentence in enumerate(sentences):
        if key(sentence) in known:
            left_out.update(range(i - distance, i + distance + 1))
    return [sentence for i, sentence in enumerate(sentences) if i not in left_out]


def words_of(text, options):
    """Return a sentence in CRAFT's words, or None for tables, lists and incomplete sentences."""
    joined = f" {text} "
    for pattern, replacement in JOINS:
        joined = re.sub(pattern, replacement, joined)
    words = kt.parsing.tokenize_words(joined.strip(), "craft")
    is_prose = sum(map(str.isalpha, text)) >= 0.5 * len(text.replace(" ", ""))
    is_whole = text.count("(") == text.count(")")
    return words if 4 <= len(words) <= options.max_words and is_prose and is_whole else None


if __name__ == "__main__":
    run(main, Options)
