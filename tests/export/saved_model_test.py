import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data.synthetic import generate
from keras_transformer.data.tokenizer import Tokenizer

pytestmark = pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="a SavedModel is made by TensorFlow"
)

SENTENCES = [example.english for example in generate("test", 40)]
ODD = ["", " ", "🙂🙃 👩‍👩‍👧", "中文句子。", "a\tb", "<s> </s> ▁", "x" * 300, "The dog\nsleeps."]


@pytest.fixture(scope="module")
def translator():
    keras.utils.set_random_seed(1)
    tokenizer = Tokenizer.train(SENTENCES, 200)
    model = kt.Transformer(200, 1, 16, 32, 2, key_dim=4, value_dim=6)
    return kt.Translator(model, tokenizer, batch_tokens=64, beam_size=3)


@pytest.fixture(scope="module")
def saved_model(translator, tmp_path_factory):
    import tensorflow as tf

    path = tmp_path_factory.mktemp("export") / "saved_model"
    translator.export(path)
    return tf.saved_model.load(str(path))


@pytest.fixture(scope="module")
def serve(saved_model):
    import tensorflow as tf

    def serve(sentences, signature="serving_default"):
        text = tf.constant(sentences, tf.string, shape=[len(sentences)])
        outputs = saved_model.signatures[signature](text=text)
        decode = np.vectorize(lambda text: text.decode(), otypes=[object])
        return decode(outputs["translation"].numpy()).tolist(), outputs["score"].numpy()

    return serve


def test_gives_what_python_gives(translator, serve):
    sentences = SENTENCES + ODD
    translations, scores = serve(sentences)
    expected = list(translator.translate(sentences))
    assert translations == [text for text, _ in expected]
    np.testing.assert_allclose(scores, [score for _, score in expected], rtol=1e-4)


def test_n_best_gives_what_python_gives(translator, serve):
    sentences = SENTENCES[:10] + ODD
    translations, scores = serve(sentences, "n_best")
    for texts, row, expected in zip(translations, scores, translator.n_best(sentences, 3)):
        assert list(zip(texts, row)) == [(text, pytest.approx(s, rel=1e-4)) for text, s in expected]


def test_token_ids_give_what_the_search_gives(translator, saved_model):
    token_ids = np.array([[5, 6, 7, 2], [9, 2, 0, 0]], "int32")
    outputs = saved_model.signatures["token_ids"](token_ids=token_ids)
    expected_ids, expected_scores = translator.search_batch(token_ids, num_results=1)
    assert outputs["token_ids"].numpy().tolist() == expected_ids[:, 0].numpy().tolist()
    np.testing.assert_allclose(outputs["score"], expected_scores[:, 0], rtol=1e-4)


def test_no_sentences(serve):
    translations, scores = serve([])
    assert translations == [] and scores.shape == (0,)


def test_order_and_neighbours_do_not_matter(serve):
    forward, _ = serve(SENTENCES)
    backward, _ = serve(SENTENCES[::-1])
    assert forward == backward[::-1]
    assert serve(SENTENCES[:1])[0] == forward[:1]


def test_ten_thousand_characters(serve):
    translations, scores = serve(["The dog sleeps. " * 625, "A dog."])
    assert len(translations) == 2 and np.isfinite(scores).all()


def test_later_training_leaves_the_saved_model_alone(translator, serve):
    before, _ = serve(SENTENCES[:4])
    weights = translator.model.get_weights()
    translator.model.set_weights([w + 1 for w in weights])
    assert serve(SENTENCES[:4])[0] == before
    translator.model.set_weights(weights)


@pytest.mark.parametrize("library", ["tensorflow_text", "keras_hub"])
def test_same_token_ids_as_other_libraries(translator, library):
    module = pytest.importorskip(library)
    if library == "tensorflow_text":
        other = module.SentencepieceTokenizer(model=translator.tokenizer.proto).tokenize
    else:
        other = module.tokenizers.SentencePieceTokenizer(proto=translator.tokenizer.proto)
    texts = [*SENTENCES, *ODD]
    # A ragged tensor, or a list of arrays.
    assert [[int(i) for i in ids] for ids in other(texts)] == translator.tokenizer.encode(texts)
