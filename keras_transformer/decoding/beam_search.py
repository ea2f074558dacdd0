"""Beam search, and greedy search, which is a beam search of one hypothesis (section 6.1)."""

from dataclasses import dataclass

import keras

from keras_transformer.decoding.candidates import best_candidates
from keras_transformer.decoding.constraints import BannedTokens, ForcedPrefix, MinLength
from keras_transformer.decoding.length_penalty import check_alpha, length_penalties, penalised
from keras_transformer.decoding.search import Search, check_constraints
from keras_transformer.decoding.static_fields import shared
from keras_transformer.errors import UserError
from keras_transformer.validation import not_negative, positive_integer


@keras.saving.register_keras_serializable(package="keras_transformer")
@dataclass(frozen=True, repr=False)
class BeamSearch(Search):
    """Search for the output y of a source x that maximises (section 6.1; Wu et al., 2016, Eq. 14)

    ```
    score(y, x) = log P(y | x) / lp(|y|) + β Σ_i log min(Σ_j p_ij, 1)
    lp(|y|)     = ((5 + |y|) / 6)^α    "gnmt"
                  |y|^α                "power"
    ```

    where |y| counts the end token, and p_ij is the attention to source token i when y_j is
    predicted: the mean over the heads of the last layer.

    At each step the live hypotheses, `beam_size` at most, are continued with every token. Of the
    best `beam_size` continuations those that end are finished: scored once, and kept apart. The
    best `beam_size` that do not end live on. The search for a sentence stops when no live
    hypothesis can score more than what is finished, and the batch when all its sentences have
    stopped. An output ends with the end token, or where it is `extra_length` tokens longer than its
    source; a sentence's result does not depend on its neighbours. Of hypotheses that score the same
    the one of the better rank, then of the lower token id, comes first, on every backend.

    ```python
    search = BeamSearch(beam_size=8, alpha=1.0, constraints=(constraints.NoRepeatedNgrams(3),))
    token_ids, scores = search(model, encoder_token_ids, num_results=2)
    ```

    Call arguments and results are those of every `Search`.

    Args:
        beam_size: the number of live hypotheses of a sentence, and the most results.
        alpha: α, the strength of the length penalty, from 0 to 10. The larger, the longer the
            outputs.
        length_penalty: lp, `"gnmt"` or `"power"`.
        coverage_penalty: β, the strength of the coverage penalty. It chooses among finished
            hypotheses, and does not lead the search.
        extra_length: how many tokens, the end token included, an output may have beyond the tokens
            of its source.
        constraints: tuple of `keras_transformer.constraints.Constraint`.

    Raises:
        UserError: if an argument is out of its range.
    """

    beam_size: int = 4
    alpha: float = shared("float32", 0.6, off=0)
    length_penalty: str = "gnmt"
    coverage_penalty: float = shared("float32", 0.0, off=0)
    extra_length: int = shared("int32", 50)
    constraints: tuple = ()

    def __post_init__(self):
        if self.length_penalty not in list(length_penalties):
            raise UserError(
                f"`length_penalty` must be one of {sorted(length_penalties)}. "
                f"Received: length_penalty={self.length_penalty!r}"
            )
        self._check_fields(
            beam_size=positive_integer("beam_size", self.beam_size),
            alpha=check_alpha(self.alpha),
            coverage_penalty=not_negative("coverage_penalty", self.coverage_penalty),
        )

    def __str__(self):
        return f"beam {self.beam_size}, alpha {self.alpha}"

    @property
    def most_results(self):
        return self.beam_size

    def num_live(self, num_results):
        return self.beam_size

    def num_starts(self, num_results):
        return 1  # the beam grows out of it

    def candidates(self, choose, scores, numbers):
        return best_candidates(choose, scores)

    def penalised(self, scores, length):
        return penalised(scores, length, self.alpha, self.length_penalty)


def beam_search(
    model,
    encoder_token_ids,
    beam_size=4,
    alpha=0.6,
    extra_length=50,
    num_results=1,
    length_penalty="gnmt",
    coverage_penalty=0.0,
    min_length=0,
    prefix_token_ids=None,
    banned_token_ids=(),
    return_attention=False,
    constraints=(),
):
    """Call a `BeamSearch` of these options.

    Args:
        model: a `Transformer`.
        encoder_token_ids: int array `(batch, source)`, as every `Search` takes it.
        beam_size: see `BeamSearch`.
        alpha: see `BeamSearch`.
        extra_length: see `BeamSearch`.
        num_results: how many outputs of each sentence to return, `beam_size` at most.
        length_penalty: see `BeamSearch`.
        coverage_penalty: see `BeamSearch`.
        min_length: see `constraints.MinLength`.
        prefix_token_ids: see `constraints.ForcedPrefix`.
        banned_token_ids: see `constraints.BannedTokens`.
        return_attention: whether to return the attention of the outputs to the source.
        constraints: further constraints.

    Returns:
        The tuple `(token_ids, scores)`, or `(token_ids, scores, attention)`: see `Search`.

    Raises:
        UserError: if an argument is out of its range or does not fit the model or the sentences.
    """
    search = BeamSearch(beam_size, alpha, length_penalty, coverage_penalty, extra_length)
    constraints = with_constraints(constraints, min_length, prefix_token_ids, banned_token_ids)
    return search(model, encoder_token_ids, num_results, constraints, return_attention)


def greedy_search(model, encoder_token_ids, extra_length=50):
    """Take the likeliest token at each step: a `BeamSearch` of one hypothesis.

    A sentence's output ends with the end token, or where it is `extra_length` tokens longer than
    its source, whatever else is in the batch.

    Args:
        model: a `Transformer`.
        encoder_token_ids: int array `(batch, source)`, as every `Search` takes it.
        extra_length: see `BeamSearch`.

    Returns:
        The pair `(token_ids, scores)`:
        `token_ids`: int32 tensor `(batch, source + extra_length)`, without the start token, the end
        token included, 0 after it;
        `scores`: float32 tensor `(batch,)`, the log-probability of the output.

    Raises:
        UserError: if an argument is out of its range or does not fit the model or the sentences.
    """
    token_ids, scores = greedy(extra_length=extra_length)(model, encoder_token_ids)
    return token_ids[:, 0], scores[:, 0]


def greedy(**options):
    """The `BeamSearch` that is greedy search."""
    return BeamSearch(**{"beam_size": 1, "alpha": 0.0, **options})


def with_constraints(constraints=(), min_length=0, prefix_token_ids=None, banned_token_ids=()):
    """The tuple of constraints that these arguments stand for."""
    constraints = [*check_constraints(constraints)]
    if min_length != 0:
        constraints.append(MinLength(min_length))
    if prefix_token_ids is not None:
        constraints.append(ForcedPrefix(prefix_token_ids))
    banned = BannedTokens(banned_token_ids)
    return (*constraints, *([banned] if banned.banned_token_ids else []))
