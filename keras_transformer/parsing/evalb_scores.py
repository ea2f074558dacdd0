"""EVALB's figures, and the lines that the C program prints."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any

TABLE_HEAD = """\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
============================================================================"""


class Status(IntEnum):
    """The status of a sentence, with the numbers of the table."""

    VALID = 0
    ERROR = 1
    SKIP = 2


@dataclass(frozen=True)
class SentenceScores:
    """One row of EVALB's table.

    Attributes:
        length: number of words of the gold tree that count for the length.
        status: 0 for a scored sentence, 1 for an error sentence, 2 for a skip sentence. Error and
            skip sentences have only a length and numbers of brackets, which the table shows as 0.
        message: the reason for an error.
        matched: number of brackets in both trees.
        gold_brackets: number of brackets of the gold tree that count.
        predicted_brackets: number of brackets of the predicted tree that count.
        crossing: number of predicted brackets that cross a gold bracket.
        words: number of words that were not deleted.
        correct_tags: number of these words with the same part of speech in both trees.
    """

    length: int
    status: Status = Status.VALID
    message: str = ""
    matched: int = 0
    gold_brackets: int = 0
    predicted_brackets: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0

    @property
    def recall(self) -> float:
        return _percent(self.matched, self.gold_brackets)

    @property
    def precision(self) -> float:
        return _percent(self.matched, self.predicted_brackets)

    @property
    def tagging_accuracy(self) -> float:
        return _percent(self.correct_tags, self.words)

    @property
    def is_complete(self) -> bool:
        return self.matched == self.gold_brackets == self.predicted_brackets

    def table_row(self, number: int) -> str:
        gold, predicted = self.gold_brackets, self.predicted_brackets
        if self.status != Status.VALID:
            gold = predicted = 0
        return (
            f"{number:4d}  {self.length:3d}    {self.status:d}  "
            f"{self.recall:6.2f} {self.precision:6.2f}   {self.matched:3d}    "
            f"{gold:3d}  {predicted:3d}    {self.crossing:3d}"
            f"   {self.words:4d}  {self.correct_tags:4d}   {self.tagging_accuracy:6.2f}"
        )


@dataclass(frozen=True)
class Summary:
    """EVALB's figures of a set of sentences. Percentages are from 0 to 100.

    Brackets, words and crossings are counted over valid sentences, without error and skip
    sentences. So a parser whose worst trees are error sentences scores higher than a parser that
    gets half of each of these trees right. `strict_recall`, `strict_precision` and `strict_f1`,
    which EVALB does not have, count the brackets of all sentences. No bracket of an error sentence
    or a skip sentence matches: its gold brackets are missed, and its predicted brackets are wrong.
    Without such sentences the strict figures are EVALB's own.

    Attributes:
        sentences: number of sentences.
        errors: number of error sentences, in which the words of the two trees differ.
        skipped: number of skip sentences, whose predicted tree has no words.
        matched: number of brackets in both trees.
        gold_brackets: number of gold brackets.
        predicted_brackets: number of predicted brackets.
        complete: number of sentences whose brackets all match.
        crossing: number of predicted brackets that cross a gold bracket.
        without_crossing: number of sentences without such a bracket.
        with_few_crossings: number of sentences with at most two such brackets.
        words: number of words that were not deleted.
        correct_tags: number of these words with the right part of speech.
        strict_gold_brackets: number of gold brackets of all sentences.
        strict_predicted_brackets: number of predicted brackets of all sentences.
    """

    sentences: int
    errors: int
    skipped: int
    matched: int
    gold_brackets: int
    predicted_brackets: int
    complete: int
    crossing: int
    without_crossing: int
    with_few_crossings: int
    words: int
    correct_tags: int
    strict_gold_brackets: int
    strict_predicted_brackets: int

    @property
    def valid(self) -> int:
        """The number of scored sentences."""
        return self.sentences - self.errors - self.skipped

    @property
    def recall(self) -> float:
        return _percent(self.matched, self.gold_brackets)

    @property
    def precision(self) -> float:
        return _percent(self.matched, self.predicted_brackets)

    @property
    def f1(self) -> float:
        """2 P R / (P + R); 0 if nothing matches, where the C program prints `nan`."""
        return _f1(self.precision, self.recall)

    @property
    def strict_recall(self) -> float:
        """The percentage of the gold brackets of all sentences that are matched."""
        return _percent(self.matched, self.strict_gold_brackets)

    @property
    def strict_precision(self) -> float:
        """The percentage of the predicted brackets of all sentences that are matched."""
        return _percent(self.matched, self.strict_predicted_brackets)

    @property
    def strict_f1(self) -> float:
        """F1 with every error sentence and skip sentence counted as wrong."""
        return _f1(self.strict_precision, self.strict_recall)

    @property
    def complete_match(self) -> float:
        """The percentage of valid sentences whose brackets all match."""
        return _percent(self.complete, self.valid)

    @property
    def average_crossing(self) -> float:
        """The number of crossing brackets per valid sentence."""
        return self.crossing / self.valid if self.valid else 0.0

    @property
    def no_crossing(self) -> float:
        """The percentage of valid sentences without a crossing bracket."""
        return _percent(self.without_crossing, self.valid)

    @property
    def two_or_less_crossing(self) -> float:
        """The percentage of valid sentences with at most two crossing brackets."""
        return _percent(self.with_few_crossings, self.valid)

    @property
    def tagging_accuracy(self) -> float:
        return _percent(self.correct_tags, self.words)

    def to_dict(self) -> dict[str, Any]:
        """Return counts and figures as a dict of JSON values."""
        counts = {column.name: getattr(self, column.name) for column in fields(Summary)}
        names = ("valid", *_FIGURES, *_STRICT_FIGURES)
        return counts | {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        counts = {
            "Number of sentence": self.sentences,
            "Number of Error sentence": self.errors,
            "Number of Skip  sentence": self.skipped,
            "Number of Valid sentence": self.valid,
        }
        figures = {title: getattr(self, name) for name, title in _FIGURES.items()}
        if not self.matched:
            figures["Bracketing FMeasure"] = math.nan
        return "\n".join(
            [f"{title:<26}= {count:6d}" for title, count in counts.items()]
            + [f"{title:<26}= {figure:6.2f}" for title, figure in figures.items()]
        )


# Property of `Summary` -> the C program's name for it.
_FIGURES = {
    "recall": "Bracketing Recall",
    "precision": "Bracketing Precision",
    "f1": "Bracketing FMeasure",
    "complete_match": "Complete match",
    "average_crossing": "Average crossing",
    "no_crossing": "No crossing",
    "two_or_less_crossing": "2 or less crossing",
    "tagging_accuracy": "Tagging accuracy",
}
_STRICT_FIGURES = ("strict_recall", "strict_precision", "strict_f1")


@dataclass(frozen=True)
class EvalbScores(Summary):
    """EVALB's figures of all sentences; `str()` returns the C program's summary.

    Attributes:
        cutoff_length: the greatest length of a short sentence.
        short: the same figures of the short sentences only.
        sentence_scores: the rows of the table, one per sentence.
    """

    cutoff_length: int
    short: Summary
    sentence_scores: tuple[SentenceScores, ...] = field(repr=False)

    @classmethod
    def from_sentences(
        cls, sentence_scores: Iterable[SentenceScores], cutoff_length: int
    ) -> "EvalbScores":
        """Sum the scores of sentences.

        Args:
            sentence_scores: the scores of each sentence.
            cutoff_length: the greatest length of a short sentence.

        Returns:
            An `EvalbScores`.
        """
        rows = tuple(sentence_scores)
        return cls(
            **_sums(rows),
            cutoff_length=cutoff_length,
            short=Summary(**_sums([row for row in rows if row.length <= cutoff_length])),
            sentence_scores=rows,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return counts and figures as a dict of JSON values, without the table."""
        short = {"cutoff_length": self.cutoff_length, "short": self.short.to_dict()}
        return super().to_dict() | short

    def table_foot(self) -> str:
        """Return the line of totals under the table."""
        brackets = ""
        if self.gold_brackets and self.predicted_brackets:
            brackets = (
                f"                {self.recall:6.2f} {self.precision:6.2f} {self.matched:6d}"
                f" {self.gold_brackets:5d} {self.predicted_brackets:5d}  {self.crossing:5d}"
            )
        return (
            "============================================================================\n"
            f"{brackets}  {self.words:5d} {self.correct_tags:5d}   {self.tagging_accuracy:6.2f}"
        )

    def __str__(self) -> str:
        return (
            f"=== Summary ===\n\n-- All --\n{super().__str__()}\n\n"
            f"-- len<={self.cutoff_length} --\n{self.short}"
        )


def _sums(rows: Sequence[SentenceScores]) -> dict[str, int]:
    valid = [row for row in rows if row.status == Status.VALID]
    return {
        "sentences": len(rows),
        "errors": sum(row.status == Status.ERROR for row in rows),
        "skipped": sum(row.status == Status.SKIP for row in rows),
        "complete": sum(row.is_complete for row in valid),
        "without_crossing": sum(row.crossing == 0 for row in valid),
        "with_few_crossings": sum(row.crossing <= 2 for row in valid),
        **{name: sum(getattr(row, name) for row in valid) for name in _SUMMED},
        "strict_gold_brackets": sum(row.gold_brackets for row in rows),
        "strict_predicted_brackets": sum(row.predicted_brackets for row in rows),
    }


_SUMMED = (
    *("matched", "gold_brackets", "predicted_brackets"),
    *("crossing", "words", "correct_tags"),
)


def _f1(precision: float, recall: float) -> float:
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


def _percent(part: int, whole: int) -> float:
    # This is the C program's order of operations, so the last printed digit is the same.
    return 100.0 * part / whole if whole else 0.0
