import sys

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data import text_lines
from keras_transformer.data.synthetic import generate
from keras_transformer.data.text_lines import BREAKS
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding import batch_compaction, compilation
from keras_transformer.decoding.batched_search import batches_by_length
from keras_transformer.export import saved_model as saved_model_module
from keras_transformer.export.saved_model import (
    WHITE_SPACE,
    save_module,
    search_in_batches,
    without_breaks,
)
from tests.decoding.comparison import note_calls

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a SavedModel is made by TensorFlow"
)

SENTENCES = [example.english for example in generate("test", 40)]
ODD = ["", " ", "🙂🙃 👩‍👩‍👧", "中文句子。", "a\tb", "<s> </s> ▁", "x" * 300, "The dog\nsleeps."]
ODD += ["\u200b", "\x85 \u2003", "▁", "\x00", "A\x00 dog."]


@pytest.fixture(scope="module")
def translator():
    keras.utils.set_random_seed(1)
    tokenizer = Tokenizer.train(SENTENCES, 200)
    model = kt.Transformer(200, 1, 16, 32, 2, key_dim=4, value_dim=6)
    options = {"beam_size": 3, "extra_length": 10, "max_source_length": 200}
    return kt.Translator(model, tokenizer, batch_tokens=64, **options)


@pytest.fixture(scope="module")
def saved_model(translator, tmp_path_factory):
    import tensorflow as tf

    path = tmp_path_factory.mktemp("export") / "saved_model"
    translator.export(path)
    return tf.saved_model.load(str(path))


def test_only_a_saved_model_of_ours_is_replaced_by_another(translator, tmp_path):
    import tensorflow as tf

    def make_module():
        return tf.Module(), None

    for _ in range(2):
        save_module(make_module, translator.model, tmp_path / "saved_model")
    (tmp_path / "saved_model" / "assets" / "wedding.jpg").touch()
    with pytest.raises(kt.UserError, match="a folder that also has assets/wedding.jpg"):
        save_module(make_module, translator.model, tmp_path / "saved_model")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "saved_model.pb").touch()
    with pytest.raises(kt.UserError, match="an export to saved_model that .* with saved_model.pb"):
        save_module(make_module, translator.model, tmp_path / "other")


@pytest.fixture(scope="module")
def serve(saved_model):
    import tensorflow as tf

    def serve(sentences, signature="serving_default"):
        text = tf.constant(sentences, tf.string, shape=[len(sentences)])
        outputs = saved_model.signatures[signature](text=text)
        decode = np.vectorize(lambda text: text.decode(), otypes=[object])
        return decode(outputs["translation"].numpy()).tolist(), outputs["score"].numpy()

    return serve


@pytest.mark.each_backend
def test_translations_equal_pythons(translator, serve):
    texts = [
        f"\t{' '.join(SENTENCES[:2])}\r\n\r\n- {SENTENCES[3]}  \n12.\u2028 1) {SENTENCES[4]}\n"
    ]
    texts += ["- ", "\r\n", "  \n ", "a\rb\x85c", "...\n中文", "-5 dogs\n(b) cats\n\n"]
    # Only Python takes out tags, and symbols that the vocabulary lacks.
    sentences = [x for x in SENTENCES + ODD + texts if "<s>" not in x and "\0" not in x]
    translations, scores = serve(sentences)
    expected = list(translator.translate(sentences, split="lines"))
    assert translations == [text for text, _ in expected]
    np.testing.assert_allclose(scores, [score for _, score in expected], rtol=1e-4)


@pytest.fixture(scope="module")
def xla_model(translator, tmp_path_factory):
    """A model that XLA compiles for up to 4 sentences of up to 32 tokens."""
    import tensorflow as tf

    path = tmp_path_factory.mktemp("export") / "xla"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved_model_module, "_XLA_ROWS", np.array([4], "int32"))
        patch.setattr(saved_model_module, "_XLA_LENGTHS", np.array([32], "int32"))
        patch.setattr(batch_compaction, "_FIRST_STEPS", 8)  # so there is a second stage
        compiled = note_calls(patch, (compilation, "_compile_for_xla"))
        translator.export(path, xla=True)
    assert compiled
    return tf.saved_model.load(str(path))


def test_xla_gives_the_same_outputs(translator, xla_model):
    import tensorflow as tf

    few, long = SENTENCES[:3], ["x" * 40, *SENTENCES[:5]]
    for name in ("serving_default", "n_best"):
        for texts in (few, long):
            outputs = xla_model.signatures[name](text=tf.constant(texts))
            expected = list(translator.n_best(texts, 3, split=None))
            found = outputs["translation"].numpy().reshape(len(texts), -1)
            count = found.shape[1]
            assert found.tolist() == [[text.encode() for text, _ in x[:count]] for x in expected]
            scores = [[score for _, score in x[:count]] for x in expected]
            actual = outputs["score"].numpy().reshape(len(texts), -1)
            np.testing.assert_allclose(actual, scores, rtol=1e-4)
    token_ids = np.array([[5, 6, 7, 2], [9, 2, 0, 0]], "int32")
    for rows in (token_ids, np.tile(token_ids, [3, 1]), np.pad(token_ids, [[0, 0], [0, 40]])):
        outputs = xla_model.signatures["token_ids"](token_ids=rows)
        expected_ids, expected_scores = translator.search_batch(rows, num_results=1)
        assert outputs["token_ids"].numpy().tolist() == expected_ids[:, 0].numpy().tolist()
        np.testing.assert_allclose(outputs["score"], expected_scores[:, 0], rtol=1e-4)


@pytest.mark.slow
def test_constraints_and_sampling_are_exported(translator, tmp_path):
    import tensorflow as tf

    rules = (
        kt.constraints.MaxLength(6),
        kt.constraints.NoRepeatedNgrams(1),
        kt.constraints.RepetitionPenalty(1.5),
        kt.constraints.NoUnknownToken(),
        kt.constraints.BannedTokens((9, 11)),
        kt.constraints.MinLength(3),
    )
    sentences = SENTENCES[:5] * 3
    text = tf.constant(sentences)
    for name, search in {
        "beam": kt.BeamSearch(2, extra_length=4, constraints=rules),
        "draws": kt.Sampling(extra_length=4, constraints=rules),
        "draws anew": kt.Sampling(seed=None, extra_length=4, constraints=rules),
    }.items():
        constrained = kt.Translator(translator.model, translator.tokenizer, search=search)
        constrained.export(tmp_path / name, num_results=2)
        served = tf.saved_model.load(str(tmp_path / name)).signatures["n_best"]
        outputs = [served(text=text)["translation"].numpy().tolist() for _ in range(2)]
        assert len(outputs[0][0]) == 2
        if name == "draws anew":
            assert outputs[0] != outputs[1]
            continue
        expected = [[text.encode() for text, _ in x] for x in constrained.n_best(sentences, 2)]
        assert outputs == [expected, expected]
        assert (outputs[0][:5] == outputs[0][5:10]) == (name == "beam")  # the same sentences


def test_n_best_equals_pythons(translator, serve):
    sentences = SENTENCES[:10] + ODD
    translations, scores = serve(sentences, "n_best")
    for texts, row, expected in zip(
        translations, scores, translator.n_best(sentences, 3, split=None)
    ):
        assert list(zip(texts, row)) == [(text, pytest.approx(s, rel=1e-4)) for text, s in expected]


def test_token_ids_are_searched(translator, saved_model):
    token_ids = np.array([[5, 6, 7, 2], [9, 2, 0, 0]], "int32")
    outputs = saved_model.signatures["token_ids"](token_ids=token_ids)
    expected_ids, expected_scores = translator.search_batch(token_ids, num_results=1)
    assert outputs["token_ids"].numpy().tolist() == expected_ids[:, 0].numpy().tolist()
    np.testing.assert_allclose(outputs["score"], expected_scores[:, 0], rtol=1e-4)


@pytest.mark.each_backend
def test_breaks_are_replaced_as_in_python():
    texts = [[f"a{BREAKS}b", f"{BREAKS[::-1]}ä\n"], ["", "x\x85\x85"]]
    sources = ["the \t\x85\u2028", "\n"]
    expected = [[text_lines.without_breaks(x, y) for x in row] for row, y in zip(texts, sources)]
    assert expected[0] != expected[1] != texts[1]
    actual = without_breaks(np.array(texts), np.array(sources)).numpy().tolist()
    assert [[text.decode() for text in row] for row in actual] == expected


@pytest.mark.each_backend
def test_wrong_token_ids_are_refused(saved_model):
    import tensorflow as tf

    search = saved_model.signatures["token_ids"]
    for row, message in [
        ([5, -1, 2], "`token_ids` must be from 0 to 199"),
        ([5, 200, 2], "`token_ids` must be from 0 to 199"),
        ([0, 5, 2], "`token_ids` must be padded with 0 at the end"),
        ([5, 0, 2], "`token_ids` must be padded with 0 at the end"),
    ]:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            search(token_ids=np.array([[5, 6, 2], row], "int32"))


def test_blank_text_is_not_searched(serve):
    blank = ["", "  \t", "\u200b", "\x85"]
    for sentences in (blank, ["The dog sleeps.", *blank]):
        translations, scores = serve(sentences, "n_best")
        assert translations[-4:] == [[""] * 3] * 4 and not scores[-4:].any()
        assert np.isfinite(scores).all()
    assert serve(["The dog sleeps.", *blank])[0] == [*serve(["The dog sleeps."])[0], *blank]


def test_white_space_is_as_in_python():
    import tensorflow as tf

    characters = [chr(i) for i in range(sys.maxunicode + 1) if not 0xD800 <= i < 0xE000]
    is_space = tf.strings.regex_full_match(tf.constant(characters), WHITE_SPACE).numpy()
    assert is_space.tolist() == [character.isspace() for character in characters]


@pytest.mark.parametrize("batch_tokens", [1, 7, 60, 500, 5000])
def test_sentences_share_batches_as_in_python(batch_tokens):
    """The same batches, in the same order, of random lengths; every fifth sentence is blank."""
    import tensorflow as tf

    generator = np.random.default_rng(batch_tokens)
    lengths = generator.integers(1, 70, 200)
    is_searched = generator.random(200) > 0.2
    token_ids = tf.RaggedTensor.from_row_lengths(tf.ones([lengths.sum()], "int32"), lengths)
    batches = []

    def search(batch, rows):
        batches.append(rows.numpy().tolist())
        assert batch.shape == (len(rows), lengths[rows[0]])
        return tf.strings.as_string(rows)[:, None], tf.cast(rows, "float32")[:, None]

    texts, scores = search_in_batches(token_ids, is_searched, search, batch_tokens)
    expected = batches_by_length(np.where(is_searched, lengths, 0), batch_tokens)
    assert batches == [rows.tolist() for rows in expected] and len(batches) > 2
    numbers = np.arange(200)
    assert scores[:, 0].numpy().tolist() == np.where(is_searched, numbers, 0).tolist()
    assert texts[:, 0].numpy()[is_searched].astype(int).tolist() == numbers[is_searched].tolist()
    assert not any(texts[:, 0].numpy()[~is_searched])


def test_long_text_is_cut_where_python_cuts_it(translator, serve):
    sentences = ["x" * count for count in (197, 198, 199, 200, 300)]
    cut = [text.is_cut for text in translator.prepare(sentences)]
    assert cut == [False, False, True, True, True]
    translations, scores = serve(sentences)
    assert len({translations[1], *translations[2:]}) == 1 and translations[0] != translations[1]
    assert len({*scores[1:].tolist()}) == 1 and scores[0] != scores[1]


def test_an_empty_batch_gives_empty_results(serve):
    translations, scores = serve([])
    assert translations == [] and scores.shape == (0,)


def test_order_and_neighbors_do_not_matter(serve):
    forward, _ = serve(SENTENCES)
    backward, _ = serve(SENTENCES[::-1])
    assert forward == backward[::-1]
    assert serve(SENTENCES[:1])[0] == forward[:1]


def test_a_text_of_ten_thousand_characters_is_translated(serve):
    translations, scores = serve(["The dog sleeps. " * 625, "A dog."])
    assert len(translations) == 2 and np.isfinite(scores).all()


def test_later_training_leaves_the_saved_model_alone(translator, serve):
    before, _ = serve(SENTENCES[:4])
    weights = translator.model.get_weights()
    translator.model.set_weights([w + 1 for w in weights])
    assert serve(SENTENCES[:4])[0] == before
    translator.model.set_weights(weights)


@pytest.mark.parametrize("library", ["tensorflow_text", "keras_hub"])
def test_token_ids_equal_sentencepieces(translator, library):
    module = pytest.importorskip(library)
    if library == "tensorflow_text":
        other = module.SentencepieceTokenizer(model=translator.tokenizer.proto).tokenize
    else:
        other = module.tokenizers.SentencePieceTokenizer(proto=translator.tokenizer.proto)
    texts = [*SENTENCES, *ODD]
    # A ragged tensor, or a list of arrays.
    assert [[int(i) for i in ids] for ids in other(texts)] == translator.tokenizer.encode(texts)


@pytest.mark.each_backend
@pytest.mark.parametrize("xla", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_candidates_of_a_shortlist_are_found_in_the_graph(xla, translator, tmp_path):
    import tensorflow as tf

    limited = translator.tagged()
    ids = [np.array(x) for x in translator.tokenizer.encode(SENTENCES)]
    limited.shortlist = kt.data.Shortlist.from_pairs(ids, ids, 200, num_frequent=5, num_best=3)
    limited.export(tmp_path / "saved_model", xla=xla)
    serve = tf.saved_model.load(str(tmp_path / "saved_model")).signatures["serving_default"]
    outputs = serve(text=tf.constant(SENTENCES[:6]))["translation"].numpy()
    assert [text.decode() for text in outputs] == limited(SENTENCES[:6])
    assert limited(SENTENCES[:6]) != translator(SENTENCES[:6])
