"""Write sentences of biology in the words of CRAFT, for silver trees: none known to be CRAFT's.

They are of the corpora that Crichton et al. (2017) brought into one form, a word a line and a blank
line behind each sentence: github.com/cambridgeltl/MTL-Bioinformatics-2016, CC BY 4.0. Some have
articles that CRAFT has too: what is near a sentence of these is left out.
"""

import itertools
import json
import random
import re
from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import run

CORPORA = (
    *("linnaeus", "BC2GM", "AnatEM", "BC5CDR", "NCBI-disease", "BioNLP13CG", "BioNLP11EPI"),
    *("BioNLP13GE", "BioNLP13PC", "BioNLP09", "BioNLP11ID", "Ex-PTM"),
)
# The corpora cut words at each mark. What is put together again, in this order, CRAFT's rules cut.
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
    """The repository's folder data."""
    treebanks: tuple[Path, ...]
    """CRAFT's trees."""
    near: int = 20
    """So many sentences before and after one of CRAFT's are left out."""
    max_words: int = 60
    """Longer sentences are left out."""
    max_letters: int = 25
    """Sentences with longer words, mostly of DNA, are left out."""
    seed: int = 1
    """Of the sentences' order."""


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
        # A backslash is more than a word where NLTK reads trees.
        if max(map(len, sentence)) <= options.max_letters and "\\" not in sentence:
            print(json.dumps(sentence))


def paths(options, corpora):
    """The files of corpora, those of all kinds of names together."""
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
            yield [kt.data.trees.unescape(word) for word in tree.leaves()]
    for path in paths(options, ["CRAFT*"]):
        yield from sentences_of(path)


def key(sentence):
    """What is the same however a sentence was cut into words."""
    return re.sub(r"[^a-z0-9]", "", "".join(sentence).lower())


def far_from(known, sentences, distance):
    left_out = set()
    for i, sentence in enumerate(sentences):
        if key(sentence) in known:
            left_out.update(range(i - distance, i + distance + 1))
    return [sentence for i, sentence in enumerate(sentences) if i not in left_out]


def words_of(text, options):
    """A sentence in CRAFT's words, or None of tables, lists and halves of sentences."""
    joined = f" {text} "
    for pattern, replacement in JOINS:
        joined = re.sub(pattern, replacement, joined)
    words = kt.parsing.tokenize_words(joined.strip(), "craft")
    is_prose = sum(map(str.isalpha, text)) >= 0.5 * len(text.replace(" ", ""))
    is_whole = text.count("(") == text.count(")")
    return words if 4 <= len(words) <= options.max_words and is_prose and is_whole else None


if __name__ == "__main__":
    run(main, Options)
