"""Train a Transformer to translate, as in section 5 of "Attention Is All You Need"."""

from dataclasses import dataclass
from itertools import chain

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.data.parallel_text import bleu_tokenize, load_parallel_text
from keras_transformer.evaluation.bleu import score_translations
from keras_transformer.tasks.training_run import TrainingOptions, TrainingRun


@dataclass(kw_only=True)
class Options(TrainingOptions):
    dataset: str
    """multi30k, multi30k.lc.norm.tok, tatoeba, wmt14, text or synthetic."""
    source: str = "en"
    """Language to translate from."""
    target: str = "de"
    """Language to translate into."""


def main(options):
    training = TrainingRun(options)

    # Data and batching (section 5.1)
    train, val, test = (
        load_parallel_text(options.dataset, split, options.source, options.target, options.data_dir)
        for split in ("train", "val", "test")
    )
    tokenizer = training.tokenizer(chain.from_iterable(train))
    training.plan_batches(train, val, tokenizer)

    # Model (section 3), optimizer (5.3), regularisation (5.4)
    model = training.build_model(tokenizer.vocabulary_size)
    origin = {"source": options.source, "target": options.target, "dataset": options.dataset}
    # Greedy search, the fastest: `evaluate.py` has the beam.
    translator = kt.Translator(model, tokenizer, metadata=origin, beam_size=1, alpha=0.0)

    def score(text):
        sources, references = zip(*text)
        return score_translations(
            translator(sources), references, tokenize=bleu_tokenize(options.dataset)
        )

    # Training (section 5.2)
    training.fit(model, "val_bleu", lambda: round(score(val).bleu, 2))

    # Averaging the last checkpoints, and evaluation (section 6.1)
    before = training.history["val_bleu"][-1]
    weights = training.average()
    scores = {text.split: score(text) for text in (val, test)}
    print(
        f"val: BLEU {before:.2f} with the last weights, {scores['val'].bleu:.2f} with the {weights}"
    )
    for split, result in scores.items():
        print(f"{split}, greedy search, {weights}:\n{result}")

    # Saving
    training.save(
        translator,
        {
            **origin,
            "val_bleu_before_averaging": before,
            "scores": {split: result.to_dict() for split, result in scores.items()},
        },
        [
            f"{options.source} to {options.target}, trained on {options.dataset}",
            *(
                f"{split}, greedy search: BLEU {result.bleu:.2f} (`{result.bleu_signature}`), "
                f"chrF {result.chrf:.2f} (`{result.chrf_signature}`)"
                for split, result in scores.items()
            ),
        ],
    )


if __name__ == "__main__":
    run(main, Options)
