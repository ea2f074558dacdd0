"""Comparison of two systems' translations by paired bootstrap resampling."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keras_transformer.evaluation.bleu import check_lengths, make_metrics, reference_streams
from keras_transformer.progress import spinner
from keras_transformer.validation import check_strings

# The resampled scores, by their names in `TranslationScores` and in print. (TER would take
# minutes.)
_METRICS = {"bleu": "BLEU", "chrf_plus_plus": "chrF2++"}


@dataclass(frozen=True)
class Comparison:
    """One score of two systems on the same sentences.

    Attributes:
        name: `"BLEU"` or `"chrF2++"`.
        signature: sacreBLEU's signature, with the number of resamples and their seed.
        score: score of the translations.
        other: score of the other system's translations.
        p_value: probability of a difference this large if the systems are equally good (Koehn
            2004).
    """

    name: str
    signature: str
    score: float
    other: float
    p_value: float

    def __str__(self) -> str:
        return (
            f"{self.name}|{self.signature} = {self.score:.2f}, and {self.other:.2f} of the other: "
            f"p = {self.p_value:.4f}"
        )


def compare_translations(
    hypotheses: Sequence[str],
    others: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    tokenize: str | None = None,
    language: str | None = None,
    num_samples: int = 1000,
) -> list[Comparison]:
    """Compare two systems' translations by paired bootstrap resampling (Koehn 2004).

    sacreBLEU samples with the seed in its environment variable `SACREBLEU_SEED`, or 12345.

    Args:
        hypotheses: the translations.
        others: the other system's translations.
        references: as for `score_translations`.
        tokenize: as for `score_translations`.
        language: as for `score_translations`.
        num_samples: the number of samples of the sentences.

    Returns:
        The `Comparison` by BLEU, and the one by chrF++.

    Raises:
        UserError: as for `score_translations`.
    """
    from sacrebleu.significance import PairedTest

    streams = reference_streams(references)
    systems: list[tuple[str, Sequence[str]]] = [  # the first is the base
        ("other", check_strings("others", others)),
        ("hypotheses", check_strings("hypotheses", hypotheses)),
    ]
    for _, sentences in systems:
        check_lengths(sentences, streams)
    metrics = make_metrics(tokenize, language)
    metrics = {name: metrics[key] for key, name in _METRICS.items()}
    test = PairedTest(systems, metrics, streams, test_type="bs", n_samples=num_samples)
    with spinner("drawing samples"):
        signatures, results = test()
    return [_comparison(name, str(signatures[name]), *results[name]) for name in metrics]


def _comparison(name: str, signature: str, other: Any, scored: Any) -> Comparison:
    """Return one score of two systems, given sacreBLEU's results for the base and the other."""
    # sacreBLEU reports p = 0 for equal scores.
    p_value = 1.0 if other.score == scored.score else scored.p_value
    return Comparison(name, signature, scored.score, other.score, p_value)
