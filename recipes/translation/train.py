"""Train a Transformer to translate, as in section 5 of "Attention Is All You Need"."""

from dataclasses import dataclass
from pathlib import Path

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, run, this_command


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
    """Folder that holds the corpus. Without it, a corpus that can be fetched is fetched."""


@dataclass(kw_only=True)
class Options(CommonOptions, kt.translation.TranslatorTrainingOptions):
    corpus: Corpus


def main(options):
    training = kt.training.begin_training(options)

    # Data and batching (section 5.1)
    train, val, test = (load(options.corpus, split) for split in ("train", "val", "test"))
    train, left_out = kt.data.filter_pairs(train, options.filters)
    tokenizers = kt.translation.make_tokenizers(train, options.vocabulary, training)
    training = kt.training.check_data(training, train, *tokenizers.encoders, val=val)
    batches = kt.translation.make_translation_batches(train, val, tokenizers, options, training)

    # Model (section 3), optimizer (5.3), regularisation (5.4)
    target = tokenizers.target
    model = kt.training.make_model(target.vocabulary_size, options, training, **tokenizers.sizes)
    origin = {name: getattr(options.corpus, name) for name in ("source", "target", "dataset")}
    origin |= kt.translation.tags_of(train)
    translator = kt.Translator(model, target, origin, **tokenizers.parts)
    # The fastest search, for scores: the beam is in `evaluate.py`, and in the model that is saved.
    greedy = kt.Translator(model, target, origin, **tokenizers.parts, search=kt.greedy_search)

    # Training (section 5.2)
    bleu = {"val_bleu": lambda: round(kt.evaluation.score_text(greedy, val).bleu, 2)}
    fitted = kt.training.fit(model, *batches, training, options.fitting, options.checkpoints, bleu)

    # Averaging the last checkpoints, and evaluation (section 6.1)
    weights = kt.training.average_weights(model, training, options.checkpoints)
    validation = kt.training.validate(model, batches.val)
    scores = {text.split: kt.evaluation.score_text(greedy, text) for text in (val, test)}
    facts, lines = report(fitted, weights, validation, scores)

    # Saving
    title = f"{options.corpus.source} to {options.corpus.target}, trained on {train.name}"
    left_out |= kt.translation.long_pairs(batches)
    facts = {**origin, **kt.translation.parts_of(train), "left_out": left_out, **facts}
    if val.prefix:
        translator = translator.tagged(*val.prefix)
    kt.training.save_training(translator, facts, title, lines, options, training, batches, fitted)


def load(corpus, split):
    return kt.data.load_mixture(
        corpus.dataset, split, corpus.source, corpus.target, corpus.data_dir, corpus
    )


def report(fitted, weights, validation, scores):
    """Print the scores; returns them as facts, and as lines of the model card."""
    before, after = fitted.history["val_bleu"][-1], scores["val"].bleu
    print(f"val: BLEU {before:.2f} with the last weights, {after:.2f} with the {weights}")
    for split, result in scores.items():
        print(f"{split}, greedy search, {weights}:\n{result}")
    facts = {
        "command": this_command(),
        "validation": validation,
        "val_bleu_before_averaging": before,
        "scores": {split: result.to_dict() for split, result in scores.items()},
    }
    lines = [
        f"{split}, greedy search: {kt.evaluation.describe_bleu(result)}"
        for split, result in scores.items()
    ]
    return facts, lines


if __name__ == "__main__":
    run(main, Options)
