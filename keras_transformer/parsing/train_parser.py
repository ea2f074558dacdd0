"""Training of a constituency parser, from trees to a model folder (section 6.3)."""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import UserError
from keras_transformer.parsing.brackets import to_bracketed
from keras_transformer.parsing.evalb import EvalbScores, Parameters, evaluate_trees
from keras_transformer.parsing.linearization import InOrderBrackets, LabelledBrackets, Linearization
from keras_transformer.parsing.parser_options import (
    ParserTrainingOptions,
    ParsingOptions,
    TreeOptions,
)
from keras_transformer.parsing.parser_tokens import TreeSymbols, WordTokenizer
from keras_transformer.parsing.parser_transformer import ParserTransformer
from keras_transformer.parsing.traversal import tagged_words
from keras_transformer.parsing.treebanks import Treebank, TreePairs
from keras_transformer.parsing.word_tags import TagDictionary
from keras_transformer.parsing.words import DEFAULT_WORD_TOKENIZER, WORD_TOKENIZERS
from keras_transformer.tasks.init_from_preset import initial_preset, initial_search
from keras_transformer.tasks.pipeline import (
    begin_training,
    make_batches,
    make_model,
    make_tokenizer,
    save_training,
)
from keras_transformer.training.context import TrainingContext
from keras_transformer.training.trainer import average_weights, fit, is_averaged, validate
from keras_transformer.validation import (
    check_choice,
)

if TYPE_CHECKING:
    from nltk import Tree

    from keras_transformer.parsing.constituency_parser import ConstituencyParser


def train_parser(
    task_class: type,
    train: Treebank,
    val: Treebank,
    extra: Treebank | None = None,
    test: Treebank | None = None,
    *,
    options: ParserTrainingOptions,
    dataset: str | None = None,
    command: str | None = None,
) -> tuple[Any, str]:
    """Train a parser: see `ConstituencyParser.train`.

    Args:
        task_class: `ConstituencyParser`, or a class derived from it.
        train: `Treebank` to train on.
        val: `Treebank` to validate on.
        extra: a second `Treebank` to train on.
        test: `Treebank` to score at the end. None: only `val` is scored.
        options: `ParserTrainingOptions`.
        dataset: name of the treebank in the results. Defaults to the name of `train`.
        command: the command that began the training, for the results and the model card.

    Returns:
        The tuple `(parser, report)`: a `task_class`, and its scores in several lines.

    Raises:
        UserError: if an option or a tree is wrong, or the output folder holds another training.
    """
    context = begin_training(options)

    # Data (section 6.3) and batching (5.1)
    pairs = make_tree_pairs(train, options.trees, extra)
    val_pairs = TreePairs(val, linearization=pairs.linearization)
    tokenizer, symbols = make_tree_tokenizer(pairs, context)
    words = WordTokenizer(tokenizer)
    batches = make_batches(pairs, val_pairs, words, context, symbols)

    # Model (section 3), optimizer (5.3), regularization (5.4)
    sizes = parser_hyperparameters(tokenizer, symbols, options.trees)
    model = make_model(symbols.vocabulary_size, context, ParserTransformer, **sizes)
    metadata = parser_metadata(pairs, symbols, options.trees)
    parser = task_class(model, tokenizer, metadata, search=initial_search(options.run.init))
    scored = validation_parser(parser, options.parsing)

    # Training (section 5.2)
    some = list(val)[: options.parsing.val_sentences]
    results = {}

    def score_val():
        results["val"] = score_trees(scored, some)
        return round(results["val"].f1, 2)

    fitted = fit(model, batches, context, {"val_f1": score_val})

    # Averaging the last checkpoints (section 6.1), and evaluation
    weights = average_weights(model, context)
    validation = validate(model, batches.val)
    # A training that resumed at its end has scored nothing.
    if not results or is_averaged(context):
        score_val()
    before, after = fitted.history["val_f1"][-1], results["val"].f1
    report = [
        f"{results['val'].sentences} of val: F1 {before:.2f} with the last weights, {after:.2f} "
        f"with the {weights}"
    ]
    lines = [f"{len(some)} sentences of validation, {weights}: {describe_evalb(results['val'])}"]
    if test is not None:
        results["test"] = result = score_trees(scored, list(test))
        search = f"beam {options.parsing.beam_size}, alpha {options.parsing.alpha}"
        report += [
            f"test, {search}, {weights}:\n{result}",
            f"\nF1 of all sentences, error and skip sentences as wrong: {result.strict_f1:.2f}",
        ]
        lines = [f"test, {search}: {describe_evalb(result)}"]

    # Saving
    facts = {
        "dataset": dataset or train.name,
        **({} if command is None else {"command": command}),
        "validation": validation,
        "val_f1_before_averaging": before,
        "val_f1": after,
        "scores": {name: result.to_dict() for name, result in results.items()},
    }
    title = f"Constituency parsing, trained on {train.name}"
    save_training(parser, facts, title, lines, context, batches, fitted)
    return parser, "\n".join(report)


def make_linearization(options: TreeOptions) -> Linearization:
    """Return the `Linearization` of trees for some `TreeOptions`.

    Args:
        options: `TreeOptions`.

    Returns:
        A `LabelledBrackets`, or an `InOrderBrackets`.

    Raises:
        UserError: if there is no such linearization.
    """
    forms: dict[str, type[LabelledBrackets]] = {
        "top-down": LabelledBrackets,
        "in-order": InOrderBrackets,
    }
    check_choice("linearization", options.linearization, forms)
    return forms[options.linearization](keep_tags=options.tags != "none")


def make_tree_pairs(
    train: Treebank, options: TreeOptions, extra: Treebank | None = None
) -> TreePairs:
    """Return the pairs (words, symbols) to train on.

    Args:
        train: a `Treebank`.
        options: `TreeOptions`.
        extra: a second `Treebank`, such as the output of another parser.
    """
    return TreePairs(
        train,
        extra=extra,
        extra_ratio=options.extra_ratio,
        linearization=make_linearization(options),
    )


def make_tree_tokenizer(
    pairs: TreePairs, context: TrainingContext
) -> tuple[Tokenizer, TreeSymbols]:
    """Train the vocabulary of words and of the symbols of trees, or read an existing one.

    Args:
        pairs: the result of `make_tree_pairs`.
        context: the `TrainingContext`.

    Returns:
        The tuple `(tokenizer, symbols)` of the `Tokenizer` and the `TreeSymbols`.
    """
    options, symbols = context.options, pairs.survey.symbols
    if init := options.run.init:
        symbols = _initial_symbols(init, symbols, pairs.linearization)
    words = pairs.sentences()
    tokenizer = make_tokenizer(words, options.vocabulary, context, user_defined_symbols=symbols)
    return tokenizer, TreeSymbols(symbols, tokenizer, pairs.linearization)


def _initial_symbols(
    init: str | Path, symbols: Iterable[str], linearization: Linearization
) -> list[str]:
    """Return the symbols of the trees of a preset, which must include those to train on."""
    contents, path = initial_preset(init)
    known = contents.metadata.get("symbols")
    if known is None:
        raise UserError(
            f"`init` must be a preset of a parser. Received: init={str(path)!r}, without symbols."
        )
    saved = contents.metadata.get("linearization", linearization.serialize())
    if saved != linearization.serialize():
        raise UserError(
            f"The parser of {path} was trained on trees as {saved}. Pass the `linearization` and "
            f"`tags` that they have. Received: {linearization.serialize()}"
        )
    missing = sorted({*symbols} - {*known})
    if missing:
        raise UserError(
            f"The trees have symbols that the parser of {path} lacks: "
            f"{', '.join(missing[:10])}{', ...' if missing[10:] else ''}. Train without `init`."
        )
    return known


def parser_hyperparameters(
    tokenizer: Tokenizer, symbols: TreeSymbols, options: TreeOptions
) -> dict[str, Any]:
    """Return the arguments of a parser's model that depend on its words and symbols.

    The words are never targets, so they have an embedding of their own.

    Args:
        tokenizer: the `Tokenizer` of the words.
        symbols: the `TreeSymbols`.
        options: `TreeOptions`.

    Returns:
        A dict of arguments of `ParserTransformer`.
    """
    words = {"source_vocabulary_size": tokenizer.vocabulary_size}
    if not options.deterministic_attention:
        return words | dict.fromkeys(("word_start_ids", "leaf_ids"))
    return {
        **words,
        "word_start_ids": tokenizer.word_start_ids,
        "leaf_ids": sorted(symbols.leaves().values()),
        "tag_loss_weight": options.tag_loss_weight,
    }


def parser_metadata(pairs: TreePairs, symbols: TreeSymbols, options: TreeOptions) -> dict[str, Any]:
    """Return the facts about its training trees that a `ConstituencyParser` needs.

    Args:
        pairs: the result of `make_tree_pairs`.
        symbols: the `TreeSymbols` of the trees.
        options: `TreeOptions`.

    Returns:
        A dict of JSON values.
    """
    # The treebanks without rules of their own are in the Penn Treebank's spelling.
    word_tokenizer = pairs.name if pairs.name in WORD_TOKENIZERS else DEFAULT_WORD_TOKENIZER
    metadata = {
        "dataset": pairs.name,
        "symbols": symbols.symbols,
        "linearization": symbols.linearization.serialize(),
        "max_openings": pairs.survey.max_openings,
        "word_tokenizer": options.word_tokenizer or word_tokenizer,
    }
    if options.tag_dictionary and options.tags != "none":
        counts = pairs.survey.tag_counts
        dictionary = TagDictionary.from_counts(counts, options.tag_dictionary)
        metadata["tag_dictionary"] = dictionary.to_dict()
    return metadata


def validation_parser(
    parser: "ConstituencyParser", options: ParsingOptions
) -> "ConstituencyParser":
    """Return a copy of a parser with the search that scores trees during the training.

    Args:
        parser: a `ConstituencyParser`.
        options: `ParsingOptions`.

    Raises:
        UserError: if an option is out of its range.
    """
    options.validate()
    scored = copy.copy(parser)
    scored.search = options.search()
    # Except with learned positions, every sentence gets a tree.
    scored.preprocessor = replace(parser.preprocessor, max_source_length=None)
    return scored


def score_trees(parser: "ConstituencyParser", trees: "Sequence[Tree]") -> EvalbScores:
    """Score a parser's trees with EVALB and the parameters of COLLINS.prm.

    Args:
        parser: a `ConstituencyParser`.
        trees: the gold trees, a list of `nltk.Tree`.

    Returns:
        `EvalbScores`.
    """
    predicted = parser([[word for word, _ in tagged_words(tree)] for tree in trees])
    # A sentence that is too long for the model's positions has no tree: a skip sentence.
    lines = [to_bracketed(tree) if tree else "" for tree in predicted]
    return evaluate_trees(map(to_bracketed, trees), lines, Parameters.named("COLLINS"))


def describe_evalb(result: EvalbScores) -> str:
    """Format the result of `score_trees` in one line.

    Args:
        result: `EvalbScores`.

    Returns:
        A string.
    """
    return (
        f"F1 {result.f1:.2f}, recall {result.recall:.2f}, precision {result.precision:.2f}, "
        f"complete match {result.complete_match:.2f} (EVALB, COLLINS.prm; {result.errors} error "
        f"and {result.skipped} skip sentences: {result.strict_f1:.2f} F1 with these as wrong)"
    )
