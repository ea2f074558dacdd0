"""What `beam_search` is held against: a Transformer in NumPy, the search in plain Python, sentence
by sentence and without a cache, and the list of all outputs there are.

Nothing here is shared with the package except for where the weights lie.
"""

import dataclasses
import functools
import itertools
import math

import numpy as np

from tests.helpers import next_words, to_numpy

START, END = 1, 2


class NumpyTransformer:
    """Log-probabilities and attention weights of a `Transformer`, in float64.

    Like `tests.helpers.numpy_logits`, but for many targets at once, for all options of the model,
    and with the attention weights.
    """

    def __init__(self, model):
        self.hyperparameters = model.hyperparameters
        self.encoder, self.decoder = model.encoder, model.decoder
        self.arrays = {weight.path: to_numpy(weight).astype("float64") for weight in model.weights}
        self.embeddings = self.array(model.encoder.token_embedding.embeddings)
        self.encode = functools.cache(self._encode)  # once for all steps of a search

    def __call__(self, source, targets):
        """
        Args:
            source: the token ids of one sentence, without padding.
            targets: token ids `(rows, target)`, each row beginning with the start token.

        Returns:
            Log-probabilities of the next tokens `(rows, target, vocabulary_size)`, and the weights
            of the attention over the source `(rows, target, num_layers, num_heads, source)`.
        """
        memory = self.encode(tuple(map(int, source)))
        x = self._embed(self.decoder, np.array(targets))
        if self.hyperparameters.get("leaf_ids") is not None:
            x += [next_words(memory[0], source, row, self.hyperparameters) for row in targets]
        length = x.shape[1]
        no_later = np.tril(np.ones((length, length), bool))
        all_weights = []
        for layer in self.decoder.layers:
            x, _ = self._attention_sublayer(layer, "self_attention", x, None, no_later)
            x, weights = self._attention_sublayer(layer, "cross_attention", x, memory, True)
            x = self._feed_forward_sublayer(layer, x)
            all_weights.append(weights)
        logits = self._norm(self.decoder.layer_norm, x) @ self.embeddings.T
        # (layers, rows, heads, target, source) -> (rows, target, layers, heads, source)
        return np.log(_softmax(logits)), np.transpose(all_weights, (1, 3, 0, 2, 4))

    def array(self, variable):
        return self.arrays[variable.path]

    def _encode(self, source):
        source = np.array([source])
        x, window = self._embed(self.encoder, source), self.hyperparameters["attention_window"]
        positions = np.arange(source.shape[1])
        reach = len(positions) if window is None else window // 2
        is_near = np.abs(positions[:, None] - positions) <= reach
        for layer in self.encoder.layers:
            x, _ = self._attention_sublayer(layer, "self_attention", x, None, is_near)
            x = self._feed_forward_sublayer(layer, x)
        return self._norm(self.encoder.layer_norm, x)

    def _embed(self, stack, token_ids):
        hidden_dim, length = self.embeddings.shape[1], token_ids.shape[1]
        if self.hyperparameters["position_encoding"] == "learned":
            positions = self.array(stack.position_encoding.embeddings)[:length]
        else:
            wavelengths = 10000 ** (np.arange(0, hidden_dim, 2) / hidden_dim)
            angles = np.arange(length)[:, None] / wavelengths
            positions = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, hidden_dim)
        return self.embeddings[token_ids] * math.sqrt(hidden_dim) + positions

    def _attention_sublayer(self, layer, name, x, memory, visible):
        attention, norm = getattr(layer, name), getattr(layer, f"{name}_norm")
        query = self._norm(norm, x) if layer.normalize_first else x
        y, weights = self._attention(attention, query, query if memory is None else memory, visible)
        return (x + y if layer.normalize_first else self._norm(norm, x + y)), weights

    def _feed_forward_sublayer(self, layer, x):
        feed_forward, norm = layer.feed_forward, layer.feed_forward_norm
        y = self._norm(norm, x) if layer.normalize_first else x
        y = np.maximum(0, self._dense(feed_forward.intermediate_dense, y))
        y = self._dense(feed_forward.output_dense, y)
        return x + y if layer.normalize_first else self._norm(norm, x + y)

    def _attention(self, layer, query, memory, visible):
        def heads(dense, x):  # (rows, length, heads * dim) -> (rows, heads, length, dim)
            x = self._dense(dense, x)
            return x.reshape(*x.shape[:2], layer.num_heads, -1).swapaxes(1, 2)

        query = heads(layer.query_dense, query)
        key, value = heads(layer.key_dense, memory), heads(layer.value_dense, memory)
        scores = query @ key.swapaxes(2, 3) / math.sqrt(layer.key_dim)
        weights = _softmax(np.where(visible, scores, -np.inf))
        merged = (weights @ value).swapaxes(1, 2).reshape(len(query), query.shape[2], -1)
        return self._dense(layer.output_dense, merged), weights

    def _dense(self, layer, x):
        x = x @ self.array(layer.kernel)
        return x + self.array(layer.bias) if layer.use_bias else x

    def _norm(self, layer, x):
        if layer is None:
            return x
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt(np.mean(centred**2, -1, keepdims=True) + layer.epsilon)
        return centred / deviation * self.array(layer.gamma) + self.array(layer.beta)


def _softmax(scores):
    exponentials = np.exp(scores - scores.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


@dataclasses.dataclass
class Hypothesis:
    tokens: tuple = ()
    log_probability: float = 0.0
    attention: tuple = ()  # a token's weights each: (num_layers, num_heads, source)
    score: float | None = None  # once it is complete


@dataclasses.dataclass
class Search:
    results: list  # best first
    completed: list  # in the order they were completed, the forgotten ones too
    # The smallest difference that decided anything: below some 1e-5, float32 may decide otherwise.
    margin: float


def reference_search(
    predict,
    source,
    beam_size=4,
    alpha=0.6,
    extra_length=50,
    num_results=1,
    length_penalty="gnmt",
    coverage_penalty=0.0,
    min_length=0,
    prefix=(),
    banned_token_ids=(),
    stops_early=True,
):
    """Beam search for one sentence, step by step.

    Args:
        predict: a `NumpyTransformer`.
        source: token ids without padding.
        prefix: the tokens, without padding, that the output must begin with.
        stops_early: whether to stop where no live hypothesis can win any more.
        (others): those of `beam_search`.

    Returns:
        A `Search`.
    """
    if not len(source):
        return Search([Hypothesis(score=0.0)] * num_results, [], math.inf)
    limit = len(source) - 1 + extra_length
    live, finished, completed, margin = [Hypothesis()], [], [], math.inf
    for step in range(limit):
        log_probabilities, attention = predict(source, [(START, *each.tokens) for each in live])
        candidates = []
        for i, hypothesis in enumerate(live):
            for token, log_probability in enumerate(log_probabilities[i, -1]):
                if _is_allowed(token, step, prefix, min_length, banned_token_ids):
                    total = hypothesis.log_probability + log_probability
                    candidates.append((-total, i, token))
        candidates.sort()  # the likeliest first, then the lower live index, then the lower token
        margin = min(margin, _smallest_gap([each[0] for each in candidates[: 2 * beam_size + 1]]))

        parents, live = live, []
        for rank, (cost, i, token) in enumerate(candidates[: 2 * beam_size]):
            tokens = (*parents[i].tokens, token)
            child = Hypothesis(tokens, -cost, (*parents[i].attention, attention[i, -1]))
            if token == END or len(tokens) == limit:
                if rank < beam_size:
                    child.score = score(child, alpha, length_penalty, coverage_penalty)
                    completed.append(child)
                    # The sort is stable: of equal ones the earlier stays ahead.
                    finished = sorted([*finished, child], key=lambda each: -each.score)
            elif len(live) < beam_size:
                live.append(child)
        margin = min(margin, _smallest_gap([each.score for each in finished[: num_results + 1]]))
        finished = finished[:num_results]
        if not live:
            break
        if stops_early and len(finished) == num_results:
            bound = live[0].log_probability / penalty(limit, alpha, length_penalty)
            if bound <= finished[-1].score:
                break
    return Search(finished, completed, margin)


def _is_allowed(token, step, prefix, min_length, banned_token_ids):
    if step < len(prefix):
        return token == prefix[step]
    if token == END and step + 1 < min_length:
        return False
    return token > START and token not in banned_token_ids


def _smallest_gap(numbers):
    return min(np.abs(np.diff(numbers)), default=math.inf)


def penalty(length, alpha, length_penalty):
    return {"gnmt": (5 + length) / 6, "power": length}[length_penalty] ** alpha


def score(hypothesis, alpha, length_penalty="gnmt", coverage_penalty=0.0):
    """log P / lp, plus the coverage penalty, of a complete hypothesis."""
    total = hypothesis.log_probability / penalty(len(hypothesis.tokens), alpha, length_penalty)
    if coverage_penalty:
        last_layer = np.array(hypothesis.attention)[:, -1]  # (tokens, heads, source)
        covered = last_layer.mean(axis=1).sum(axis=0)
        total += coverage_penalty * np.log(np.minimum(covered, 1)).sum()
    return total


def all_outputs(limit, vocabulary_size):
    """Every complete output there is: those that end, and those cut at the limit."""
    others = range(END + 1, vocabulary_size)
    for length in range(1, limit + 1):
        for tokens in itertools.product(others, repeat=length - 1):
            yield (*tokens, END)
            if length == limit:
                yield from ((*tokens, last) for last in others)


def brute_force(predict, source, extra_length, alpha, length_penalty="gnmt", coverage_penalty=0.0):
    """All complete hypotheses of a sentence, best first, each scored by the whole model."""
    limit = len(source) - 1 + extra_length
    outputs = list(all_outputs(limit, len(predict.embeddings)))
    targets = np.zeros((len(outputs), limit), int)  # what stands behind an output, none before sees
    for target, tokens in zip(targets, outputs):
        target[: len(tokens)] = [START, *tokens[:-1]]
    log_probabilities, attention = predict(source, targets)
    hypotheses = []
    for i, tokens in enumerate(outputs):
        steps = range(len(tokens))
        total = log_probabilities[i, steps, tokens].sum()
        hypothesis = Hypothesis(tokens, total, tuple(attention[i, steps]))
        hypothesis.score = score(hypothesis, alpha, length_penalty, coverage_penalty)
        hypotheses.append(hypothesis)
    return sorted(hypotheses, key=lambda each: -each.score)
