"""Measure the precision and recall of `Translator.check_translations`, on faults that are made.

    python -m benchmarks.translation_checks --data-dir data multi30k_en_de tatoeba_en_de

Texts are `--sentences` sentences of a validation set, each with its reference or the model's own
translation. A sentence of the translation is dropped or doubled. Thresholds are chosen on the
first half of the texts, as the strictest that one in a hundred texts without a fault passes, and
all figures are of the other half. Numbers and placeholders need no model: without the name of one,
only they are measured, on pairs by which their rules were not chosen.
"""

import argparse
import random
import re
import time
from collections import Counter

import numpy as np

import keras_transformer as kt
from keras_transformer.data.corpora import load_parallel_text
from keras_transformer.data.text_lines import split_sentences
from keras_transformer.translation import checks
from keras_transformer.translation.scoring import teacher_forced
from keras_transformer.untranslated import UNTRANSLATED

SHARE = 0.01  # of the texts without a fault, which may be found by a threshold
LEAST_WORDS = 3  # of a sentence
_DIGITS = re.compile(r"\d+")
# Pairs by which neither signal was chosen: a corpus, its splits, and two languages.
_PAIRS = (
    *(("catalogs", ("train",), "en", language) for language in ("de", "ru", "zh", "ja")),
    ("tatoeba", ("val", "test"), "en", "de"),
    ("multi30k", ("val", "test"), "en", "de"),
    ("multi30k", ("train",), "en", "fr"),
)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", help="names of presets")
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--texts", type=int, default=300)
    parser.add_argument("--sentences", type=int, nargs=2, default=(1, 4), help="fewest and most")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begin, tables, found = time.time(), [], []
    for model in options.models:
        translator = kt.Translator.from_preset(model)
        rng = random.Random(options.seed)
        made = made_texts(translator, options, rng)
        print(f"{model}: {len(made)} texts, {time.time() - begin:.0f} s", flush=True)
        tables.append((model, made, values_of(translator, made)))
        found += [
            (model, half, fault, {finding.kind for finding in check.findings})
            for (half, fault, *_), check in zip(
                made, translator.check_translations([x[2] for x in made], [x[3] for x in made])
            )
        ]
    if options.models:
        print_thresholds(tables)
        print_findings(found)
    print_numbers_and_placeholders(options)
    print(f"{time.time() - begin:.0f} s")


def made_texts(translator, options, rng):
    """Return tuples (half, fault, source, translation)."""
    source, target = (translator.metadata[side] for side in ("source", "target"))
    name = "tatoeba" if "tatoeba" in translator.metadata["dataset"] else "multi30k"
    pairs = [*load_parallel_text(name, "val", source, target, options.data_dir)]
    pairs = [pair for pair in pairs if len(pair[0].split()) >= LEAST_WORDS]
    groups = [rng.sample(pairs, rng.randint(*options.sentences)) for _ in range(options.texts)]
    own = dict.fromkeys(source for group in groups for source, _ in group)
    own = dict(zip(own, translator([*own])))
    made = []
    for index, group in enumerate(groups):
        half = 2 * index // len(groups)
        text = " ".join(source.strip() for source, _ in group)
        for targets in ([y.strip() for _, y in group], [own[x] for x, _ in group]):
            made.append((half, "none", text, " ".join(targets)))
            place = rng.randrange(len(group))
            made.append((half, "doubled", text, " ".join(targets[: place + 1] + targets[place:])))
            if len(group) > 1:
                del targets[place]
                made.append((half, "dropped", text, " ".join(targets)))
    return made


def values_of(translator, made):
    """Return the value of each signal with a threshold per text; larger is worse."""
    text, model = translator.preprocessor, translator.model
    sources, targets = (
        text.encode_sources([x[2] for x in made]),
        text.encode_targets([x[3] for x in made]),
    )
    layer = max(checks.LAYER, -len(model.decoder.layers))
    outputs = teacher_forced(model, sources, targets, translator.batch_tokens, layer=layer)
    rows = []
    for (_, _, source, translation), ids, output in zip(made, sources, outputs):
        parts = split_sentences(source, translator.metadata["source"])
        length = len(output.log_probs) / len(ids)
        log_probs = output.log_probs
        rows.append(
            {
                "coverage": -min(checks.sentence_coverage(parts, output.attention, text)),
                "length": -length,
                "excess length": length,
                "repetition": checks.num_repeated(translation)[0] - checks.num_repeated(source)[0],
                "lowest log-probability": -log_probs.min(),
                "mean log-probability": -log_probs.mean(),
                "log-probability of the end": -log_probs[-1],
            }
        )
    return rows


def print_thresholds(tables):
    print(f"\nthresholds that {SHARE:.0%} of the first half passes: other half")
    for model, made, rows in tables:
        fault = np.array([x[1] for x in made])
        half = np.array([x[0] for x in made])
        for name in rows[0]:
            values = np.array([row[name] for row in rows])
            clean = np.sort(values[(fault == "none") & (half == 0)])
            threshold = clean[int(len(clean) * (1 - SHARE))]
            passed = {
                x: (values[(fault == x) & (half == 1)] > threshold).mean() for x in np.unique(fault)
            }
            kind = max(("dropped", "doubled"), key=passed.get)
            precision = passed[kind] / max(passed[kind] + passed["none"], 1e-9)
            print(
                f"{model} {name}: threshold {threshold:.2f}, {kind}: "
                f"precision {precision:.3f}, recall {passed[kind]:.2f}, "
                f"without a fault {passed['none']:.3f}"
            )


def print_findings(found):
    print("\n`check`, other half: share of the texts with a finding")
    models = sorted({model for model, *_ in found})
    for model in models:
        for kind in (*checks.KINDS, "any"):
            shares = {}
            for fault in ("none", "dropped", "doubled"):
                kinds = [x[3] for x in found if x[0] == model and x[1] == 1 and x[2] == fault]
                shares[fault] = np.mean([kind in x or (kind == "any" and bool(x)) for x in kinds])
            if any(shares.values()):
                print(model, kind, *(f"{fault} {share:.3f}" for fault, share in shares.items()))


def print_numbers_and_placeholders(options):
    """Print the figures of the two signals that need no model, on pairs of people."""
    print("\nnumbers and placeholders: share of the pairs with a finding")
    for name, splits, source, target in _PAIRS:
        pairs = [
            pair
            for split in splits
            for pair in load_parallel_text(name, split, source, target, options.data_dir)
        ]
        label = f"{name} {source}-{target} {' and '.join(splits)}"
        print_shares(f"{label}, numbers", pairs, _DIGITS, checks.number_finding, options)
        if name == "catalogs":
            kept = checks.placeholder_finding
            print_shares(f"{label}, placeholders", pairs, UNTRANSLATED, kept, options)


def print_shares(label, pairs, pattern, finding, options):
    """Print how many sound and faulty pairs have a finding.

    A pair is faulty if one number or placeholder of its translation is changed (a number becomes
    another), left out or doubled.
    """
    rng = random.Random(options.seed)
    pairs = [pair for pair in pairs if pattern.search(pair[0])]
    sound = sum(finding(*pair) is not None for pair in pairs) / max(len(pairs), 1)
    counts, num_faulty = Counter(), 0
    for source, target in pairs:
        if found := [*pattern.finditer(target)]:
            match = rng.choice(found)
            faults = {"left out": ""}
            if pattern is _DIGITS:
                faults["changed"] = str(int(match[0]) + rng.randint(1, 9))
            else:
                faults["doubled"] = f"{match[0]} {match[0]}"
            num_faulty += 1
            for fault, new in faults.items():
                text = target[: match.start()] + new + target[match.end() :]
                counts[fault] += finding(source, text) is not None
    print(f"{label}: {len(pairs)} sound pairs, found {sound:.4f}; {num_faulty} faulty pairs")
    for fault, count in counts.items():
        recall = count / num_faulty
        print(f"  {fault}: precision {recall / (recall + sound):.3f}, recall {recall:.3f}")


if __name__ == "__main__":
    main()
