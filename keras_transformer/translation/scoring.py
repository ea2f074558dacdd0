"""Log-probabilities and alignments of given translations, from one pass over batches of pairs."""

import contextlib
import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.data.language_selection import validate_selected
from keras_transformer.decoding.batched_search import (
    FEW_SIZES,
    SIZES,
    batches_by_length,
    pad_to_few_shapes,
)
from keras_transformer.decoding.compilation import run_compiled
from keras_transformer.decoding.search_loop import SMALLEST_COVERAGE
from keras_transformer.decoding.static_fields import validate_integers
from keras_transformer.errors import UserError
from keras_transformer.layers.multi_head_attention import recorded_attention
from keras_transformer.models.losses import logit_of
from keras_transformer.models.transformer import Transformer
from keras_transformer.progress import bar
from keras_transformer.reserved_ids import PAD_ID, START_ID
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
    heads: tuple[int, ...] | None = None,
    few_shapes: bool = False,
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
        heads: indices of the heads whose weights are averaged. Defaults to all.
        few_shapes: whether batches are padded to `FEW_SIZES`.

    Returns:
        One `ForcedOutput` per pair. It is empty if the source or the target has no ids.
    """
    sizes = FEW_SIZES if few_shapes else SIZES
    limit = min(batch_tokens, max(1, _MOST_LOGITS // model.config.vocabulary_size))
    pairs = list(zip(sources, targets, strict=True))
    lengths = np.array([max(map(len, pair)) if all(map(len, pair)) else 0 for pair in pairs], int)
    attention = None if layer is None else np.zeros((0, 0), "float32")
    results = [ForcedOutput(np.zeros(0, "float32"), attention)] * len(pairs)
    with bar("scoring", "pairs", len(pairs)) as progress:
        progress.update(int(np.count_nonzero(lengths == 0)))
        for rows in batches_by_length(lengths, limit, sizes):
            batch = [
                pad_to_few_shapes(
                    [side[row] for row in rows], model.config.max_length, limit, sizes
                )
                for side in (sources, targets)
            ]
            width = max(ids.shape[1] for ids in batch)
            batch = [np.pad(ids, ((0, 0), (0, width - ids.shape[1]))) for ids in batch]
            outputs = run_compiled(_forced_pass, model, *batch, layer=layer, heads=heads)
            log_probs, *weights = map(ops.convert_to_numpy, outputs)
            for place, row in enumerate(rows):
                source, target = map(len, pairs[row])
                found = [x[place, ..., :target, :source] for x in weights]
                results[row] = ForcedOutput(log_probs[place, :target], *(found or [None]))
            progress.update(len(rows))
    return results


def score_pairs(
    translator: "Translator", sources: Iterable[Any], targets: Iterable[Any], split: str | None
) -> list[TranslationScore]:
    """Return the result of `Translator.score`."""
    source_ids, target_ids = pair_ids(translator, sources, targets, split)
    search = translator.search
    layer = -1 if search.coverage_penalty else None
    outputs = teacher_forced(
        translator.model, source_ids, target_ids, translator.batch_tokens, layer
    )
    prefix = len(translator.preprocessor.target_prefix)
    token_log_probs = [output.log_probs[prefix:].tolist() for output in outputs]
    totals = np.array([math.fsum(x) for x in token_log_probs], "float32")
    lengths = np.array([len(ids) or 1 for ids in target_ids], "int32")
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


def pair_ids(
    translator: "Translator", sources: Iterable[Any], targets: Iterable[Any], split: str | None
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the ids of sources and of their translations, given as strings or as ids.

    Args:
        translator: a `Translator`.
        sources: list of strings, or of ids with prefix and end token, which 0 may pad.
        targets: likewise, one per source.
        split: as for `Translator.score`.

    Returns:
        Two lists of lists of ids.

    Raises:
        UserError: if the numbers of sources and targets differ, an id is not in the vocabulary, a
            target has no ids or does not begin with `target_prefix`, or one is longer than the
            positions that the model learned.
    """
    text, model = translator.preprocessor, translator.model
    prefix = text.target_prefix_ids
    validate_selected(text, translator.metadata)
    encode = functools.partial(text.encode_sources, max_length=translator.source_limit())
    sources, targets = _rows("sources", sources), _rows("targets", targets)
    check_one_per_source("targets", sources, targets)
    sources, targets = translator.texts_read(sources, targets, split)
    sources = _ids("sources", sources, encode, model.encoder.token_embedding.input_dim)
    targets = _ids("targets", targets, text.encode_targets, model.config.vocabulary_size)
    for index, (source, target) in enumerate(zip(sources, targets)):
        name = f"`targets[{index}]`"
        is_empty = source and len(target) <= len(prefix)
        if is_empty or target[: len(prefix)] != prefix[: len(target)]:
            raise UserError(
                f"{name} must have a token, after those of `target_prefix`. Received: {target}"
            )
        longest, most = max(len(source), len(target)), model.config.max_length
        if most is not None and longest > most:
            raise UserError(
                f"{name} and its source must have at most {most} tokens, the positions that the "
                f"model learned. Received: {longest} tokens"
            )
    return sources, targets


def _rows(name, rows):
    if not isinstance(rows, Iterable) or isinstance(rows, str):
        return check_strings(name, rows)
    rows = list(rows)
    is_text = any(isinstance(row, str) or not isinstance(row, Iterable) for row in rows)
    return check_strings(name, rows) if is_text else rows


def _ids(name, rows, encode, size):
    if rows and isinstance(rows[0], str):
        return encode(rows)
    return [_checked_ids(f"{name}[{index}]", row, size) for index, row in enumerate(rows)]


def _checked_ids(name, row, size):
    ids = ops.convert_to_numpy(validate_integers(name, row)).ravel().tolist()
    while ids and ids[-1] == PAD_ID:
        ids.pop()
    if wrong := [i for i in ids if not 0 < i < size]:
        raise UserError(
            f"`{name}` must be ids from 1 to {size - 1}, padded with 0 at the end only. "
            f"Received: the id {wrong[0]}"
        )
    return ids


def _forced_pass(model, source_ids, target_ids, layer, heads):
    start = ops.full((ops.shape(target_ids)[0], 1), START_ID, "int32")
    inputs = ops.concatenate([start, target_ids[:, :-1]], axis=1)
    is_recorded = layer is not None
    with recorded_attention() if is_recorded else contextlib.nullcontext({}) as record:
        logits = model.decode(inputs, source_ids, model.encode(source_ids))
    log_probs = logit_of(target_ids, logits) - ops.logsumexp(logits, axis=-1)
    if not is_recorded:
        return (log_probs,)
    layers = [layer] if isinstance(layer, int) else layer
    # Tied layers are called several times.
    crosses = [record[block.cross_attention].pop(0) for block in model.decoder.layers]
    found = [crosses[index] for index in layers]
    if heads is not None:
        found = [ops.take(weights, np.array(heads, "int32"), axis=1) for weights in found]
    means = [ops.mean(ops.cast(weights, "float32"), axis=1) for weights in found]
    return log_probs, means[0] if isinstance(layer, int) else ops.stack(means, axis=1)
