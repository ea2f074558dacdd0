"""Batches of one text, then those of another: a curriculum."""

from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.data.prefetch import infinite_dataset
from keras_transformer.errors import UserError

if TYPE_CHECKING:
    from keras_transformer.data.batching import Batch, TokenBatches


class StagedBatches:
    """Training batches of one text for the beginning of a training, then those of another.

    A curriculum (Bengio et al., 2009), such as constituents of trees before whole trees alone. The
    second stage begins with the first batch of its first epoch, whatever epoch the first one has
    come to. Nothing but the `TokenBatches` and `num_batches` decides which batch a step has.

    Args:
        first: `TokenBatches` of the first stage.
        num_batches: how many of its batches there are: whole updates.
        rest: `TokenBatches` of all batches after these, with as many batches to an update.

    Attributes:
        accumulate: how many batches share an update.
        shapes: int array `(shapes, 2)` of (source, target) lengths, those of both stages.

    Raises:
        UserError: if an update would have batches of both stages.
    """

    def __init__(self, first: "TokenBatches", num_batches: int, rest: "TokenBatches"):
        if rest.accumulate != first.accumulate or num_batches % first.accumulate:
            raise UserError(
                "The first stage must be whole updates, of as many batches as in the second. "
                f"Received: num_batches={num_batches}, with accumulate={first.accumulate} and then "
                f"{rest.accumulate}"
            )
        self.first, self.rest = first, rest
        self.num_batches = num_batches
        self.accumulate = first.accumulate
        self.shapes = np.unique(np.concatenate([first.shapes, rest.shapes]), axis=0)

    def batch_of_step(self, step: int) -> "Batch":
        """This shard's part of a batch that is counted from the beginning of the training.

        Args:
            step: number of the batch, from 0.

        Returns:
            As `TokenBatches.batch`.
        """
        batches, step = self._at(step)
        return batches.batch_of_step(step)

    def pairs_of_step(self, step: int) -> np.ndarray:
        """The indices of its sentence pairs, in the store of its stage.

        Args:
            step: number of the batch, from 0.
        """
        batches, step = self._at(step)
        return batches.pairs_of_step(step)

    def stream(self, start_step: int = 0) -> Any:
        """All batches, without end: see `TokenBatches.stream`.

        Args:
            start_step: number of the first batch.
        """
        return infinite_dataset(lambda step: self.batch_of_step(start_step + step))

    def passes(self, steps: int) -> "list[tuple[TokenBatches, float]]":
        """How often the first batches of a training read each store: pairs (batches, epochs).

        Args:
            steps: how many batches.
        """
        parts = zip((self.first, self.rest), self._parts(steps))
        return [part for batches, count in parts for part in batches.passes(count)]

    def epochs(self, steps: int) -> float:
        """How many epochs the first batches of a training are: those of both stages together.

        Args:
            steps: how many batches.
        """
        return sum(epochs for _, epochs in self.passes(steps))

    def target_tokens(self, steps: int) -> float:
        """The number of target tokens in the first batches: see `TokenBatches.target_tokens`.

        Args:
            steps: how many batches.
        """
        first, rest = self._parts(steps)
        return self.first.target_tokens(first) + self.rest.target_tokens(rest)

    def _at(self, step):
        """The batches of a step's stage, and the step as they count it."""
        if step < self.num_batches:
            return self.first, step
        return self.rest, step - self.num_batches

    def _parts(self, steps):
        """How many of so many batches are of each stage."""
        first = min(steps, self.num_batches)
        return first, steps - first
