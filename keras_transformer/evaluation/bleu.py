"""BLEU and chrF of translations, by sacreBLEU and with its signatures."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from keras_transformer.errors import UserError


@dataclass(frozen=True)
class TranslationScores:
    """Corpus-level scores of a set of translations.

    A score can be compared with another only where the signatures agree: keep them together.
    `str()` gives two lines in sacreBLEU's own form.

    Attributes:
        bleu: BLEU, 0 to 100.
        bleu_signature: how it was computed, such as `"nrefs:1|case:mixed|eff:no|tok:13a|…"`.
        precisions: n-gram precisions for n = 1 to 4, 0 to 100.
        brevity_penalty: the factor of BLEU that punishes short translations.
        hypothesis_length: number of tokens of the translations.
        reference_length: number of tokens of the references.
        chrf: chrF2, 0 to 100.
        chrf_signature: how it was computed.
        num_sentences: number of translations.
    """

    bleu: float
    bleu_signature: str
    precisions: tuple[float, ...]
    brevity_penalty: float
    hypothesis_length: int
    reference_length: int
    chrf: float
    chrf_signature: str
    num_sentences: int

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as a dictionary that `json` can write."""
        return {**asdict(self), "precisions": list(self.precisions)}

    def __str__(self) -> str:
        precisions = "/".join(f"{precision:.1f}" for precision in self.precisions)
        ratio = self.hypothesis_length / self.reference_length if self.reference_length else 0.0
        return (
            f"BLEU|{self.bleu_signature} = {self.bleu:.2f} {precisions} "
            f"(BP = {self.brevity_penalty:.3f} ratio = {ratio:.3f} "
            f"hyp_len = {self.hypothesis_length} ref_len = {self.reference_length})\n"
            f"chrF2|{self.chrf_signature} = {self.chrf:.2f}"
        )


def score_translations(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    tokenize: str = "13a",
) -> TranslationScores:
    """Scores translations against their references with BLEU and chrF.

    Args:
        hypotheses: the translations.
        references: one reference for each translation; or several such sequences, as in sacreBLEU:
            `references[k][i]` is then reference `k` of translation `i`.
        tokenize: sacreBLEU's tokenizer for BLEU: `"13a"` for plain text, `"none"` for text that is
            tokenised already. chrF always reads the characters as they are.

    Returns:
        A `TranslationScores`.

    Raises:
        UserError: if there is nothing to score, if lengths differ, or if the tokenizer is unknown.
    """
    # Imported here, as training needs none of it.
    from sacrebleu.metrics import BLEU, CHRF

    if tokenize not in BLEU.TOKENIZERS:
        raise UserError(
            f"`tokenize` must be one of {', '.join(BLEU.TOKENIZERS)}. "
            f"Received: tokenize={tokenize!r}"
        )
    hypotheses = list(hypotheses)
    streams = _reference_streams(references)
    _check_lengths(hypotheses, streams)

    # force: text that is tokenised on purpose needs no warning that it looks tokenised.
    bleu, chrf = BLEU(tokenize=tokenize, force=tokenize == "none"), CHRF()
    bleu_score = bleu.corpus_score(hypotheses, streams)
    chrf_score = chrf.corpus_score(hypotheses, streams)
    return TranslationScores(
        bleu=bleu_score.score,
        bleu_signature=str(bleu.get_signature()),
        precisions=tuple(bleu_score.precisions),
        brevity_penalty=bleu_score.bp,
        hypothesis_length=bleu_score.sys_len,
        reference_length=bleu_score.ref_len,
        chrf=chrf_score.score,
        chrf_signature=str(chrf.get_signature()),
        num_sentences=len(hypotheses),
    )


def _reference_streams(references: Sequence[str] | Sequence[Sequence[str]]) -> list[list[str]]:
    references = list(references)
    if all(isinstance(reference, str) for reference in references):
        return [references]
    return [list(stream) for stream in references]


def _check_lengths(hypotheses: list[str], streams: list[list[str]]) -> None:
    if not hypotheses:
        raise UserError("`hypotheses` must hold at least one sentence. Received: hypotheses=[]")
    for stream in streams:
        if len(stream) != len(hypotheses):
            raise UserError(
                "`references` must hold one sentence for each hypothesis. "
                f"Received: {len(hypotheses):,} hypotheses and {len(stream):,} references"
            )
