"""FSMT models, compared with transformers."""

import dataclasses
import json

import numpy as np
import pytest

import keras_transformer as kt

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")
sacremoses = pytest.importorskip("sacremoses")

from tests.convert.fairseq_folders import (  # noqa: E402
    FIRST,
    ODD_TEXT,
    SHAPES,
    change_json,
    check_refused,
    check_searches,
    compare_logits,
    text,
    their_ids,
    write_json,
    write_model,
)

ONCE = pytest.mark.once
# For each shape, the matrices that are tied.
KINDS = [
    *("apart", "apart", "output tied", "all tied"),
    *("all equal", "output tied", "apart", "all tied"),
]


def make_folder(path, index=0, seed=0, languages=("en", "de"), merges=150, end=0.9):
    """Write a folder with transformers; returns its model and its tokenizer."""
    kind = KINDS[index]
    path.mkdir()
    tokenizer = make_tokenizer(path, languages, merges, is_joint=kind.startswith("all"))
    config = {
        "langs": list(languages),
        "src_vocab_size": tokenizer.src_vocab_size,
        "tgt_vocab_size": tokenizer.tgt_vocab_size,
        "tie_word_embeddings": kind == "all tied",
    }

    def tie(model):
        encoder, decoder = model.model.encoder, model.model.decoder
        if kind in ("output tied", "all equal"):
            decoder.output_projection.weight.data = decoder.embed_tokens.weight.data
        if kind == "all equal":
            encoder.embed_tokens.weight.data = decoder.embed_tokens.weight.data.clone()

    model_class = transformers.FSMTForConditionalGeneration
    return write_model(path, model_class, index, seed, end, tie, **config), tokenizer


def make_tokenizer(path, languages, merges, is_joint):
    moses = [sacremoses.MosesTokenizer(language) for language in languages]
    words = [
        [moses[side].tokenize(s, aggressive_dash_splits=True) for s in text(side=side)]
        for side in (0, 1)
    ]
    trained = tokenizers.Tokenizer(tokenizers.models.BPE(end_of_word_suffix="</w>"))
    trained.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=merges, end_of_word_suffix="</w>", show_progress=False
    )
    trained.train_from_iterator([" ".join(s) for side in words for s in side], trainer)
    pairs = json.loads(trained.to_str())["model"]["merges"]
    rows = "".join(f"{' '.join(pair)} {len(pairs) - i}\n" for i, pair in enumerate(pairs))
    (path / "merges.txt").write_text(rows, "utf-8")
    pieces = [_pieces(trained, side) for side in words]
    if is_joint:
        pieces = 2 * [sorted({*pieces[0], *pieces[1]})]
    for name, side in zip(("vocab-src.json", "vocab-tgt.json"), pieces):
        write_json(path / name, {piece: i for i, piece in enumerate([*FIRST, *side[:-3]])})
    tokenizer = transformers.FSMTTokenizer(
        list(languages), path / "vocab-src.json", path / "vocab-tgt.json", path / "merges.txt"
    )
    tokenizer.save_pretrained(path)
    return tokenizer


def _pieces(trained, sentences):
    """Return the pieces of the sentences, so that the two sides differ."""
    words = {word for sentence in sentences for word in sentence}
    return sorted({piece.value for word in words for piece in trained.model.tokenize(word)})


def rows_of(theirs, translator):
    """Return their ids of our tokens, source and target."""
    target = their_ids(theirs.config.tgt_vocab_size)
    if translator.model.config.source_vocabulary_size is None:
        return target, target
    return np.array([1, 0, 2, 3, *range(4, theirs.config.src_vocab_size)]), target


@pytest.mark.parametrize("index", range(len(SHAPES)))
def test_logits_equal_transformers(tmp_path, index):
    theirs, _ = make_folder(tmp_path / "m", index, seed=index)
    translator = kt.Translator.from_preset(kt.convert.fsmt(tmp_path / "m"))
    source_rows, target_rows = rows_of(theirs, translator)
    assert compare_logits(translator, theirs, target_rows, source_rows) < 1e-4
    config = translator.model.config
    kind = KINDS[index]
    assert (config.source_vocabulary_size is None) == kind.startswith("all")
    assert config.tie_weights == (kind != "apart")


@pytest.mark.parametrize(
    "index", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, len(SHAPES)))]
)
def test_searches_give_the_outputs_and_scores_of_generate(tmp_path, index):
    alpha = (1.0, 0.7)[index % 2]

    def share_of_ended(seed):
        theirs, tokenizer = make_folder(tmp_path / str(seed), index, seed, end=2.0)
        translator = kt.Translator.from_preset(kt.convert.fsmt(tmp_path / str(seed)))
        rows = rows_of(theirs, translator)
        return check_searches(theirs, tokenizer, translator, *rows, alpha)

    # Outputs of a few random models never end.
    assert any(share_of_ended(seed) > 0.2 for seed in range(index, 40, len(SHAPES)))


@ONCE
@pytest.mark.parametrize("languages", [("en", "de"), ("de", "en"), ("ru", "fr")])
def test_tokens_and_text_equal_the_original_tokenizer(tmp_path, languages):
    theirs, tokenizer = make_folder(tmp_path / "m", languages=languages)
    translator = kt.Translator.from_preset(kt.convert.fsmt(tmp_path / "m"))
    source_rows, target_rows = rows_of(theirs, translator)
    sentences = [*text(200), *text(200, side=1), *ODD_TEXT]
    ours = [source_rows[ids].tolist() for ids in translator.source_tokenizer.encode(sentences)]
    expected = [tokenizer(s, add_special_tokens=False).input_ids for s in sentences]
    assert [*zip(sentences, ours)] == [*zip(sentences, expected)]
    assert any(3 in ids for ids in ours) and not all(3 in ids for ids in ours)
    for sentence in sentences:
        (ids,) = translator.tokenizer.encode([sentence])
        ids = [i for i in ids if i != 3]  # an unknown token is left out there
        expected = tokenizer.decode(target_rows[ids].tolist(), clean_up_tokenization_spaces=False)
        assert translator.tokenizer.decode([ids]) == [expected]


@ONCE
def test_translations_equal_transformers(tmp_path):
    """From text to text, with the folder's own search."""
    theirs, tokenizer = make_folder(tmp_path / "m", 1, seed=3)
    theirs.generation_config.num_beams = 3
    theirs.generation_config.length_penalty = 0.8
    theirs.save_pretrained(tmp_path / "m")
    translator = kt.Translator.from_preset(kt.convert.fsmt(tmp_path / "m"))
    assert translator.search == kt.BeamSearch(3, alpha=0.8, length_penalty="power")
    assert translator.metadata == {"source": "en", "target": "de"}
    translator.search = dataclasses.replace(translator.search, extra_length=4)
    for sentence in text(3):
        source = tokenizer(sentence, return_tensors="pt")
        output = theirs.generate(
            **source,
            early_stopping="never",
            suppress_tokens=[1],
            max_new_tokens=source.input_ids.shape[1] - 1 + translator.extra_length,
        )
        expected = tokenizer.decode(output[0], skip_special_tokens=True)
        actual = translator([sentence])[0].replace(" ⁇", "").replace("⁇ ", "").replace("⁇", "")
        assert "".join(actual.split()) == "".join(expected.split())


@ONCE
def test_wrong_folders_are_refused_by_file_or_option(tmp_path):
    folder = tmp_path / "m"
    make_folder(folder, 3)
    (folder / "generation_config.json").unlink()
    size = json.loads((folder / "config.json").read_text("utf-8"))["src_vocab_size"]
    for change, word in (
        ({"model_type": "bart"}, "'bart'"),
        ({"src_vocab_size": size - 1}, "vocab-src.json"),
        ({"tgt_vocab_size": size + 1}, "and config.json do not match"),
        ({"src_vocab_size": 10**15}, "and config.json do not match"),
        ({"max_position_embeddings": {}, "max_length": 9}, "max_position_embeddings"),
        ({"decoder_start_token_id": 999}, "999"),
        ({"pad_token_id": None, "decoder_start_token_id": -1}, "-1"),
    ):
        before = (folder / "config.json").read_bytes()
        change_json(folder / "config.json", **change)
        check_refused(kt.convert.fsmt, folder, word)
        (folder / "config.json").write_bytes(before)
    kt.convert.fsmt(folder)
    change_json(folder / "config.json", pad_token_id=None)  # the default
    assert kt.convert.fsmt(folder).model.config.first_position == 2
    change_json(folder / "tokenizer_config.json", langs=[["en"], "de"])
    check_refused(kt.convert.fsmt, folder, "langs")
    change_json(folder / "tokenizer_config.json", langs=["en", "de"])
    (folder / "merges.txt").write_bytes(b"\xff")
    check_refused(kt.convert.fsmt, folder, "merges.txt is damaged")
    (folder / "merges.txt").unlink()
    check_refused(kt.convert.fsmt, folder, "merges.txt is missing")
    change_json(folder / "vocab-tgt.json", **{"new": 3})
    check_refused(kt.convert.fsmt, folder, "vocab-tgt.json is damaged")


@ONCE
def test_a_preset_translates_the_same(tmp_path):
    make_folder(tmp_path / "m", 0)
    translator = kt.Translator.from_preset(kt.convert.fsmt(tmp_path / "m"))
    translator.save_to_preset(tmp_path / "preset")
    again = kt.Translator.from_preset(tmp_path / "preset", extra_length=3)
    assert again.source_tokenizer.fingerprint() == translator.source_tokenizer.fingerprint()
    assert again.tokenizer.fingerprint() == translator.tokenizer.fingerprint()
    assert again.tokenizer.fingerprint() != again.source_tokenizer.fingerprint()
    translator.search = again.search
    assert again(text(2)) == translator(text(2))


@ONCE
def test_a_tag_becomes_its_token(tmp_path):
    make_folder(tmp_path / "m")
    translator = kt.Translator.from_preset(kt.convert.fsmt(tmp_path / "m"))
    (plain,) = translator.preprocessor.encode_sources(["the dog"])
    tag = translator.source_tokenizer.tokens[-1]
    (ids,) = translator.tagged(tag).preprocessor.encode_sources(["the dog"])
    assert ids == [*translator.source_tokenizer.tokens_to_ids([tag]), *plain]
