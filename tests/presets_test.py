"""The trained presets in saved_models/: the same outputs everywhere, and the score of the card.

Translators on all sentences of the test set, by beam search and by greedy search.
"""

import functools
import itertools
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data.corpora import bleu_tokenize, load_parallel_text
from keras_transformer.evaluation import score_translations
from keras_transformer.parsing.brackets import to_bracketed
from keras_transformer.parsing.evalb import Parameters, evaluate_trees
from keras_transformer.parsing.treebanks import load_treebank

ROOT = Path(__file__).parent.parent
FOLDERS = sorted(path.parent for path in (ROOT / "saved_models").glob("*/config.json"))
PRESETS = [folder for folder in FOLDERS if "parser" not in folder.name]
# The one that is translated on every backend: the others are the same program with other weights.
ON_ALL_BACKENDS = ROOT / "saved_models" / "multi30k_tok_en_de"
DATA = os.environ.get("KERAS_TRANSFORMER_DATA")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA, reason="KERAS_TRANSFORMER_DATA names no folder of corpora"),
    # Each test looks at all backends or at TensorFlow alone; once is enough.
    pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="runs under tensorflow"),
]

# Writes translations and scores of all test sentences, and the logits of the first few.
OUTPUTS = """
import sys
import numpy as np
from keras import ops
import keras_transformer as kt
from keras_transformer.decoding.batched_search import pad_to_few_shapes

preset, pairs, output = sys.argv[1:]
translator = kt.Translator.from_preset(preset)
sources, targets = np.load(pairs).T.tolist()
# An exported model splits texts into lines, and not into sentences.
translations, scores = zip(*translator.translate(sources, split="lines"))
greedy = kt.Translator.from_preset(preset, beam_size=1, alpha=0.0)(sources)
encode = translator.tokenizer.encode
inputs = {
    "encoder_token_ids": pad_to_few_shapes([[*ids, 2] for ids in encode(sources[:32])]),
    "decoder_token_ids": pad_to_few_shapes([[1, *ids] for ids in encode(targets[:32])]),
}
logits = ops.convert_to_numpy(translator.model(inputs, training=False))
np.savez(output, translations=translations, scores=scores, greedy=greedy, logits=logits)
"""


@functools.cache
def outputs(preset, backend):
    """What a preset gives under a backend, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path, pairs = Path(folder) / "outputs.npz", Path(folder) / "pairs.npy"
        np.save(pairs, [*pairs_of(preset)])
        subprocess.run(
            [sys.executable, "-c", OUTPUTS, preset, pairs, path],
            # As users run it: with all of XLA's passes.
            env={**os.environ, "KERAS_BACKEND": backend, "XLA_FLAGS": ""},
            check=True,
        )
        return dict(np.load(path))


@pytest.fixture(params=PRESETS, ids=lambda path: path.name)
def preset(request):
    return request.param


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_backends_give_equal_logits_and_translations(backend):
    expected = outputs(ON_ALL_BACKENDS, "tensorflow")
    actual = outputs(ON_ALL_BACKENDS, backend)
    np.testing.assert_allclose(actual["logits"], expected["logits"], atol=1e-4)
    for search in ("translations", "greedy"):
        assert (actual[search] == expected[search]).all()
    np.testing.assert_allclose(actual["scores"], expected["scores"], atol=1e-4)


def test_the_score_equals_the_model_card(preset):
    references = [reference for _, reference in pairs_of(preset)]
    scores = score_translations(
        outputs(preset, "tensorflow")["greedy"].tolist(),
        references,
        tokenize=bleu_tokenize(kt.Translator.from_preset(preset).metadata["dataset"]),
    )
    pattern = r"(?:test|FLORES-101 dev), greedy search: BLEU ([\d.]+)"
    bleu = re.search(pattern, (preset / "README.md").read_text())[1]
    assert scores.bleu == pytest.approx(float(bleu), abs=0.05)


def test_the_saved_model_equals_python(preset, tmp_path):
    import tensorflow as tf

    expected = outputs(preset, "tensorflow")

    kt.Translator.from_preset(preset).export(tmp_path / "saved_model")
    serve = tf.saved_model.load(str(tmp_path / "saved_model")).signatures["serving_default"]
    served = serve(text=tf.constant([source for source, _ in pairs_of(preset)]))
    translations = [text.decode() for text in served["translation"].numpy()]
    assert translations == expected["translations"].tolist()
    np.testing.assert_allclose(served["score"], expected["scores"], atol=1e-4)


@pytest.mark.parametrize("folder", sorted(set(FOLDERS) - set(PRESETS)), ids=lambda x: x.name)
def test_a_parser_s_score_equals_the_model_card(folder):
    parser = kt.ConstituencyParser.from_preset(folder, beam_size=4)
    gold = list(itertools.islice(load_treebank(parser.metadata["dataset"], "test", DATA), 100))
    trees = parser([tree.leaves() for tree in gold])
    assert [tree.leaves() for tree in trees] == [tree.leaves() for tree in gold]
    brackets = ([to_bracketed(tree) for tree in y] for y in (gold, trees))
    scores = evaluate_trees(*brackets, Parameters.named("COLLINS"))
    f1 = re.search(r"first 100 of them, beam 4: F1 ([\d.]+)", (folder / "README.md").read_text())[1]
    assert scores.f1 == pytest.approx(float(f1), abs=0.2)


def pairs_of(preset):
    if preset.name == "en_pt":
        return kt.data.ParallelText.from_files(*(f"{DATA}/flores/dev.{x}" for x in ("en", "pt")))
    metadata = kt.Translator.from_preset(preset).metadata
    return load_parallel_text(
        metadata["dataset"], "test", metadata["source"], metadata["target"], DATA
    )
