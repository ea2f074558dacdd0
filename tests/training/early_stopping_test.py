"""Checkpoints chosen by their validation, and trainings that end when there is nothing better."""

import math

import keras
import pytest

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.token_store import TokenStore
from keras_transformer.models.losses import LabelSmoothedCrossentropy
from keras_transformer.training.callbacks import LogScore
from keras_transformer.training.optimizer import WholeBatchOptimizer
from keras_transformer.training.rolling_checkpoints import RollingCheckpoints
from keras_transformer.training.stopping import (
    StopEarly,
    best_checkpoints,
    has_ended,
    merit,
)
from keras_transformer.training.trainer import fit_in_parts, plan_parts
from keras_transformer.training.training_state import TrainingState, newest_state
from keras_transformer.weights.checkpoints import list_checkpoints, step_of
from tests.small_corpus import quick_model, sentence_pairs, tokenizer

SCORES = [1.0, 5.0, 3.0, 5.0, 2.0, math.nan, 9.0]


def train(folder, batches, num_batches, state):
    """Two batches an interval, whose validations give `SCORES`, with patience 3."""
    model = quick_model()
    optimizer = WholeBatchOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer, LabelSmoothedCrossentropy(reduction="sum"))
    optimizer.build(model.trainable_variables)
    state.restore(model)
    checkpoints = RollingCheckpoints(
        folder, keep=2, start=state, num_batches=num_batches, best_by="val_bleu"
    )
    scores = iter(SCORES[len(checkpoints.history.get("val_bleu", [])) :])
    callbacks = [
        LogScore("val_bleu", lambda: next(scores)),
        StopEarly("val_bleu", 3, checkpoints.history),
        checkpoints,
    ]
    parts = plan_parts(state.batches, num_batches, 2)
    fit_in_parts(model, batches.stream, parts, callbacks=callbacks, verbose=0)
    checkpoints.wait()
    return checkpoints.history["val_bleu"]


@pytest.mark.parametrize("sittings", [(14,), (2, 14), (4, 6, 14), (8, 14), (5, 14)])
def test_stops_early_with_the_best_checkpoints_wherever_it_is_resumed(tmp_path, sittings):
    store = TokenStore.build(tmp_path / "store", sentence_pairs(30), tokenizer())
    batches = TokenBatches(store, 80, num_shapes=1)
    folder, state = tmp_path / "checkpoints", TrainingState()
    for num_batches in sittings:
        history = train(folder, batches, num_batches, state)
        state = newest_state(folder)
    if 5 in sittings:  # a short interval is one too: at 2, 4, 5, 6, 8 steps
        assert len(history) == 5 and state.step == 8
        return
    # The second 5.0 is no better than the first; of the two, and 3.0 between them, both stay.
    assert history == SCORES[:5] and state.step == 10
    kept = list_checkpoints(folder)
    assert [step_of(path, "weights.h5") for path in kept] == [4, 8]
    assert best_checkpoints(folder, "val_bleu", 2) == kept
    assert best_checkpoints(folder, "val_bleu", 1) == kept[1:]
    assert has_ended(state.history["val_bleu"], "val_bleu", 3)


@pytest.mark.once
@pytest.mark.parametrize(
    ("values", "name", "patience", "expected"),
    [
        ([], "val_loss", 1, False),
        ([3.0], "val_loss", 1, False),
        ([3.0, 2.0], "val_loss", 1, False),
        ([3.0, 3.0], "val_loss", 1, True),
        ([3.0, 2.0], "val_bleu", 1, True),
        ([3.0, 2.0, 1.0, 4.0], "val_bleu", 3, False),
        ([3.0, 2.0, 1.0], "val_bleu", 0, False),
        ([math.nan, math.nan, 1.0], "val_f1", 2, False),
        ([1.0, math.nan, math.nan], "val_perplexity", 2, True),
    ],
    ids=str,
)
def test_when_a_training_has_ended(values, name, patience, expected):
    assert has_ended(values, name, patience) == expected


@pytest.mark.once
def test_smaller_losses_and_larger_scores_are_better():
    assert merit("val_loss", 1.0) > merit("val_loss", 2.0) > merit("val_loss", math.nan)
    assert merit("val_perplexity", 3.0) > merit("val_perplexity", 4.0)
    assert merit("val_bleu", 2.0) > merit("val_bleu", 1.0) > merit("val_bleu", None)
