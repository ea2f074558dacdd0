"""Beam search in which hypotheses compete with those that have consumed as many words."""

from dataclasses import dataclass

import keras

from keras_transformer.decoding.candidates import fast_tracked_candidates
from keras_transformer.decoding.length_penalty import check_alpha, penalised
from keras_transformer.decoding.search import Search
from keras_transformer.decoding.static_fields import shared
from keras_transformer.errors import UserError
from keras_transformer.parsing.word_sync_loop import WordLoop
from keras_transformer.reserved_ids import END_ID
from keras_transformer.validation import integer, positive_integer


@keras.saving.register_keras_serializable(package="keras_transformer")
@dataclass(frozen=True, repr=False)
class WordSynchronousBeamSearch(Search):
    """Beam search for outputs some of whose tokens stand for a word of the source, such as
    linearised trees (Stern, Fried and Klein, 2017, "Effective Inference for Generative Neural
    Parsing", section 4).

    Where a token that stands for a word is dearer than one that does not, hypotheses that have
    consumed fewer words push the others out of a common beam. So here they compete with those that
    have consumed as many. Between two words, live hypotheses are continued with every token, and a
    continuation that consumes the next word waits. At each step

    1. the best `fast_track` of the continuations with a word wait, whatever their rank among all;
    2. of the rest the best `action_beam_size` are kept: those with a word wait, the others live on;
    3. of those that wait the best `beam_size` are kept.

    When no live hypothesis can come among those that wait any more, because log-probabilities only
    fall, these live on towards the word after. What ends counts as one more word, and is finished:
    scored as in `BeamSearch`, and kept apart. The search for a sentence stops when no hypothesis
    can score more than what is finished.

    An output ends with the end token, or where it is `extra_length` tokens longer than its source;
    a sentence's result does not depend on its neighbours. Of hypotheses that score the same, the
    one that has waited longer, then the one of the better rank, then of the lower token id comes
    first, on every backend.

    ```python
    search = kt.parsing.WordSynchronousBeamSearch(beam_size=4, word_ids=grammar.leaf_ids)
    token_ids, scores = search(model, encoder_token_ids, constraints=(grammar.over(num_words),))
    parser = kt.ConstituencyParser.from_preset(
        "saved_models/craft_parser", search=kt.parsing.WordSynchronousBeamSearch, beam_size=4
    )
    ```

    Call arguments and results are those of every `Search`.

    Args:
        beam_size: how many hypotheses are kept at each word, and the most results.
        action_beam_size: how many live between two words: `beam_size` at least. Defaults to
            twice `beam_size`.
        fast_track: how many continuations with a word wait at each step, whatever their rank: at
            most as many as live between two words.
        word_ids: ids of the tokens that consume a word. A `ConstituencyParser` knows its own.
        alpha: α, the strength of the length penalty among finished hypotheses, from 0 to 10.
        extra_length: how many tokens, the end token included, an output may have beyond the tokens
            of its source.
        constraints: tuple of `keras_transformer.constraints.Constraint`.

    Raises:
        UserError: if an argument is out of its range; in a call, if there are no `word_ids`, or
            they are not the model's.
    """

    loop_class = WordLoop

    beam_size: int = 4
    action_beam_size: int | None = None
    fast_track: int = 1
    word_ids: tuple = ()
    alpha: float = shared("float32", 0.3, off=0)
    extra_length: int = shared("int32", 300)
    constraints: tuple = ()

    def __post_init__(self):
        beam_size = positive_integer("beam_size", self.beam_size)
        action_beam_size = self.action_beam_size
        if action_beam_size is not None:
            action_beam_size = integer(
                "action_beam_size",
                action_beam_size,
                beam_size,
                f"an integer, beam_size={beam_size} or larger",
            )
        self._check_fields(
            beam_size=beam_size,
            action_beam_size=action_beam_size,
            fast_track=integer("fast_track", self.fast_track, 0, "an integer, 0 or larger"),
            word_ids=tuple(_word_id(word_id) for word_id in self.word_ids),
            alpha=check_alpha(self.alpha),
        )
        if self.fast_track > self.num_actions:
            raise UserError(
                f"`fast_track` must be no larger than what lives between two words: "
                f"{self.num_actions}. Received: fast_track={self.fast_track}"
            )

    def __str__(self):
        return (
            f"word-synchronous beam {self.beam_size}, {self.num_actions} between words, "
            f"fast track {self.fast_track}, alpha {self.alpha}"
        )

    def __call__(self, model, encoder_token_ids, *args, **options):
        size = model.hyperparameters["vocabulary_size"]
        if not self.word_ids or max(self.word_ids) >= size:
            raise UserError(
                "`word_ids` must be the ids of the tokens that consume a word, one at least, below "
                f"{size}, the vocabulary size. Received: word_ids={self.word_ids}"
            )
        return super().__call__(model, encoder_token_ids, *args, **options)

    @property
    def most_results(self):
        return self.beam_size

    @property
    def num_actions(self):
        """How many hypotheses of a sentence live between two words."""
        return self.action_beam_size or 2 * self.beam_size

    def num_live(self, num_results):
        return self.num_actions + self.beam_size  # those that wait have places of their own

    def num_starts(self, num_results):
        return 1

    def candidates(self, choose, scores, numbers):
        fast_ids = (END_ID, *self.word_ids)
        return fast_tracked_candidates(choose, scores, fast_ids, self.fast_track)

    def penalised(self, scores, length):
        return penalised(scores, length, self.alpha)


def _word_id(value):
    return integer("word_ids", value, END_ID + 1, f"ids above the end token's {END_ID}")
