"""Options of stages, put together: command lines, keywords, and what may change on resume."""

import dataclasses
import re
from dataclasses import dataclass
from typing import Literal, get_args

import pytest

from keras_transformer.command_line import flags_of, name_flags
from keras_transformer.commands import main
from keras_transformer.commands.translate import TranslateOptions
from keras_transformer.errors import UserError
from keras_transformer.option_fields import (
    fixed_settings,
    from_keywords,
    mutable_on_resume,
    option_names,
)
from keras_transformer.parsing.parser_options import ParserTrainingOptions, TreeOptions
from keras_transformer.parsing.train_parser import make_linearization
from keras_transformer.tasks.pipeline import TrainingOptions, begin_training
from keras_transformer.translation.train_translator import TranslatorTrainingOptions
from keras_transformer.validation import positive_integer, positive_number

pytestmark = pytest.mark.once

# The flags of both trainings: files of options and scripts of users hold them.
COMMON = tuple(
    """
    --quiet --no-quiet --compilation-cache --init --lora --output-dir --data-dir --variant --scale
    --num-layers --num-decoder-layers
    --vocabulary-size --vocabulary-sentences --vocabulary-type --normalization
    --character-coverage --byte-fallback --no-byte-fallback --batch-tokens --num-shapes
    --steps --warmup-steps --cooldown-steps --peak-learning-rate --dropout
    --label-smoothing --interval --checkpoint-steps --checkpoint-minutes --average --keep
    --keep-best --patience
    --ema --accumulate --clip-norm
    --precision --deterministic --no-deterministic
    --resume --no-resume --overwrite --no-overwrite --replicas --coordinator --num-processes
    --process-id --seed --dataset
    """.split()
)
TRANSLATION = tuple(
    """
    --source --target --also --tag-target --no-tag-target --source-vocabulary-size
    --decoder --zero-start --no-zero-start --split --protect --no-protect --augment
    --shortlist --no-shortlist
    --max-characters --max-tokens --max-ratio --drop-identical --no-drop-identical
    --drop-duplicates --no-drop-duplicates --check-scripts --no-check-scripts
    """.split()
)
PARSING = tuple(
    """
    --tags --tag-loss-weight
    --extra-trees
    --extra-ratio
    --deterministic-attention --no-deterministic-attention --linearization --word-tokenizer
    --tag-dictionary --extra-length
    --beam-size --alpha --val-sentences
    """.split()
)


@pytest.mark.parametrize(("task", "flags"), [("translation", TRANSLATION), ("parsing", PARSING)])
def test_help_of_train_lists_all_flags(task, flags, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main(["train", task, "--help"])
    # A flag begins a line, in a box where the terminal can draw one; its negation follows it.
    printed = capsys.readouterr().out
    found = re.findall(r"^[│ ]? (--[a-z][a-z-]*)(?:, (--no-[a-z-]+))?", printed, re.MULTILINE)
    found = [flag for pair in found for flag in pair if flag]
    assert sorted(found) == sorted([*COMMON, *flags])


# The names that states of the first version hold, of which a training still goes on.
FIXED = {
    *("variant", "scale", "num_layers", "vocabulary_size", "vocabulary_sentences"),
    *("batch_tokens", "num_shapes", "warmup_steps", "peak_learning_rate", "dropout"),
    *("label_smoothing", "interval", "ema", "accumulate", "clip_norm"),
    *("precision", "deterministic", "num_processes", "seed"),
}
# Those of later versions: a state that lacks one was trained with its default.
ADDED = {
    *("vocabulary_type", "normalization", "character_coverage", "byte_fallback"),
    *("cooldown_steps", "num_decoder_layers", "init", "lora"),
}
OF_TREES = {
    *("extra_ratio", "tag_dictionary"),
    *("deterministic_attention", "linearization", "tags", "tag_loss_weight"),
    *("extra_length", "beam_size", "alpha", "val_sentences"),
}


def test_fixed_settings_of_a_resumed_training():
    of_all = FIXED | ADDED
    for kind, names in ((TrainingOptions, of_all), (ParserTrainingOptions, of_all | OF_TREES)):
        options = from_keywords(kind, {"output_dir": "runs/x", "steps": 3})
        assert fixed_settings(options).keys() == names
    options = from_keywords(TrainingOptions, {"output_dir": "x", "clip_norm": 2.0})
    assert fixed_settings(options)["clip_norm"] == 2.0


@dataclass(kw_only=True)
class Inner:
    size: int = 3
    folder: str = mutable_on_resume()


@dataclass(kw_only=True)
class WithChoices:
    form: Literal["bpe", "unigram"] = "bpe"
    other: Literal["a"] | None = None
    number: int | None = None


def test_values_outside_the_choices_are_refused():
    for values in ({"form": "unigram"}, {"other": "a"}, {"other": None}, {"number": 3}):
        assert from_keywords(WithChoices, values) == WithChoices(**values)
    with pytest.raises(UserError, match="`form` must be one of 'bpe', 'unigram'. .*form='x'"):
        from_keywords(WithChoices, {"form": "x"})
    for values in ({"form": None}, {"form": ["bpe"]}, {"other": "b"}):
        with pytest.raises(UserError, match="must be one of"):
            from_keywords(WithChoices, values)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (TranslatorTrainingOptions, "vocabulary_type"),
        (TranslatorTrainingOptions, "normalization"),
        (ParserTrainingOptions, "linearization"),
        (ParserTrainingOptions, "word_tokenizer"),
    ],
)
def test_choices_of_trainings_are_validated(kind, name):
    with pytest.raises(UserError, match=f"`{name}` must be one of .*{name}='x'"):
        from_keywords(kind, {"output_dir": "x", name: "x"})
    with pytest.raises(UserError, match="`linearization` must be one of"):
        make_linearization(TreeOptions(linearization="x"))


@pytest.mark.parametrize("value", ["10", "x"])
def test_a_string_in_place_of_a_number_is_shown_as_a_string(value):
    with pytest.raises(UserError, match=f"Received: steps='{value}'"):
        positive_integer("steps", value)
    with pytest.raises(UserError, match=f"Received: rate='{value}'"):
        positive_number("rate", value)


def test_flags_have_the_names_of_the_command_line():
    flags = flags_of(TranslateOptions)
    assert (flags["output"], flags["source_lang"]) == ("-o", "--source-lang")
    assert "sentences" not in flags  # positional


@dataclass(kw_only=True)
class Outer:
    inner: Inner
    name: str = mutable_on_resume("x")


def test_keywords_are_assigned_to_their_stage():
    assert option_names(Outer) == ["size", "folder", "name"]
    options = from_keywords(Outer, {"folder": "here", "name": "y"})
    assert options == Outer(inner=Inner(folder="here"), name="y")
    assert fixed_settings(options) == {"size": 3}


def test_unknown_and_missing_keywords_are_refused():
    with pytest.raises(UserError, match="no option `folders`. The most similar one is `folder`"):
        from_keywords(Outer, {"folders": "here"})
    with pytest.raises(UserError, match="option `folder` is required"):
        from_keywords(Outer, {})


FLAGS = {"resume": "--resume", "steps": "--steps", "data_dir": "--data-dir", "output": "-o"}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Pass `resume=True` to go on.", "Pass --resume to go on."),
        ("Pass `resume=False`.", "Pass --no-resume."),
        ("Pass `steps=30` or more.", "Pass --steps 30 or more."),
        ("Name it with `data_dir`.", "Name it with --data-dir."),
        ("`steps` must be positive.", "--steps must be positive."),
        ("Pass another `output`.", "Pass another -o."),
        ("`key_dim` is no option.", "`key_dim` is no option."),
    ],
)
def test_messages_show_flags_in_place_of_arguments(message, expected):
    assert name_flags(message, FLAGS) == expected


def all_fields(options_class):
    for field in dataclasses.fields(options_class):
        yield from all_fields(field.type) if dataclasses.is_dataclass(field.type) else [field]


NUMBERS = sorted(
    {
        (options_class, field.name)
        for options_class in (TranslatorTrainingOptions, ParserTrainingOptions)
        for field in all_fields(options_class)
        if {int, float} & {field.type, *get_args(field.type)}
    },
    key=str,
)


@pytest.mark.parametrize(
    ("options_class", "name"), NUMBERS, ids=lambda x: getattr(x, "__name__", x)
)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1, "1"])
def test_invalid_numbers_are_refused_before_the_data_is_read(options_class, name, value, tmp_path):
    options = from_keywords(options_class, {"output_dir": tmp_path, name: value})
    with pytest.raises(UserError, match=f"`{name}`.*Received: {name}="):
        begin_training(options)
