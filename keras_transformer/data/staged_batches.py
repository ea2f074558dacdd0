"""Batches of one text, followed by batches of another: a curriculum."""

from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.data.prefetch import infinite_dataset
from keras_transformer.errors import UserError

if TYPE_CHECKING:
    from keras_transformer.data.batching import Batch, TokenBatches


class StagedBatches:
    """Training batches of one text at the beginning of a training, and of another text after it.

    A curriculum (Bengio et al., 2009), such as constituents of trees before whole trees. The second
    stage starts with the first batch of its first epoch, even if the first stage ends in the middle
    of an epoch. The batch of each step depends only on the two `TokenBatches` and `num_batches`.

    Args:
        first: `TokenBatches` of the first stage.
        num_batches: the number of batches in the first stage, a multiple of the batches per update.
        rest: `TokenBatches` of all later batches, with the same number of batches per update.

    Attributes:
        accumulate: the number of batches per update.
        shapes: int array `(shapes, 2)` of the (source, target) lengths in both stages.

    Raises:
        UserError: if an update would contain batches of both stages.
    """

    def __init__(self, first: "TokenBatches", num_batches: int, rest: "TokenBatches"):
        if rest.accumulate != first.accumulate or num_batches % first.accumulate:
            raise UserError(
                "The first stage must consist of whole updates, with the same number of batches "
                f"per update as the second. Received: num_batches={num_batches}, "
                f"accumulate={first.accumulate} and {rest.accumulate}"
            )
        self.first, self.rest = first, rest
        self.num_batches = num_batches
        self.accumulate = first.accumulate
        self.shapes = np.unique(np.concatenate([first.shapes, rest.shapes]), axis=0)

    def batch_of_step(self, step: int) -> "Batch":
        """Return this shard's part of a batch, counted from the beginning of the training.

        Args:
            step: number of the batch, from 0.

        Returns:
            The batch, as `TokenBatches.batch` returns it.
        """
        batches, step = self._at(step)
        return batches.batch_of_step(step)

    def pairs_of_step(self, step: int) -> np.ndarray:
        """Return the indices of a batch's sentence pairs in the store of its stage.

        Args:
            step: number of the batch, from 0.
        """
        batches, step = self._at(step)
        return batches.pairs_of_step(step)

    def stream(self, start_step: int = 0) -> Any:
        """Return an infinite dataset of all batches: see `TokenBatches.stream`.

        Args:
            start_step: number of the first batch.
        """
        return infinite_dataset(lambda step: self.batch_of_step(start_step + step))

    def passes(self, steps: int) -> "list[tuple[TokenBatches, float]]":
        """Return how many epochs of each store the first batches of a training take.

        Args:
            steps: the number of batches.

        Returns:
            A list of pairs (`TokenBatches`, epochs).
        """
        parts = zip((self.first, self.rest), self._parts(steps))
        return [part for batches, count in parts for part in batches.passes(count)]

    def epochs(self, steps: int) -> float:
        """Return how many epochs the first batches of a training take, in both stages together.

        Args:
            steps: the number of batches.
        """
        return sum(epochs for _, epochs in self.passes(steps))

    def target_tokens(self, steps: int) -> float:
        """Return the target tokens in the first batches: see `TokenBatches.target_tokens`.

        Args:
            steps: the number of batches.
        """
        first, rest = self._parts(steps)
        return self.first.target_tokens(first) + self.rest.target_tokens(rest)

    def _at(self, step):
        """Return the `TokenBatches` of a step's stage, and the step's number within the stage."""
        if step < self.num_batches:
            return self.first, step
        return self.rest, step - self.num_batches

    def _parts(self, steps):
        """Divide a number of batches between the two stages."""
        first = min(steps, self.num_batches)
        return first, steps - first
