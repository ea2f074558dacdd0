"""Score a trained model on a test set with sacreBLEU: BLEU, chrF, chrF++ and TER."""

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import keras_transformer as kt
from keras_transformer.command_line import CommonOptions, given, run
from keras_transformer.data.corpora import bleu_tokenize, load_parallel_text
from keras_transformer.data.text_files import read_lines
from keras_transformer.evaluation.bleu import check_lengths, make_metrics, score_translations
from keras_transformer.evaluation.comparison import compare_translations
from keras_transformer.files import atomic_write, check_writable, sibling_path


@dataclass(kw_only=True)
class Options(CommonOptions):
    model: str
    """Model folder, such as runs/x/model, or hf://user/repository."""
    dataset: str
    """multi30k, multi30k.lc.norm.tok, tatoeba, wmt14, text, catalogs or synthetic."""
    data_dir: Path | None = None
    """Folder that holds the corpus. Without it, a corpus that can be fetched is fetched."""
    split: str = "test"
    """val or test; for text, the name of any pair of files before the language."""
    source: str | None = None
    """Language to translate from. Defaults, as the next, to the model's."""
    target: str | None = None
    """Language to translate into."""
    tag: tuple[str, ...] | None = None
    """Tags before each source. Defaults to those that the model was saved with; with --target, of a
    model that was trained with --tag-target, to <2TARGET>."""
    beam_size: int | None = None
    """Live hypotheses of a sentence (section 6.1); 1 and no alpha for greedy search. Defaults, as
    the three that follow, to what the model was saved with, and to 4 if it was with nothing."""
    alpha: float | None = None
    """Strength of the length penalty. Without the model's own: 0.6."""
    length_penalty: Literal["gnmt", "power"] | None = None
    """((5 + |y|) / 6)^alpha, or |y|^alpha. Without the model's own: gnmt."""
    coverage_penalty: float | None = None
    """Strength of the coverage penalty. Without the model's own: 0."""
    tokenize: str | None = None
    """sacreBLEU's tokenizer. Defaults to none for a tokenised corpus, and to the one that fits the
    language: zh, ja-mecab, ko-mecab, flores200 where there are no spaces, 13a."""
    references: tuple[Path, ...] = ()
    """Files of further references, line N for sentence N."""
    against: Path | None = None
    """File of another system's translations, to compare with by paired bootstrap resampling."""
    output_json: Path | None = None
    """File for the scores."""
    hypotheses: Path | None = None
    """File for the translations, one a line. Defaults to MODEL.SPLIT.hypotheses.txt."""


# The options of the search.
SEARCH = ("beam_size", "alpha", "length_penalty", "coverage_penalty")


def main(options):
    path = options.hypotheses or sibling_path(options.model, f"{options.split}.hypotheses.txt")
    check_writable("hypotheses", path)
    if options.output_json:
        check_writable("output_json", options.output_json)
    translator = kt.Translator.from_preset(options.model, **given(options, *SEARCH))
    search = translator.search.get_config()  # kept beside the scores
    translator, languages = direction(translator, options)
    text = load_parallel_text(options.dataset, options.split, *languages, options.data_dir)
    sources, *references = [*zip(*text)]
    references += [list(read_lines(path)) for path in options.references]
    how = references, options.tokenize or bleu_tokenize(options.dataset), languages[1]
    # What is wrong with one of these is told before the search.
    make_metrics(*how[1:])
    others = None if options.against is None else [*read_lines(options.against)]
    check_lengths(sources if others is None else others, references)

    hypotheses = translator(sources)
    scores = score_translations(hypotheses, *how)
    print(", ".join(f"{name} {value}" for name, value in search.items()))
    print(scores)
    copied = kt.evaluation.score_placeholders(sources, hypotheses)
    if copied.num_placeholders:
        print(copied)
    with atomic_write(path) as new:
        new.write_text("".join(f"{line}\n" for line in hypotheses), "utf-8")
    if options.output_json:
        with atomic_write(options.output_json) as new:
            facts = {**scores.to_dict(), "placeholders": copied.to_dict(), **search}
            new.write_text(json.dumps(facts, indent=2) + "\n", "utf-8")
    if others is not None:
        print(*compare_translations(hypotheses, others, *how), sep="\n")


def direction(translator, options):
    """The translator with the tags, and the languages, that the options say."""
    metadata = translator.metadata
    languages = tuple(getattr(options, side) or metadata.get(side) for side in ("source", "target"))
    if not all(languages):
        raise kt.UserError(
            "The model does not say which languages it translates: pass `source` and `target`."
        )
    known = tuple(metadata.get(side) for side in ("target", "source"))
    tags, of_target = options.tag, f"<2{options.target}>"
    if tags is None and of_target in metadata.get("tags", ()):
        tags = (of_target,)
    if languages == known and tags is None:
        warnings.warn(
            f"The model translates {known[1]} to {known[0]}, and is scored the other way round: "
            f"`source={languages[0]}`, `target={languages[1]}`.",
            UserWarning,
            stacklevel=1,
        )
    return translator if tags is None else translator.tagged(*tags), languages


if __name__ == "__main__":
    run(main, Options)
