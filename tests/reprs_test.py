"""The `repr` of public objects."""

import pytest

import keras_transformer as kt
from tests.parsing.small_trees import new_parser
from tests.small_corpus import new_model, sentence_pairs, tokenizer

pytestmark = pytest.mark.once


def test_reprs_of_searches_and_constraints_recreate_them():
    ngrams = kt.constraints.NoRepeatedNgrams(3)
    search = kt.BeamSearch(8, alpha=1.0, constraints=(ngrams,))
    assert "beam_size=4, alpha=0.6" in repr(kt.BeamSearch())
    assert "top_k" not in repr(kt.Sampling(top_p=0.9))
    known = {name: getattr(kt, name) for name in kt.__all__} | vars(kt.constraints)
    for thing in (ngrams, kt.Sampling(top_k=3)):
        assert eval(repr(thing), known) == thing
    assert eval(repr(search), known) == search
    banned = kt.constraints.BannedTokens(tuple(range(4, 1000)))
    assert len(repr(banned)) < 80


def test_reprs_of_models_and_tasks():
    model = new_model()
    count = f"{model.count_params():,} parameters"
    assert repr(model).startswith("<Transformer: 1 + 1 layers, d_model 16, d_ff 32, 2 heads, ")
    assert count in repr(model)
    translator = kt.Translator(model, tokenizer(), {"source": "en", "target": "de"}, alpha=0.3)
    assert repr(translator) == f"<Translator en-de: {count}, beam 4, alpha 0.3>"
    assert repr(new_parser()).startswith("<ConstituencyParser")


def test_corpora_and_batches_show_their_sizes(tmp_path):
    pairs = [("a dog", "ein Hund"), ("a cat", "eine Katze")]
    text = kt.data.ParallelText("made up", "train", "en", "de", lambda: iter(pairs))
    assert repr(text) == "<ParallelText made up train en-de: 2 pairs>"
    store = kt.data.TokenStore.build(tmp_path / "store", sentence_pairs(3), tokenizer())
    lengths = [int(side.lengths.sum()) for side in (store.source, store.target)]
    assert repr(store) == f"<TokenStore: 3 pairs, {lengths[0]} and {lengths[1]} tokens>"
    assert (
        repr(tokenizer()) == f"<Tokenizer: {tokenizer().vocabulary_size} tokens of SentencePiece>"
    )
    batches = kt.data.TokenBatches(store, 80, num_shapes=1)
    assert repr(batches).startswith("<TokenBatches: 3 pairs, ")
    tags = kt.parsing.TagDictionary([["NN"], ["DT"]], ["a the"])
    assert repr(tags) == "<TagDictionary: 2 words, 2 sets of tags>"
