import random

import pytest

from keras_transformer.evaluation.comparison import compare_translations
from tests.small_corpus import sentence_pairs

pytestmark = pytest.mark.once

REFERENCES = [target for _, target in sentence_pairs(60)]


def with_faults(share, seed):
    generator = random.Random(seed)
    return [
        " ".join("x" if generator.random() < share else word for word in sentence.split())
        for sentence in REFERENCES
    ]


def test_a_better_system_is_told_from_one_as_good():
    good, as_good, worse = with_faults(0.2, 1), with_faults(0.2, 2), with_faults(0.5, 3)
    better = compare_translations(good, worse, REFERENCES, num_samples=200)
    assert [each.name for each in better] == ["BLEU", "chrF2++"]
    assert all(each.score > each.other and each.p_value < 0.01 for each in better)
    assert all("bs:200|seed:" in each.signature for each in better)
    assert str(better[0]).startswith(f"BLEU|{better[0].signature} = {better[0].score:.2f}, and ")
    for each in compare_translations(good, as_good, REFERENCES, num_samples=200):
        assert each.p_value > 0.05
    for each in compare_translations(good, good, REFERENCES, num_samples=20):
        assert (each.score, each.p_value) == (each.other, 1.0)


def test_lengths_that_differ():
    with pytest.raises(ValueError, match="59 hypotheses and 60 references"):
        compare_translations(REFERENCES, REFERENCES[1:], REFERENCES)
