"""What importing the package loads, and which of its parts may import which."""

import ast
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "keras_transformer"


# What is imported

LAZY = (
    *("tensorflow_text", "keras_hub", "matplotlib", "sentencepiece", "sentencex", "tyro"),
    *("sacrebleu", "nltk", "tqdm", "safetensors", "huggingface_hub", "google.protobuf"),
    *("sacremoses", "tokenizers"),
)
# Where TensorFlow is installed, it would take more time than all the rest.
MAKE = """
keras_transformer.Transformer(20, 1, 8, 8, 2, activation="gelu")
assert "tensorflow" not in sys.modules
"""
LATE = """
scores = "keras_transformer.parsing.evalb_scores"
assert scores not in sys.modules
assert keras_transformer.parsing.EvalbScores.__module__ == scores
assert "keras_transformer.parsing.treebanks" not in sys.modules and "nltk" not in sys.modules
"""
USE = """
import pathlib, tempfile
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from tests.small_corpus import new_model, sentence_pairs, tokenizer

model = new_model()
model.compile("sgd", keras_transformer.LabelSmoothedCrossentropy(reduction="sum"))
with tempfile.TemporaryDirectory() as folder:
    store = TokenStore.build(folder + "/tokens", sentence_pairs(8), tokenizer())
    model.fit(TokenBatches(store, 256, num_shapes=1), verbose=0)
    translator = keras_transformer.Translator(model, tokenizer(), extra_length=2)
    translator.save_to_preset(folder + "/preset")
    keras_transformer.Translator.from_preset(folder + "/preset", extra_length=2)(["the dog"])

try:
    import keras_transformer.hub
except keras_transformer.UserError as error:
    assert "tensorflow-text" in str(error) and len(str(error).splitlines()) == 1
else:
    raise AssertionError
"""
TRAIN = """
import pathlib, sys, tempfile
sys.modules.update(dict.fromkeys(["tensorflow_text", "keras_hub"]))
import keras_transformer as kt
from tests.small_corpus import sentence_pairs

with tempfile.TemporaryDirectory() as folder:
    text = kt.data.ParallelText("words", "train", "en", "de", sentence_pairs(8))
    options = {"vocabulary_size": 60, "scale": 0.125, "num_layers": 1, "steps": 2, "interval": 2}
    options.update(vocabulary_sentences=16, batch_tokens=128, num_shapes=1, average=1)
    kt.Translator.train(text, text, output_dir=folder, **options)
    translator = kt.Translator.from_preset(folder + "/model", extra_length=2)
    assert len(translator(["the dog"])) == 1
    assert any(pathlib.Path(folder, "tensorboard").rglob("events*"))
    assert "tensorflow" not in sys.modules  # although it is installed
"""


def test_import_loads_no_optional_libraries():
    without = ""
    if keras.backend.backend() != "tensorflow":
        without = f'{MAKE}\nsys.modules["tensorflow"] = None\n'
    script = f"""
import sys
sys.modules.update(dict.fromkeys(["tensorflow_text", "keras_hub"]))  # None: the import fails
import keras
before = set(sys.modules)  # Keras itself loads matplotlib where it is installed.
import keras_transformer
loaded = [name for name in {LAZY} if sys.modules.get(name) and name not in before]
assert not loaded, loaded
"""
    process = run_python(script + LATE + without + USE)
    assert process.returncode == 0, process.stderr


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() == "tensorflow", reason="it is needed there")
def test_a_training_does_not_import_tensorflow():
    process = run_python(TRAIN)
    assert process.returncode == 0, process.stderr


@pytest.mark.each_backend
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="needed, or part of the first test")
def test_a_model_is_made_without_tensorflow():
    process = run_python(f"import sys, keras_transformer\n{MAKE}")
    assert process.returncode == 0, process.stderr


@pytest.mark.once
def test_import_changes_nothing_in_the_process():
    # Keras and a backend may change something, so they are imported before.
    script = """
import os, signal, sys
import keras

def state():
    signals = {x: signal.getsignal(x) for x in signal.valid_signals()}
    files = [os.stat(descriptor)[1:3] for descriptor in (0, 1, 2)]
    hooks = sys.excepthook, sys.displayhook, sys.unraisablehook
    return [*sys.meta_path], signals, files, hooks, dict(os.environ), sys.argv

before = state()
import keras_transformer
assert state() == before
"""
    process = run_python(script)
    assert process.returncode == 0, process.stderr


@pytest.mark.once
def test_import_registers_all_serializable_classes():
    # A saved model is opened by a process that has only imported the package. `hub` needs KerasHub
    # and is imported by itself.
    expected = {
        name
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "hub"
        for name in registered_classes(path.read_text("utf-8"))
    }
    assert {"Transformer", "BeamSearch", "TransformerDecoderLayer", "NoamSchedule"} <= expected
    script = """
import keras, keras_transformer
names = keras.saving.get_custom_objects()
print(*(x.partition(">")[2] for x in names if x.startswith("keras_transformer>")))
"""
    process = run_python(script)
    assert expected == {*process.stdout.split()}, process.stderr


def registered_classes(source):
    """The names of the classes that a module registers with Keras, by any of its decorators."""
    tree = ast.parse(source)
    register = "register_keras_serializable"
    # A decorator may be kept under another name.
    aliases = {
        node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and register in ast.unparse(node.value)
    }
    for node in ast.walk(tree):
        for decorator in getattr(node, "decorator_list", []):
            words = ast.unparse(decorator)
            if words in aliases or register in words:
                yield node.name


def test_registered_classes_are_found():
    source = """
_register = keras.saving.register_keras_serializable(package="keras_transformer")

@_register
class A: ...

@dataclass(frozen=True)
@keras.saving.register_keras_serializable("keras_transformer")
class B: ...

class C: ...
"""
    assert [*registered_classes(source)] == ["A", "B"]


def run_python(script):
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": keras.backend.backend()},
        capture_output=True,
        text=True,
    )


# Which way

FOR_ALL = {
    *("annotations", "errors", "files", "language_codes", "option_fields", "progress"),
    *("reserved_ids", "untranslated", "validation"),
}
LEAVES = {"data", "training", "evaluation"}
# A part -> the other parts it may import.
MAY_IMPORT = {
    "compilation_cache": set(),
    "annotations": set(),
    "errors": set(),
    "language_codes": set(),
    "files": set(),
    "namespace": set(),
    "option_fields": set(),
    "progress": set(),
    "untranslated": set(),
    "validation": set(),
    "version": set(),
    "command_line": {"compilation_cache"},
    "documents": {"protection", "data"},
    "protection": set(),
    "layers": set(),
    "models": {"layers", "weights"},
    "decoding": {"layers"},
    **{leaf: set() for leaf in LEAVES},
    "training": {"data", "models", "weights"},
    "weights": set(),
    "visualization": {"layers", "models", "decoding", "parsing", "translation", *LEAVES},
    "presets": {"models", "decoding", "weights", "version", *LEAVES},
    "tasks": {
        *("compilation_cache", "weights", "models", "decoding", "presets", "convert", "version"),
        *LEAVES,
    },
    "translation": {
        *("tasks", "presets", "models", "decoding", "layers", "protection", "documents"),
        *("convert", "export", *LEAVES),
    },
    # The parser's SavedModel is made of the pieces of the translator's.
    "parsing": {"tasks", "presets", "models", "decoding", "layers", "export", *LEAVES},
    "convert": {
        *("compilation_cache", "layers", "models", "decoding", "presets", "weights", "version"),
        *LEAVES,
    },
    # Who writes another library's format asks those who read it where its weights are.
    "export": {
        *("layers", "models", "decoding", "presets", "convert", *LEAVES),
    },
    "server": {"translation", "documents", "decoding", "tasks", "visualization", *LEAVES},
    "hub": {"layers", "models", "decoding", "tasks", "presets", "convert", "parsing", *LEAVES},
    "__main__": {"commands"},
    # The modules that register classes with Keras.
    "__init__": {"namespace", "convert", "decoding", "models", "parsing", "training"},
    "commands": {
        *(
            "__init__",
            "command_line",
            "layers",
            "models",
            "decoding",
            "tasks",
            "presets",
            "translation",
        ),
        *("parsing", "convert", "visualization", "server", "version", "documents", *LEAVES),
    },
}


def imports(path, with_types=True):
    """(module, name, whether at the top of the file) of each import from the package."""
    tree = ast.parse(path.read_text())
    for_types = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and "TYPE_CHECKING" in ast.unparse(branch.test)
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if node in for_types and not with_types:
            continue
        at_top = node in tree.body
        if isinstance(node, ast.Import):
            modules = [(alias.name, None) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            modules = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in modules:
            if module == "keras_transformer":
                module = f"{module}.{name or '__init__'}"
            if module.startswith("keras_transformer."):
                yield module.removeprefix("keras_transformer."), name, at_top


def is_allowed(part, module, name, at_top):
    target = module.split(".")[0]
    if target in {part, *FOR_ALL} or target in MAY_IMPORT[part]:
        return True
    # A namespace names what is loaded when it is asked for.
    if module == "namespace" and part in {
        *("convert", "documents", "parsing", "translation", "visualization", *LEAVES)
    }:
        return True
    # `Transformer.from_preset` loads the reader of presets when it is called.
    return (part, target) == ("models", "presets") and not at_top


@pytest.mark.parametrize(
    "path",
    sorted(PACKAGE.rglob("*.py")),
    ids=lambda path: path.relative_to(PACKAGE).as_posix(),
)
def test_rooms_import_only_the_rooms_below(path):
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    wrong = [f"{module} {name}" for module, name, at_top in imports(path)
             if not is_allowed(part, module, name, at_top)]  # fmt: skip
    assert not wrong


def test_forbidden_imports_are_found(tmp_path):
    # The test above must not pass because it sees nothing.
    found = list(imports(PACKAGE / "translation" / "translator.py"))
    assert ("tasks.task", "Task", True) in found
    assert ("export.formats", "export", False) in found
    assert not is_allowed("layers", "models.transformer", "Transformer", True)
    assert not is_allowed("decoding", "data.tokenizer", "Tokenizer", True)
    assert not is_allowed("export", "translation.translator", "Translator", False)


# The rooms of the Transformer itself, which know nothing of tasks and other libraries.
CORE = ("layers", "models", "decoding", "training", "weights", "data", "presets", "evaluation")


def test_the_core_imports_no_other_room():
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} | {"evaluation"}
    others = rooms - {*CORE}
    assert {"tasks", "convert", "translation"} <= others and {*CORE} <= rooms
    modules = [path for room in CORE for path in (PACKAGE / room).rglob("*.py")]
    # Modules outside of rooms, which the core may import, must not lead to another room.
    modules += [PACKAGE / "evaluation.py", *(PACKAGE / f"{name}.py" for name in FOR_ALL)]
    found = {
        f"{path.relative_to(PACKAGE)}: {module}"
        for path in modules
        for module, *_ in imports(path)
        if module.split(".")[0] in {*others, "__init__", "command_line"}
    }
    assert not found


def test_modules_have_no_import_circles():
    # Imports in functions count too. Imports for types alone, which are never run, do not.
    paths = {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    graph = {
        name: {
            module if f"{module}.{imported}" not in paths else f"{module}.{imported}"
            for module, imported, _ in imports(path, with_types=False)
            if module in paths or f"{module}.{imported}" in paths
        }
        for name, path in paths.items()
    }
    assert len(graph) > 100 and "models.encoder_decoder" in graph["models.transformer"]
    assert "presets.storage" in graph["models.transformer"]  # in a function
    assert "models.transformer" not in graph["presets.storage"]  # for types
    # Raises a CycleError that names the modules of a circle.
    TopologicalSorter(graph).prepare()
