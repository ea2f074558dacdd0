"""What every constraint of a search answers."""

from typing import NamedTuple

from keras_transformer.decoding.static_fields import Settings


class Sizes(NamedTuple):
    """How large a search is."""

    batch: object  # int, or int32 scalar: sentences
    beam: int  # live hypotheses of a sentence
    length: object  # int, or int32 scalar: no output is longer


class Progress(NamedTuple):
    """How far a search is."""

    step: object  # int32 scalar or (batch, beam): how many tokens the live hypotheses have
    tokens_left: object  # int32 (batch, 1 or beam): how many more they may have, the end included


class Constraint(Settings):
    """A rule for what an output may hold; a base class of frozen dataclasses.

    A search asks each of its constraints, at each step, what may come next of each live hypothesis.
    What a constraint has to remember of a hypothesis is its state: a tensor, or a structure of
    tensors, whose first axis is the batch. A field declared with `settings.shared` or
    `settings.rows` is a tensor inside the search, so another value needs no new program.

    ```python
    @keras.saving.register_keras_serializable(package="mine")
    @dataclasses.dataclass(frozen=True)
    class OnlyEvenTokens(kt.constraints.Constraint):
        def allowed(self, log_probs, token_ids, state, progress):
            return ops.where(token_ids % 2 == 0, log_probs, -np.inf)
    ```

    Attributes:
        num_forbidden: how many tokens it forbids at most, at any step; None if it may forbid any
            number, or lowers some. Where it is known, only so many more of the likeliest tokens are
            looked at, and not the whole vocabulary.
        scores_forced: whether the log-probabilities of tokens that it forces count in the score.
        max_length: the most tokens of an output, the end token included; None for no limit.
    """

    num_forbidden = None
    scores_forced = True
    max_length = None

    def check(self, model, encoder_token_ids, limits):
        """Raise a `UserError` if it does not fit the model or the sentences.

        Args:
            model: a `Transformer`.
            encoder_token_ids: int array `(batch, source)`; a tensor in a program that is being
                compiled.
            limits: int array `(batch,)`: the most tokens of each output, 0 for a source without
                tokens; None in a program that is being compiled.

        Raises:
            UserError: if it does not fit.
        """

    def token_ids(self):
        """The ids of the only tokens that outputs may hold: a sorted int array; None for all."""
        return None

    def first_state(self, sizes):
        """What to remember of hypotheses without tokens.

        Args:
            sizes: `Sizes`.

        Returns:
            The state.
        """
        return ()

    def forced(self, state, progress):
        """The token that must come next, whatever other constraints say.

        Args:
            state: the state.
            progress: `Progress`.

        Returns:
            None, or an int32 tensor that broadcasts to `(batch, beam)`: 0 where none is forced.
        """
        return None

    def adjust_logits(self, logits, state, progress):
        """Return the logits of which the softmax is taken.

        Args:
            logits: float32 tensor `(batch, beam, vocabulary_size)`.
            state: the state.
            progress: `Progress`.

        Returns:
            Float32 tensor `(batch, beam, vocabulary_size)`.
        """
        return logits

    def allowed(self, log_probs, token_ids, state, progress):
        """What may come next.

        Args:
            log_probs: float32 tensor `(batch, beam, n)`: log-probabilities of tokens.
            token_ids: which tokens: a sorted int array `(n,)`; or, if the constraint knows
                `num_forbidden`, perhaps an int32 tensor `(batch, beam, n)`.
            state: the state.
            progress: `Progress`.

        Returns:
            Float32 tensor `(batch, beam, n)`: minus infinity for tokens that may not come next.
            Others may be lowered, and must not be raised.
        """
        return log_probs

    def next_state(self, state, parents, tokens):
        """What to remember after each live hypothesis has been replaced by one that is longer.

        Args:
            state: the state.
            parents: int32 tensor `(batch, beam)`: the hypotheses that go on.
            tokens: int32 tensor `(batch, beam)`: the token that each goes on with; 0 where it stays
                as it is, as it does in a search by words while it waits after one.

        Returns:
            The state.
        """
        return state
