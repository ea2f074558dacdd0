import keras
import pytest

import keras_transformer as kt
from tests.small_corpus import new_model, sentence_pairs, tokenizer


@pytest.mark.once
def test_arrays_are_the_ids_with_end_and_start_tokens_and_padding():
    pairs = [("the dog", "a red cat runs"), ("a cat sees the old man", "the")]
    inputs, targets = kt.data.pairs_to_arrays(pairs, tokenizer())
    for row, (source, target) in enumerate(pairs):
        source_ids, target_ids = tokenizer().encode([source, target])
        assert inputs["encoder_token_ids"][row].tolist()[: len(source_ids) + 1] == [*source_ids, 2]
        assert not inputs["encoder_token_ids"][row, len(source_ids) + 1 :].any()
        assert targets[row].tolist()[: len(target_ids) + 1] == [*target_ids, 2]
        shifted = [1, *target_ids]
        assert inputs["decoder_token_ids"][row].tolist()[: len(shifted)] == shifted
        assert not inputs["decoder_token_ids"][row, len(shifted) :].any()
    assert inputs["decoder_token_ids"].shape == targets.shape


@pytest.mark.once
def test_no_pairs_are_refused():
    with pytest.raises(kt.UserError, match="at least one pair"):
        kt.data.pairs_to_arrays([], tokenizer())


def test_a_model_learns_from_the_arrays():
    model = new_model(dropout=0.0)
    model.compile(keras.optimizers.Adam(0.01), kt.LabelSmoothedCrossentropy())
    history = model.fit(
        *kt.data.pairs_to_arrays(sentence_pairs(20), tokenizer()), epochs=4, verbose=0
    )
    assert history.history["loss"][-1] < history.history["loss"][0]
