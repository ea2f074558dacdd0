"""M2M-100 and NLLB-200 models, compared with transformers."""

import pytest

import keras_transformer as kt

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tests.convert.fairseq_folders import (  # noqa: E402
    FIRST,
    ODD_TEXT,
    SHAPES,
    change_json,
    check_refused,
    check_searches,
    compare_logits,
    pieces_of,
    sentencepiece_model,
    text,
    their_ids,
    write_json,
    write_model,
)

ONCE = pytest.mark.once
LANGUAGES = {"m2m100": ("en", "de"), "nllb": ("eng_Latn", "deu_Latn")}
# Of each shape the pieces, and whether the projection to logits is the embeddings.
KINDS = [
    *((97, True), (101, True), (89, True), (113, False)),
    *((90, False), (131, True), (107, True), (119, True)),
]


def make_folder(path, index=0, kind="m2m100", seed=0, lacking=(), end=1.3):
    """Write a folder with transformers; returns its model and its tokenizer."""
    size, is_tied = KINDS[index]
    path.mkdir()
    if kind == "m2m100":
        tokenizer = m2m100_tokenizer(path, size, lacking)
    else:
        tokenizer = nllb_tokenizer(path, size)
    behind = {"m2m100": 108, "nllb": len(tokenizer) - size - 1 + 2}[kind]
    model_class = transformers.M2M100ForConditionalGeneration
    config = {"vocab_size": size + 1 + behind, "tie_word_embeddings": is_tied}
    return write_model(path, model_class, index, seed, end, **config), tokenizer


def m2m100_tokenizer(path, size, lacking):
    proto = sentencepiece_model(size)
    (path / "sentencepiece.bpe.model").write_bytes(proto)
    pieces = [piece for piece in pieces_of(proto) if piece not in lacking]
    # Like theirs it has one more, which SentencePiece never finds.
    pieces = [*FIRST, *reversed(pieces), *(f"ghost{i}" for i in range(len(lacking)))]
    write_json(path / "vocab.json", {piece: i for i, piece in enumerate(pieces)})
    tokenizer = transformers.M2M100Tokenizer(
        path / "vocab.json", path / "sentencepiece.bpe.model", src_lang="en", tgt_lang="de"
    )
    tokenizer.save_pretrained(path)
    return tokenizer


def nllb_tokenizer(path, size):
    """One of a `tokenizer.json`, as transformers makes it of a SentencePiece model."""
    spm = path / "sentencepiece.bpe.model"
    spm.write_bytes(sentencepiece_model(size))
    write_json(path / "tokenizer_config.json", {"extra_special_tokens": NLLB_LANGUAGES})
    tokenizer = transformers.NllbTokenizer.from_pretrained(path, src_lang="eng_Latn")
    spm.rename(path / "unused")  # and so the tokenizer.json splits text
    tokenizer.save_pretrained(path)
    return tokenizer


NLLB_LANGUAGES = ["ace_Arab", "deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans"]


def convert(path, kind="m2m100"):
    return kt.Translator.from_preset(kt.convert.m2m100(path, *LANGUAGES[kind]))


@pytest.mark.parametrize("index", range(len(SHAPES)))
def test_logits_equal_transformers(tmp_path, index):
    kind = ("m2m100", "nllb")[index % 2]
    theirs, _ = make_folder(tmp_path / "m", index, kind, seed=index)
    translator = convert(tmp_path / "m", kind)
    rows = their_ids(theirs.config.vocab_size)
    assert compare_logits(translator, theirs, rows, rows) < 1e-4


@pytest.mark.parametrize(
    "index", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, len(SHAPES)))]
)
def test_searches_give_the_outputs_and_scores_of_generate(tmp_path, index):
    kind, alpha = ("m2m100", "nllb")[index % 2], (1.0, 0.7)[index % 2]

    def share_of_ended(seed):
        theirs, tokenizer = make_folder(tmp_path / str(seed), index, kind, seed, end=2.0)
        rows = their_ids(theirs.config.vocab_size)
        tokenizer.src_lang, target = LANGUAGES[kind]
        forced = tokenizer.convert_tokens_to_ids(target if kind == "nllb" else f"__{target}__")
        translator = convert(tmp_path / str(seed), kind)
        return check_searches(
            theirs, tokenizer, translator, rows, rows, alpha, forced_bos_token_id=forced
        )

    # Outputs of a few random models never end.
    assert any(share_of_ended(seed) > 0.2 for seed in range(index, 40, len(SHAPES)))


@ONCE
@pytest.mark.parametrize("kind", LANGUAGES)
def test_tokens_and_text_equal_the_original_tokenizer(tmp_path, kind):
    theirs, tokenizer = make_folder(tmp_path / "m", kind=kind)
    translator = convert(tmp_path / "m", kind)
    rows = their_ids(theirs.config.vocab_size)
    sentences = [*text(200), *text(200, side=1), *(s.rstrip() for s in ODD_TEXT)]
    ours = [rows[ids].tolist() for ids in translator.tokenizer.encode(sentences)]
    expected = [tokenizer(s, add_special_tokens=False).input_ids for s in sentences]
    assert [*zip(sentences, ours)] == [*zip(sentences, expected)]
    for ids, theirs_ids in zip(translator.tokenizer.encode(sentences), expected):
        if 3 not in ids:  # an unknown token is left out there
            assert translator.tokenizer.decode([ids])[0] == tokenizer.decode(theirs_ids).strip()


@ONCE
def test_pieces_outside_the_vocabulary_are_unknown(tmp_path):
    lacking = pieces_of(sentencepiece_model(97))[3:40:6]
    theirs, tokenizer = make_folder(tmp_path / "m", lacking=lacking)
    translator = convert(tmp_path / "m")
    rows = their_ids(theirs.config.vocab_size, len(lacking))
    assert translator.model.config.vocabulary_size == len(rows)
    ours = [rows[ids].tolist() for ids in translator.tokenizer.encode(text())]
    assert ours == [tokenizer(s, add_special_tokens=False).input_ids for s in text()]
    assert sum(ids.count(3) for ids in ours) > 100
    assert compare_logits(translator, theirs, rows, rows) < 1e-4


@ONCE
def test_nllb_reads_a_sentencepiece_model(tmp_path):
    make_folder(tmp_path / "m", kind="nllb")
    expected = convert(tmp_path / "m", "nllb").tokenizer
    (tmp_path / "m" / "unused").rename(tmp_path / "m" / "sentencepiece.bpe.model")
    check_same_tokens(convert(tmp_path / "m", "nllb").tokenizer, expected)
    (tmp_path / "m" / "tokenizer.json").unlink()
    actual = convert(tmp_path / "m", "nllb").tokenizer
    # Here the mask is the last, as it was before transformers 5.
    check_same_tokens(actual, expected)


def check_same_tokens(actual, expected):
    sentences = [*text(), *text(side=1), *ODD_TEXT]
    assert actual.vocabulary_size == expected.vocabulary_size
    assert actual.encode(sentences) == expected.encode(sentences)


@ONCE
def test_languages_come_from_arguments_then_configurations(tmp_path):
    folder = tmp_path / "m"
    make_folder(folder)
    translator = kt.Translator.from_preset(kt.convert.m2m100(folder))  # the tokenizer's languages
    assert translator.metadata.items() >= {"source": "en", "target": "de"}.items()
    assert translator.preprocessor.source_prefix == ("__en__",)
    assert translator.preprocessor.target_prefix == ("__de__",)
    (size,) = {len(pieces_of(sentencepiece_model(97))) + 4}
    change_json(folder / "generation_config.json", forced_bos_token_id=size + 1)
    assert kt.convert.m2m100(folder).metadata["target"] == "am"
    change_json(folder / "generation_config.json", forced_bos_token_id=5)
    check_refused(kt.convert.m2m100, folder, "forced_bos_token_id=5")
    change_json(folder / "generation_config.json", forced_bos_token_id=size + 1)
    chosen = kt.convert.m2m100(folder, "zu", "fr").metadata
    assert (chosen["source"], chosen["target"]) == ("zu", "fr")
    check_refused(lambda path: kt.convert.m2m100(path, "xx"), folder, "`source_language=xx`")
    change_json(folder / "tokenizer_config.json", src_lang=["en"])
    check_refused(kt.convert.m2m100, folder, "['en']")
    change_json(folder / "tokenizer_config.json", src_lang=None)
    check_refused(kt.convert.m2m100, folder, "pass `source_language`")
    change_json(folder / "tokenizer_config.json", language_codes="wmt21")
    check_refused(lambda path: kt.convert.m2m100(path, "en", "fr"), folder, "en, ha, is")


@ONCE
@pytest.mark.parametrize("kind", ["m2m100", pytest.param("nllb", marks=pytest.mark.slow)])
def test_a_tag_is_the_language_of_the_source(tmp_path, kind):
    theirs, tokenizer = make_folder(tmp_path / "m", kind=kind)
    code, token = {"m2m100": ("fr", "__fr__"), "nllb": ("fra_Latn", "fra_Latn")}[kind]
    tokenizer.src_lang = code
    (ids,) = convert(tmp_path / "m", kind).tagged(token).preprocessor.encode_sources(["the dog"])
    rows = their_ids(theirs.config.vocab_size)
    assert rows[ids].tolist() == tokenizer("the dog").input_ids


@ONCE
def test_wrong_folders_are_refused_by_file_or_option(tmp_path):
    folder = tmp_path / "m"
    make_folder(folder)
    (folder / "generation_config.json").unlink()
    for file, change, word in (
        ("config.json", {"model_type": "nllb-moe"}, "'nllb-moe'"),
        ("config.json", {"vocab_size": 150}, "(150, "),
        ("config.json", {"vocab_size": 999}, "and config.json do not match"),
        ("config.json", {"vocab_size": 205}, "and config.json do not match"),  # one too few
        ("config.json", {"decoder_layers": 1}, "model.decoder.layers.1"),
        ("config.json", {"d_model": 7}, "d_model=7"),
        ("config.json", {"vocab_size": 10**15}, "(1000000000000000, "),
        ("config.json", {"encoder_layers": 10**9}, "at least"),
        ("tokenizer_config.json", {"tgt_lang": ["de"]}, "must be a string"),
        ("tokenizer_config.json", {"tokenizer_class": "SMALL100Tokenizer"}, "SMALL100Tokenizer"),
        ("tokenizer_config.json", {"legacy_behaviour": True}, "legacy_behaviour"),
        ("tokenizer_config.json", {"language_codes": "m2m"}, "'m2m'"),
        ("vocab.json", {"new": 3}, "vocab.json is damaged"),
        ("vocab.json", {"<unk>": None, "<oov>": 3}, "'<unk>'"),
    ):
        before = (folder / file).read_bytes()
        change_json(folder / file, **change)
        check_refused(convert, folder, word)
        (folder / file).write_bytes(before)
    convert(folder)
    pieces = (folder / "sentencepiece.bpe.model").read_bytes()
    (folder / "sentencepiece.bpe.model").write_bytes(pieces[:-100])
    check_refused(convert, folder, "SentencePiece model")
    (folder / "sentencepiece.bpe.model").unlink()
    check_refused(convert, folder, "sentencepiece.bpe.model is missing")
    (folder / "sentencepiece.bpe.model").write_bytes(pieces)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    check_refused(convert, folder, "model.safetensors is cut short")


@ONCE
def test_damaged_tokenizers_are_refused(tmp_path):
    folder = tmp_path / "m"
    make_folder(folder, kind="nllb")
    of_json = ("tokenizer.json", "tokenizer.json is damaged")
    of_spm = ("tokenizer_config.json", "tokenizer_config.json is damaged")
    for (file, word), change in (
        (of_json, {"normalizer": [3]}),
        (of_json, {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "!!!"}}),
        (of_json, {"pre_tokenizer": "x"}),
        (of_json, {"added_tokens": [3]}),
        (of_spm, {"added_tokens_decoder": [3]}),
        (of_spm, {"added_tokens_decoder": {"a": {}}}),
        (of_spm, {"added_tokens_decoder": {"1000": {}}}),
        (of_spm, {"extra_special_tokens": [{}]}),
    ):
        if file != "tokenizer.json" and (folder / "unused").exists():
            (folder / "unused").rename(folder / "sentencepiece.bpe.model")
            (folder / "tokenizer.json").unlink()
        before = (folder / file).read_bytes()
        change_json(folder / file, **change)
        check_refused(lambda path: convert(path, "nllb"), folder, word)
        (folder / file).write_bytes(before)
    convert(folder, "nllb")


@pytest.mark.slow
@ONCE
def test_a_preset_translates_the_same(tmp_path):
    make_folder(tmp_path / "m", 3, "nllb", seed=23)
    translator = convert(tmp_path / "m", "nllb")
    translator.save_to_preset(tmp_path / "preset")
    again = kt.Translator.from_preset(tmp_path / "preset", extra_length=3)
    translator.search = again.search
    assert again.preprocessor.target_prefix == ("deu_Latn",)
    assert again(text(3)) == translator(text(3))
