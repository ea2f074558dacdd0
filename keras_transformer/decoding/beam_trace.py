"""All hypotheses of a search of one sentence, recorded step by step.

The compiled loop does not keep pruned hypotheses. Here its steps run one at a time, and the state
is recorded after each step.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.decoding.batch_compaction import Inputs, begin
from keras_transformer.decoding.candidates import Constraint
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.search_loop import SearchLoop, Sentences, State
from keras_transformer.decoding.search_policy import SearchPolicy
from keras_transformer.errors import UserError

# The tokens of hypotheses -> their scores.
Scores: TypeAlias = dict[tuple[int, ...], float]

# The final status of a hypothesis.
CONTINUED, FINISHED, LIVE, DROPPED = "continued", "finished", "live", "dropped"


class Hypothesis(NamedTuple):
    """The whole or the beginning of an output.

    Attributes:
        tokens: tuple of token ids, without the start token.
        status: `"finished"`; `"live"`: still live when the search stopped, but unable to win;
            `"dropped"`: none of its continuations found a place in the beam; or `"continued"`.
        score: the log-probability of the tokens; for a finished hypothesis, the score by which the
            search ranks it.
        step: the step of the search that produced it, from 1 on; None for a finished hypothesis.
    """

    tokens: tuple[int, ...]
    status: str
    score: float
    step: int | None = None


@dataclass(frozen=True)
class BeamHistory:
    """All hypotheses of a search of one sentence.

    Attributes:
        hypotheses: list of `Hypothesis`, each after the hypothesis that it continues.
        results: list of the hypotheses that the search returns, the best first.
        num_steps: the number of steps of the search.
    """

    hypotheses: list[Hypothesis]
    results: list[Hypothesis]
    num_steps: int


def replay(
    search: Search,
    model: keras.Model,
    encoder_token_ids: Tensor,
    num_results: int = 1,
    constraints: Constraint | Iterable[Constraint] = (),
    shortlist: Any = None,
) -> BeamHistory:
    """Run a `BeamSearch`, and keep all hypotheses.

    ```python
    history = replay(kt.BeamSearch(), model, [[5, 6, 2]])
    ```

    Args:
        search: the search.
        model: a `Transformer`.
        encoder_token_ids: int array `(1, source)`, as for the search.
        num_results: the number of outputs. The search stops when no live hypothesis can score more
            than this number of finished ones.
        constraints: further constraints.
        shortlist: as for the search.

    Returns:
        A `BeamHistory`.

    Raises:
        UserError: if the search is stochastic and so has no beam, if there is not exactly one
            sentence, or if the search rejects an argument.
    """
    search, token_ids, num_results, limits = search.validate_call(
        model, encoder_token_ids, num_results, constraints
    )
    limit = _length_limit(search, limits)
    candidates = search.candidates_of(model, token_ids, shortlist)
    steps, finished = _steps(search, model, token_ids, num_results, limit, candidates)
    return _history(steps, finished, num_results)


def _length_limit(search: Search, limits: np.ndarray | None) -> int:
    """Return the length limit of the output."""
    if search.is_stochastic:
        raise UserError(
            "`search` must be a beam search: a stochastic search has no beam. "
            f"Received: search={search!r}"
        )
    if limits is None or len(limits) != 1 or not limits[0]:
        received = "a tensor without values" if limits is None else f"{len(limits)} rows"
        raise UserError(
            "`encoder_token_ids` must be one sentence, (1, source), that contains tokens. "
            f"Received: {received}"
        )
    return int(limits[0])


def _steps(
    search: Search,
    model: keras.Model,
    token_ids: Tensor,
    num_results: int,
    limit: int,
    candidates: tuple[Tensor, Tensor],
) -> tuple[list[Scores], Scores]:
    """Return the log-probabilities of the live hypotheses per step, and the scores of the finished
    hypotheses.
    """
    beam = search.beam_width(num_results)
    per_example, traced = search.per_example_tensors(), search.traced_tensors()
    inputs = Inputs(token_ids, per_example, (), traced, search.seed_value(), *candidates)
    # Keep all finished hypotheses. The loop below decides when `num_results` of them are final.
    options = {"static_part": search.static_part(), "num_results": limit * beam}
    sentences, state = _run(_first_state, model, inputs, length=limit, **options)
    inputs = inputs._replace(encoder_token_ids=(), per_example=(), is_candidate=())
    places: list[list[tuple[int, ...]]] = [[()] * beam]
    steps, goes_on = [], True
    while goes_on:
        state = _run(_next_state, model, sentences, state, inputs, **options)
        parents, tokens = (_array(x)[0, len(steps)] for x in (state.parents, state.tokens))
        live = [(*places[-1][parent], int(token)) for parent, token in zip(parents, tokens)]
        scores = _array(state.scores)[0]
        steps.append({live[i]: float(scores[i]) for i in np.flatnonzero(scores > -np.inf)})
        places.append(live)
        finished = _array(state.finished_scores)[0]
        best = _array(search.penalized(ops.max(state.scores, axis=1), limit))
        goes_on = bool(steps[-1]) and best[0] > finished[num_results - 1]
    ends = zip(finished.tolist(), *(_array(x)[0].tolist() for x in state.ends))
    return steps, {
        (*places[step][parent], token): score
        for score, step, parent, token in ends
        if score > -np.inf
    }


def _history(steps: list[Scores], finished: Scores, num_results: int) -> BeamHistory:
    parents = {tokens[:-1] for tokens in (*finished, *(x for step in steps for x in step))}
    hypotheses = []
    for number, live in enumerate(steps, start=1):
        for tokens, score in live.items():
            status = CONTINUED if tokens in parents else LIVE if tokens in steps[-1] else DROPPED
            hypotheses.append(Hypothesis(tokens, status, score, number))
    ended = [Hypothesis(tokens, FINISHED, score) for tokens, score in finished.items()]
    return BeamHistory([*hypotheses, *ended], ended[:num_results], len(steps))


def _array(tensor: Tensor) -> np.ndarray:
    return ops.convert_to_numpy(tensor)


def _run(function: Callable, model: keras.Model, *tensors: Any, **options: Any) -> Any:
    """Call a program, compiled except on TensorFlow, whose programs do not have a static beam
    size.
    """
    if keras.backend.backend() == "tensorflow":
        return function(model, *tensors, **options)
    return run_compiled(function, model, *tensors, **options)


# Programs


def _first_state(
    model: keras.Model, inputs: Inputs, static_part: SearchPolicy, num_results: int, length: int
) -> tuple[Sentences, State]:
    loop, state = begin(model, inputs, static_part, num_results, length, steps=length)
    return loop.sentences, state


def _next_state(
    model: keras.Model,
    sentences: Sentences,
    state: State,
    inputs: Inputs,
    static_part: SearchPolicy,
    num_results: int,
) -> State:
    search = static_part.bind(inputs.traced)
    loop = SearchLoop(search, num_results, model, sentences, inputs.seed, inputs.candidate_ids)
    return loop.next_state(state)
