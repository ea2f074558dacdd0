"""Train a Transformer to translate, as in section 5 of "Attention Is All You Need"."""

import importlib.util
import json
import shlex
import sys
import time
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import keras

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.parallel_text import bleu_tokenize, load_parallel_text
from keras_transformer.data.token_store import TokenStore
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.evaluation.bleu import score_translations
from keras_transformer.files import whole
from keras_transformer.training.callbacks import LogScore, StopAtStep
from keras_transformer.training.checkpoints import (
    RollingCheckpoints,
    list_checkpoints,
    load_weights,
)
from keras_transformer.training.distribution import choose_devices
from keras_transformer.training.metrics import Perplexity, TokenAccuracy


@dataclass
class Options:
    dataset: str
    """multi30k, multi30k.lc.norm.tok, tatoeba, wmt14, text or synthetic."""
    output_dir: Path
    """Folder for the tokenizer, checkpoints, logs and, in model/, the trained model."""
    data_dir: Path | None = None
    """Folder that holds the corpus. Without it, a corpus that can be fetched is fetched."""
    source: str = "en"
    """Language to translate from."""
    target: str = "de"
    """Language to translate into."""
    variant: str = "tiny"
    """Size of the model: a row of Table 3, tiny or small."""
    vocabulary_size: int = 6000
    """Size of the BPE vocabulary that both languages share (section 5.1)."""
    batch_tokens: int = 2048
    """Source tokens in a batch at most, and target tokens at most, padding included."""
    num_shapes: int = 12
    """Distinct batch shapes at most: more waste less on padding, and take longer to compile."""
    steps: int = 7500
    """Number of updates."""
    warmup_steps: int = 2000
    """Updates over which the learning rate grows (section 5.3)."""
    peak_learning_rate: float | None = 0.003
    """Learning rate at the end of the warm-up; "None" for the paper's, 1 / sqrt(hidden_dim *
    warmup_steps)."""
    dropout: float | None = None
    """P_drop (section 5.4), if not the variant's."""
    label_smoothing: float | None = None
    """epsilon_ls (section 5.4), if not the variant's."""
    interval: int = 500
    """Updates between two checkpoints, each with its validation scores."""
    average: int = 5
    """How many of the last checkpoints to average into the model (section 6.1)."""
    replicas: int | None = None
    """Devices that share each batch. Defaults to all GPUs, or to one CPU."""
    seed: int = 1
    """Seed of weights, dropout and batches."""


def main(options):
    start = time.time()
    devices = choose_devices(options.replicas)
    keras.utils.set_random_seed(options.seed)
    hyperparameters = kt.get_variant(options.variant)
    run_dir = options.output_dir

    # Data and batching (section 5.1)
    train, val, test = (
        load_parallel_text(options.dataset, split, options.source, options.target, options.data_dir)
        for split in ("train", "val", "test")
    )
    tokenizer = Tokenizer.train(chain.from_iterable(train), options.vocabulary_size)
    train_store, val_store = (
        TokenStore.build_once(run_dir / "tokens" / text.split, text, tokenizer)
        for text in (train, val)
    )
    train_batches = TokenBatches(
        train_store,
        options.batch_tokens,
        options.num_shapes,
        rows_multiple=devices.num_replicas,
        seed=options.seed,
    )
    val_batches = TokenBatches(
        val_store,
        options.batch_tokens,
        num_shapes=3,
        rows_multiple=devices.num_replicas,
        training=False,
    )
    print(
        f"{len(train)} training pairs, {len(train_batches)} batches an epoch of "
        f"{len(train_batches.shapes)} shapes, {train_batches.real_token_share():.1%} of the slots "
        "are tokens"
    )

    # Model (section 3), optimizer (5.3), regularisation (5.4)
    smoothing = options.label_smoothing
    smoothing = hyperparameters["label_smoothing"] if smoothing is None else smoothing
    overrides = {} if options.dropout is None else {"dropout": options.dropout}
    with devices.scope():
        model = kt.Transformer.from_variant(
            options.variant, vocabulary_size=tokenizer.vocabulary_size, **overrides
        )
        model.compile(
            optimizer=keras.optimizers.Adam(
                learning_rate(options, hyperparameters["hidden_dim"]),
                beta_1=0.9,
                beta_2=0.98,
                epsilon=1e-9,
            ),
            loss=kt.LabelSmoothedCrossentropy(smoothing, reduction="sum"),
            weighted_metrics=[TokenAccuracy(), Perplexity()],
            jit_compile=devices.jit_compile,
        )
    print(f"{model.count_params():,} parameters")

    # Training (section 5.2)
    origin = {"source": options.source, "target": options.target, "dataset": options.dataset}
    # Greedy search, the fastest: `evaluate.py` has the beam.
    translator = kt.Translator(model, tokenizer, metadata=origin, beam_size=1, alpha=0.0)

    def score(text):
        sources, references = zip(*text)
        return score_translations(
            translator(sources), references, tokenize=bleu_tokenize(options.dataset)
        )

    fit_start = time.time()
    history = model.fit(
        train_batches.stream(),
        shuffle=False,  # the batches are planned
        epochs=-(-options.steps // options.interval),
        steps_per_epoch=min(options.interval, options.steps),
        validation_data=val_batches,
        callbacks=[
            StopAtStep(options.steps),
            LogScore("val_bleu", lambda: round(score(val).bleu, 2)),
            RollingCheckpoints(run_dir / "checkpoints", keep=options.average),
            *tensorboard(run_dir),
        ],
    )
    fit_seconds = time.time() - fit_start

    # Averaging the last checkpoints, and evaluation (section 6.1)
    averaged = run_dir / "averaged.weights.h5"
    kt.average_checkpoints(list_checkpoints(run_dir / "checkpoints"), averaged)
    load_weights(model, averaged)
    scores = {text.split: score(text) for text in (val, test)}
    for split, result in scores.items():
        print(f"{split}, greedy search, last {options.average} checkpoints averaged:\n{result}")

    # Saving
    tokens = options.steps / len(train_batches) * (train_store.target.lengths + 1).sum()
    facts = {
        **origin,
        "command": shlex.join(["python", *sys.argv]),
        "backend": keras.backend.backend(),
        "seed": options.seed,
        "steps": options.steps,
        "parameters": model.count_params(),
        "seconds": round(time.time() - start),
        "seconds_of_fit": round(fit_seconds),
        "target_tokens_per_second": round(float(tokens / fit_seconds)),
        "scores": {split: result.to_dict() for split, result in scores.items()},
    }
    with whole(run_dir / "results.json") as path:
        path.write_text(json.dumps({**facts, "history": history.history}, indent=2) + "\n")
    translator.save_to_preset(run_dir / "model", card=model_card(facts, scores))
    print(f"{facts['seconds']} s in all. The model is in {run_dir / 'model'}.")


def learning_rate(options, hidden_dim):
    if options.peak_learning_rate is None:
        return kt.NoamSchedule(hidden_dim, options.warmup_steps)
    return kt.NoamSchedule.from_peak(options.peak_learning_rate, hidden_dim, options.warmup_steps)


def tensorboard(run_dir):
    """TensorBoard's log is written by TensorFlow, which the other backends do without."""
    if importlib.util.find_spec("tensorflow") is None:
        print("No TensorBoard log: tensorflow is not installed.")
        return []
    return [keras.callbacks.TensorBoard(run_dir / "tensorboard")]


def model_card(facts, scores):
    lines = [
        f"# {facts['source']} to {facts['target']}, trained on {facts['dataset']}",
        "",
        f"- command: `{facts['command']}`",
        f"- backend {facts['backend']}, seed {facts['seed']}, {facts['steps']} updates, "
        f"{facts['parameters']:,} parameters, {facts['seconds']} s in all",
    ]
    for split, result in scores.items():
        lines += [
            f"- {split}, greedy search: BLEU {result.bleu:.2f} (`{result.bleu_signature}`), "
            f"chrF {result.chrf:.2f} (`{result.chrf_signature}`)"
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    run(main, Options)
