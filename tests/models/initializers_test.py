"""Embeddings begin random, unless other values will be assigned to them."""

import numpy as np
import pytest

from keras_transformer.models.encoder_decoder import zero_embeddings
from keras_transformer.models.transformer import Transformer
from tests.helpers import to_numpy

SIZES = {
    **{"num_layers": 1, "hidden_dim": 16, "intermediate_dim": 8, "num_heads": 2},
    **{"source_vocabulary_size": 400, "tie_weights": False},
}


def embeddings():
    model = Transformer(500, **SIZES)
    target = model.decoder.token_embedding
    matrices = (target.embeddings, target.reverse_embeddings)
    return [to_numpy(x) for x in (*matrices, model.encoder.token_embedding.embeddings)]


def test_zero_embeddings_are_zeros():
    with zero_embeddings():
        assert not any(np.any(matrix) for matrix in embeddings())


def test_others_have_the_variance_of_the_paper_also_after_an_error():
    with pytest.raises(KeyError), zero_embeddings():
        raise KeyError
    for matrix in embeddings():
        assert np.std(matrix) == pytest.approx(16**-0.5, rel=0.05)
