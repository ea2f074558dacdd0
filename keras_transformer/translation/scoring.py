"""Log-probabilities and alignments of given translations, from one pass over batches of pairs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.annotations import Tensor
from keras_transformer.data.language_selection import validate_selected
from keras_transformer.decoding.batched_search import (
    batches_by_length,
    pad_to_few_shapes,
)
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.decoding.search_loop import SMALLEST_COVERAGE
from keras_transformer.errors import UserError
from keras_transformer.layers.multi_head_attention import recorded_attention
from keras_transformer.models.losses import true_logits
from keras_transformer.models.transformer import Transformer
from keras_transformer.progress import bar
from keras_transformer.reserved_ids import START_ID
from keras_transformer.validation import check_one_per_source, check_strings

if TYPE_CHECKING:
    from keras_transformer.translation.translator import Translator

# The most logits of a batch, 256 MiB: a model of many languages has 256,000 per token.
_MOST_LOGITS = 2**26


class ForcedOutput(NamedTuple):
    """The model's values for one pair."""

    log_probs: np.ndarray  # float32 (target,): the log-probability of each target token
    attention: np.ndarray | None  # float32 (target, source): cross-attention, if it was wanted


@dataclass(frozen=True)
class TranslationScore:
    """The score of a given translation.

    Attributes:
        score: the score that the translator's search gives to this output.
        token_log_probs: the log-probability of each token, the end token included, after the
            tokens of `target_prefix`.
    """

    score: float
    token_log_probs: tuple[float, ...]

    @property
    def perplexity(self) -> float:
        """The perplexity per token: exp of the negative mean of `token_log_probs`."""
        return math.exp(-float(np.mean(self.token_log_probs))) if self.token_log_probs else 1.0


def teacher_forced(
    model: Transformer,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    batch_tokens: int,
    layer: int | tuple[int, ...] | None = None,
) -> list[ForcedOutput]:
    """Compute the log-probability of each target token, given its source and the tokens before it.

    Pairs of similar length are in one batch, and sources and targets are padded to the same
    length. So JAX compiles few programs.

    Args:
        model: a `Transformer`.
        sources: lists of ids, as the encoder reads them.
        targets: lists of ids, one per source, as a search returns them: without the start token.
        batch_tokens: the largest number of slots on each side of a batch.
        layer: index of the decoder layer whose cross-attention is returned; -1 is the last. A tuple
            of them adds an axis of layers before the others. Defaults to none.

    Returns:
        One `ForcedOutput` per pair. It is empty if the source or the target has no ids.
    """
    limit = min(batch_tokens, max(1, _MOST_LOGITS // model.config.vocabulary_size))
    pairs = list(zip(sources, targets, strict=True))
    lengths = np.array([max(map(len, pair)) if all(map(len, pair)) else 0 for pair in pairs], int)
    attention = None if layer is None else np.zeros((0, 0), "float32")
    results = [ForcedOutput(np.zeros(0, "float32"), attention)] * len(pairs)
    with bar("scoring", "pairs", len(pairs)) as progress:
        progress.update(int(np.count_nonzero(lengths == 0)))
        for rows in batches_by_length(lengths, limit):
            batch = [
                pad_to_few_shapes([side[row] for row in rows], model.config.max_length, limit)
                for side in (sources, targets)
            ]
            width = max(ids.shape[1] for ids in batch)
            batch = [np.pad(ids, ((0, 0), (0, width - ids.shape[1]))) for ids in batch]
            outputs = run_compiled(_forced_pass, model, *batch, layer=layer)
            log_probs, *weights = map(ops.convert_to_numpy, outputs)
            for place, row in enumerate(rows):
                source, target = map(len, pairs[row])
                found = [x[place, ..., :target, :source] for x in weights]
                results[row] = ForcedOutput(log_probs[place, :target], *(found or [None]))
            progress.update(len(rows))
    return results


def score_pairs(
    translator: "Translator", sources: Iterable[str], targets: Iterable[str], split: str | None
) -> list[TranslationScore]:
    """Return the result of `Translator.score`."""
    text, longest = translator.preprocessor, translator.model.config.max_length
    sources, targets = check_strings("sources", sources), check_strings("targets", targets)
    check_one_per_source("targets", sources, targets)
    validate_selected(text, translator.metadata)
    sources, targets = translator.texts_read(sources, targets, split)
    target_ids = text.encode_targets(targets)
    for index, ids in enumerate(target_ids):
        if longest is not None and len(ids) > longest:
            raise UserError(
                f"`targets[{index}]` must have at most {longest} tokens, the positions that the "
                f"model learned. Received: {len(ids)} tokens"
            )
    return score_ids(
        translator, text.encode_sources(sources, translator.source_limit()), target_ids
    )


def score_ids(
    translator: "Translator",
    source_ids: Sequence[Sequence[int]],
    target_ids: Sequence[Sequence[int]],
) -> list[TranslationScore]:
    """Score outputs as the search of a translator scores them.

    Args:
        translator: a `Translator`.
        source_ids: lists of ids, as the encoder reads them.
        target_ids: lists of ids, one per source, as a search returns them.
    """
    search, prefix = translator.search, len(translator.preprocessor.target_prefix)
    layer = -1 if search.coverage_penalty else None
    outputs = teacher_forced(
        translator.model, source_ids, target_ids, translator.batch_tokens, layer
    )
    token_log_probs = [output.log_probs[prefix:].tolist() for output in outputs]
    totals = np.array([math.fsum(x) for x in token_log_probs], "float32")
    lengths = np.array([len(ids) for ids in target_ids], "int32")
    penalized = search.penalized(*map(ops.convert_to_tensor, (totals, lengths)))
    scores = np.array(ops.convert_to_numpy(penalized), "float32")
    for row, output in enumerate(outputs):
        if not source_ids[row]:
            # The search gives it the empty translation, and no other.
            scores[row] = -np.inf if len(target_ids[row]) > prefix + 1 else 0.0
        elif output.attention is not None:
            covered = np.clip(output.attention.sum(axis=0), SMALLEST_COVERAGE, 1.0)
            scores[row] += search.coverage_penalty * np.log(covered).sum()
    return [TranslationScore(*pair) for pair in zip(scores.tolist(), map(tuple, token_log_probs))]


def _forced_pass(
    model: Transformer, source_ids: Tensor, target_ids: Tensor, layer: int | tuple[int, ...] | None
) -> tuple[Tensor, ...]:
    """Return the log-probabilities of the targets and, with a layer, its mean cross-attention."""
    start = ops.full((ops.shape(target_ids)[0], 1), START_ID, "int32")
    inputs = ops.concatenate([start, target_ids[:, :-1]], axis=1)
    attentions = [] if layer is None else [x.cross_attention for x in model.decoder.layers]
    with recorded_attention(attentions) as record:
        logits = model.decode(inputs, source_ids, model.encode(source_ids))
    log_probs = true_logits(target_ids, logits) - ops.logsumexp(logits, axis=-1)
    if layer is None:
        return (log_probs,)
    layers = [layer] if isinstance(layer, int) else layer
    # Tied layers are called several times.
    crosses = [record[attention].pop(0) for attention in attentions]
    found = [crosses[index] for index in layers]
    means = [ops.mean(ops.cast(weights, "float32"), axis=1) for weights in found]
    return log_probs, means[0] if isinstance(layer, int) else ops.stack(means, axis=1)
