"""Train a Transformer to translate, as in section 5 of "Attention Is All You Need"."""

from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, this_command


@dataclass(kw_only=True)
class Corpus(kt.data.MixtureOptions):
    """The corpus."""

    dataset: str
    """multi30k, multi30k.lc.norm.tok, tatoeba, wmt14, text, catalogs or synthetic."""
    source: str = "en"
    """Language to translate from."""
    target: str = "de"
    """Language to translate into."""
    data_dir: Path | None = kt.training.mutable_on_resume(None)
    """Folder that holds the corpus. Without it, the corpus is downloaded if it can be."""


@dataclass(kw_only=True)
class Options(CommonOptions, kt.translation.TranslatorTrainingOptions):
    corpus: Corpus


def main(options: Options) -> None:
    from keras_transformer.translation.train_translator import train_translator

    train, val, test = (load(options.corpus, split) for split in ("train", "val", "test"))
    _, report = train_translator(
        *(kt.Translator, train, val, test),
        options=options,
        dataset=options.corpus.dataset,
        command=this_command(),
    )
    print(report)


def load(corpus, split):
    return kt.data.load_mixture(
        corpus.dataset, split, corpus.source, corpus.target, corpus.data_dir, corpus
    )
