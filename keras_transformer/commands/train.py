"""The commands that train a model."""

from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, this_command
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.parsing.train_parser import train_parser
from keras_transformer.parsing.treebanks import Treebank
from keras_transformer.translation.train_translator import train_translator


@dataclass(kw_only=True)
class TranslationCorpus(kt.data.MixtureOptions):
    """The corpus."""

    dataset: str
    """multi30k, multi30k.lc.norm.tok, tatoeba, wmt14, text, catalogs or synthetic."""
    source: str = "en"
    """Language to translate from."""
    target: str = "de"
    """Language to translate into."""
    data_dir: Path | None = kt.training.mutable_on_resume(None)
    """Folder that holds the corpus. Without it, the corpus is downloaded if it can be."""

    def load(self, split: str) -> ParallelText:
        """Return the sentence pairs of a split."""
        return kt.data.load_mixture(
            self.dataset, split, self.source, self.target, self.data_dir, self
        )


@dataclass(kw_only=True)
class TrainTranslationOptions(CommonOptions, kt.translation.TranslatorTrainingOptions):
    corpus: TranslationCorpus


def train_translation(options: TrainTranslationOptions) -> None:
    """Train a Transformer to translate, as in section 5 of "Attention Is All You Need"."""
    corpus = options.corpus
    _, report = train_translator(
        kt.Translator,
        corpus.load("train"),
        corpus.load("val"),
        corpus.load("test"),
        options=options,
        dataset=corpus.dataset,
        command=this_command(),
    )
    print(report)


@dataclass(kw_only=True)
class ParsingCorpus:
    """The treebank."""

    dataset: str
    """synthetic, ptb, craft, ewt or trees."""
    extra_trees: Path | None = None
    """File with more trees to train on, such as another parser's output (section 6.3)."""
    data_dir: Path | None = kt.training.mutable_on_resume(None)
    """Folder that holds the corpus. Without it, the corpus is downloaded if possible."""

    def load(self, split: str) -> Treebank:
        """Return the trees of a split."""
        return kt.parsing.load_treebank(self.dataset, split, self.data_dir)

    def load_extra(self) -> Treebank | None:
        """Return the extra training trees."""
        if self.extra_trees is None:
            return None
        return Treebank.from_file(self.extra_trees)


@dataclass(kw_only=True)
class TrainParsingOptions(CommonOptions, kt.parsing.ParserTrainingOptions):
    corpus: ParsingCorpus


def train_parsing(options: TrainParsingOptions) -> None:
    """Train a Transformer to parse, as in section 6.3 of "Attention Is All You Need"."""
    corpus = options.corpus
    _, report = train_parser(
        kt.ConstituencyParser,
        corpus.load("train"),
        corpus.load("val"),
        corpus.load_extra(),
        corpus.load("test"),
        options=options,
        dataset=corpus.dataset,
        command=this_command(),
    )
    print(report)
