import pytest

from keras_transformer.decoding import batch_compaction
from tests.decoding.searches import ROWS, SEARCHES, shared_model
from tests.helpers import assert_close, to_numpy


@pytest.fixture
def batch_sizes(monkeypatch):
    """How many sentences are left when a program ends."""
    sizes = []

    def noted(*args, **options):
        stage = run_compiled(*args, **options)
        sizes.append(stage.sentences.rows.shape[0])
        return stage

    run_compiled = batch_compaction.run_compiled
    monkeypatch.setattr(batch_compaction, "run_compiled", noted)
    return sizes


@pytest.mark.parametrize("name", SEARCHES)
def test_removing_ended_sentences_changes_no_output(name, batch_sizes, monkeypatch):
    search, options = SEARCHES[name]
    whole = [to_numpy(x) for x in search(shared_model(), ROWS, **options)]
    assert set(batch_sizes) == {len(ROWS)}
    monkeypatch.setattr(batch_compaction, "FEWEST_HYPOTHESES", 1)
    model = shared_model.__wrapped__()  # the same, but one that has compiled no search yet
    halved = [to_numpy(x) for x in search(model, ROWS, **options)]
    assert batch_sizes[-1] <= 3
    assert halved[0].tolist() == whole[0].tolist() and halved[0].any()
    for some, all_of_them in zip(halved[1:], whole[1:]):
        assert_close(some, all_of_them, atol=1e-5)
