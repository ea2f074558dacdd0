"""The constituency parser: a model, its tokenizer and a search."""

import dataclasses
import itertools
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np

from keras_transformer.annotations import Tensor
from keras_transformer.data.preprocessor import TranslationPreprocessor
from keras_transformer.data.text_lines import in_windows
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.decoding.batched_search import search_stream
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.decoding.search import Search
from keras_transformer.errors import UserError
from keras_transformer.option_fields import from_keywords
from keras_transformer.parsing.brackets import escape
from keras_transformer.parsing.linearization import LABELLED_BRACKETS, Linearization
from keras_transformer.parsing.parser_tokens import (
    Output,
    Parse,
    TreeSymbols,
    WordTokenizer,
    consensus_parse,
    log_probabilities,
    no_parse,
    output_tree,
    parses_from_outputs,
)
from keras_transformer.parsing.tree_grammar import TreeGrammar
from keras_transformer.parsing.word_tags import TagDictionary, WordTags
from keras_transformer.parsing.words import (
    DEFAULT_WORD_TOKENIZER,
    Sentence,
    Words,
    read_words,
    tokenize_words,
)
from keras_transformer.presets.format import Preset
from keras_transformer.presets.location import TAG_DICTIONARY
from keras_transformer.progress import messages_shown, spinner
from keras_transformer.reserved_ids import END_ID
from keras_transformer.tasks.task import Task, validate_has_tokens, validate_is_list
from keras_transformer.validation import check_choice

if TYPE_CHECKING:
    from nltk import Tree

    from keras_transformer.parsing.treebanks import Treebank

logger = logging.getLogger(__name__)


class ConstituencyParser(Task):
    """Constituency parser, from sentences to trees (section 6.3).

    ```python
    parser = ConstituencyParser.from_preset("saved_models/craft_parser")
    parser(["The dog runs."])  # [Tree('S', [Tree('NP', ...), Tree('VP', ...), Tree('.', ['.'])])]
    parser([["The", "dog", "runs", "."]])  # words, without changes
    parser([[("The", "DT"), ("dog", "NN"), ("runs", "VBZ"), "."]])  # with known tags
    ```

    The model predicts the tree as a sequence of symbols. The search allows only symbols that lead
    to a tree over exactly the sentence's words (`TreeGrammar`), and only tags that a word can have
    (`TagDictionary`). Without this constraint, outputs are repaired, and the repairs are counted.

    Args:
        model: a `ParserTransformer`, or a `Transformer`.
        preprocessor: the `Tokenizer` of words and symbols, in which each symbol is one token, or a
            `kt.data.TranslationPreprocessor` of it.
        metadata: dict of JSON values stored in a preset. `"symbols"` is the list of symbols.
            Optional are `"max_openings"`, as for `TreeGrammar`; `"tag_dictionary"`, the result of
            `TagDictionary.to_dict`, which is removed from the dict; and `"word_tokenizer"`, the
            name of the rules that split raw text: see `kt.parsing.tokenize_words`.
        batch_tokens: the largest number of source positions parsed at once.
        search: a `BeamSearch`, a `Sampling`, or one of the names `"greedy"`, `"beam"`, `"random"`,
            `"top_k"` and `"top_p"`. Defaults to a beam search as in section 6.3.
        constrained: whether the search may only build trees.
        tag_dictionary: the `TagDictionary` of a constrained search and of presets. With True, the
            dictionary of `metadata`, if there is one. With False, the search uses no dictionary,
            but presets still store the dictionary of `metadata`.
        linearization: the `Linearization` of the symbols. Defaults to `"linearization"` of
            `metadata`, and without it to `LabelledBrackets()`.
        decision: how the tree of a sentence is selected if one result is requested: `"best"`
            selects the best score; `"consensus"` builds the `kt.parsing.consensus` of all results
            of the search, weighted by their probabilities, whose score is their agreement. Pictures
            and a SavedModel use the best. Defaults to `"decision"` of `metadata`, and without it to
            `"best"`.
        **options: attributes to replace: of the search, such as `beam_size`, `alpha` and
            `extra_length`; and `max_source_length`, the largest number of tokens of a sentence,
            including its end token (1024). Longer sentences get no tree, because the tree of a part
            would be wrong. None sets no limit.

    Raises:
        UserError: if `metadata` has no symbols, a symbol is not a token or does not match the
            linearization, or `linearization` contradicts `metadata`; if the search has no such
            option, or an option is out of its range; if `decision` is unknown.
    """

    default_search = BeamSearch(beam_size=21, alpha=0.3, extra_length=300)

    def __init__(
        self,
        model: Any,
        preprocessor: TranslationPreprocessor | Tokenizer,
        metadata: Mapping[str, Any],
        batch_tokens: int = 1024,
        search: Search | str | None = None,
        constrained: bool = True,
        tag_dictionary: TagDictionary | bool = True,
        linearization: Linearization | None = None,
        decision: Literal["best", "consensus"] | None = None,
        **options: Any,
    ):
        super().__init__(model, preprocessor, metadata, batch_tokens, search, **options)
        tokenizer = self.tokenizer
        self._own_tag_dictionary = self._take_tag_dictionary(tag_dictionary)
        if "symbols" not in self.metadata:
            raise UserError(
                'A parser\'s `metadata` must hold the symbols of its trees, as "symbols". '
                f"Received: metadata={self.metadata}"
            )
        linearization = self._known_linearization(linearization)
        self.symbols = TreeSymbols(self.metadata["symbols"], tokenizer, linearization)
        self._validate_logits()
        self.source_tokenizer = WordTokenizer(tokenizer)
        self.word_tokenizer = self.metadata.get("word_tokenizer", DEFAULT_WORD_TOKENIZER)
        tokenize_words("", self.word_tokenizer)  # raises an error for an unknown name
        self.decision = self._kept("decision", decision, "best")
        check_choice("decision", self.decision, ("best", "consensus"))
        self.constrained = constrained
        self.tag_dictionary = self._own_tag_dictionary if constrained and tag_dictionary else None
        max_openings = self.metadata.get("max_openings", TreeGrammar.max_openings)
        self.word_tags = WordTags(self.symbols, self.tag_dictionary, max_openings)
        self.grammar = self.word_tags.grammar if constrained else None

    def _kept(self, name: str, given: str | None, default: str) -> str:
        """Return an argument's value, given or from the metadata, which store a given value."""
        if given is not None:
            self.metadata[name] = given
        return self.metadata.get(name, default)

    def _known_linearization(self, given: Linearization | None) -> Linearization:
        """Return the linearization, given or from the metadata, which store a given one."""
        if given is not None:
            serialized = given.serialize()
            if self.metadata.setdefault("linearization", serialized) != serialized:
                raise UserError(
                    f"`linearization` contradicts the parser's `metadata`, which has "
                    f"{self.metadata['linearization']}. Received: linearization={given}"
                )
            return given
        if "linearization" in self.metadata:
            return Linearization.deserialize(self.metadata["linearization"])
        return LABELLED_BRACKETS

    def _validate_logits(self):
        size = self.model.config.vocabulary_size
        if size < self.symbols.vocabulary_size:
            raise UserError(
                f"The model does not match the symbols of the trees. Expected logits for at least "
                f"{self.symbols.vocabulary_size} tokens. Received: {size}"
            )

    def _take_tag_dictionary(self, given: TagDictionary | bool) -> TagDictionary | None:
        """Return the dictionary, given or from the metadata, and remove it from the metadata."""
        values = self.metadata.pop("tag_dictionary", None)
        if isinstance(given, TagDictionary):
            return given
        return None if values is None else TagDictionary.from_dict(values)

    @classmethod
    def _preset_arguments(cls, preset: Preset) -> dict[str, Any]:
        arguments, values = super()._preset_arguments(preset), preset.tag_dictionary
        if values is None:
            return arguments
        try:
            TagDictionary.from_dict(values)
        except UserError as error:
            path = TAG_DICTIONARY if preset.path is None else preset.path / TAG_DICTIONARY
            raise UserError(f"{path} is damaged: {error}") from error
        return {"metadata": {**preset.metadata, "tag_dictionary": values}}

    def to_preset(self) -> Preset:
        own = self._own_tag_dictionary
        values = None if own is None else own.to_dict()
        return dataclasses.replace(super().to_preset(), tag_dictionary=values)

    @classmethod
    def train(
        cls,
        train: "Treebank",
        val: "Treebank",
        extra: "Treebank | None" = None,
        test: "Treebank | None" = None,
        *,
        verbose: bool = True,
        **options: Any,
    ) -> Self:
        """Train a parser: vocabulary, model, checkpoints, average and preset (section 6.3).

        ```python
        train = kt.parsing.Treebank.from_file("train.mrg")
        val = kt.parsing.Treebank.from_file("val.mrg")
        parser = kt.ConstituencyParser.train(train, val, steps=8000, output_dir="runs/x")
        ```

        The training sets seeds and devices of the whole process.

        Args:
            train: `kt.parsing.Treebank` to train on.
            val: `kt.parsing.Treebank` to validate on.
            extra: a second `kt.parsing.Treebank` to train on, such as another parser's output.
            test: `kt.parsing.Treebank` to score at the end, for `results.json` and the model card.
            verbose: whether to show the progress and, at the end, the scores. On a terminal and in
                a notebook, a bar shows the interval, the updates, the loss and the time left.
                Elsewhere lines are logged, each minute and at the end of each interval. They are
                printed on standard error if the program has no `logging` handler.
            **options: the options of `kt.parsing.ParserTrainingOptions` by their names, such as
                `variant`, `steps`, `batch_tokens`, `peak_learning_rate`, `dropout` and `seed`, with
                the recipe's defaults. Used most often:
                `output_dir`: folder for the tokenizer, checkpoints, logs and, in `model`, the
                preset. Required.
                `resume`: whether to resume exactly from the newest checkpoint in that folder;
                without a checkpoint, the training starts from the beginning.
                `overwrite`: whether to start again and replace an earlier training there.

        Returns:
            A `ConstituencyParser` with the trained model.

        Raises:
            UserError: if an option or a tree is wrong; if `output_dir` holds another training, or
                any training without `resume` or `overwrite`.
            TrainingStopped: after SIGTERM or Ctrl-C, once a checkpoint is written.
        """
        from keras_transformer.parsing.parser_options import ParserTrainingOptions
        from keras_transformer.parsing.train_parser import train_parser

        training_options: Any = from_keywords(ParserTrainingOptions, options)
        with messages_shown(verbose):
            parser, report = train_parser(cls, train, val, extra, test, options=training_options)
            logger.info("%s", report)
        return parser

    def export(self, path: str | Path) -> None:
        """Write a TensorFlow SavedModel: see `keras_transformer.parsing.parser_saved_model`.

        Args:
            path: the folder, which is written completely or not at all.

        Raises:
            UserError: if the backend is not TensorFlow.
        """
        from keras_transformer.parsing.parser_saved_model import export_parser

        with spinner("exporting"):
            export_parser(self, path)

    @overload
    def __call__(self, sentences: str) -> "Tree | None": ...
    @overload
    def __call__(self, sentences: Sequence[Sentence]) -> "list[Tree | None]": ...
    def __call__(self, sentences: str | Sequence[Sentence]) -> "Tree | list[Tree | None] | None":
        """Parse sentences.

        Args:
            sentences: list of sentences, or one sentence as a string. A string is split into words
                by the rules of the parser's treebank. A list of strings holds the words themselves,
                in that treebank's spelling; a word must not be empty or contain ASCII white space.
                A word can be replaced by a pair (word, tag): the word then has that tag, which may
                be unknown to the parser. For the tag None, the parser predicts the tag.

        Returns:
            The list of trees (`nltk.Tree`), in the same order, or one tree for one string; None for
            a sentence that has no words or is longer than `max_source_length`.

        Raises:
            UserError: if a word is not a string, is empty or contains ASCII white space, or a tag
                is neither a string nor None.
        """
        if isinstance(sentences, str):
            return next(self.parse([sentences])).tree
        return [parse.tree for parse in self.parse(sentences)]

    def parse(self, sentences: Iterable[Sentence], num_results: int = 1) -> Iterator[Parse]:
        """Parse a stream of any length, with only a few thousand sentences in memory at a time.

        On a terminal, progress is shown from the fifth second on; elsewhere it is logged each
        minute.

        Args:
            sentences: iterable of sentences, as in a call.
            num_results: the number of parses per sentence, at most the search's `beam_size`. With
                more than one, the results of the search are returned without a consensus.

        Returns:
            An iterator of `Parse`, in the same order: the best parse of each sentence, or the
            consensus, depending on `decision`. The best parse has the next best ones as `others`.
        """
        validate_is_list(sentences, "parsed")
        total = len(sentences) if isinstance(sentences, Sized) else None
        windows = self._search_windows(in_windows(sentences), num_results, total)
        return itertools.chain.from_iterable(windows)

    def parse_windows(
        self, windows: Iterable[Sequence[Sentence]], num_results: int = 1
    ) -> Iterator[list[Parse]]:
        """Parse a stream of lists of sentences, searching each list at once.

        Args:
            windows: iterable of lists of sentences. The next list is read after the parses of the
                list before it have been consumed.
            num_results: as for `parse`.

        Returns:
            An iterator of lists of `Parse`, one per window.
        """
        return self._search_windows(windows, num_results, None)

    def tag(self, sentences: Iterable[Sentence]) -> Iterator[list[str] | None]:
        """Predict only the tags of words, by one pass of the model's tagger, without a search.

        Args:
            sentences: iterable of sentences, as in a call. Given tags are kept.

        Returns:
            An iterator of lists of tags, one per word, in the same order; None for a sentence that
            has no words or is longer than `max_source_length`.

        Raises:
            UserError: if the model was trained without a tagger.
        """
        validate_is_list(sentences, "tagged")
        windows = search_stream(
            self.model,
            ([read_words(x, self.word_tokenizer) for x in w] for w in in_windows(sentences)),
            self._encode,
            self._search_tags,
            self.batch_tokens,
            self.source_limit(),
        )
        return (
            found and self.word_tags.with_found_tags(sentence, found[0][0])
            for sentence, found in itertools.chain.from_iterable(windows)
        )

    def source_ids(self, sentence: Sentence) -> list[int]:
        """Return the ids of a sentence as the model reads it.

        Args:
            sentence: a sentence, as in a call.

        Returns:
            A list of ids.

        Raises:
            UserError: if it is not a sentence, has no words, or is longer than `max_source_length`.
        """
        (token_ids,) = self._encode([read_words(sentence, self.word_tokenizer)])
        validate_has_tokens(sentence, token_ids)
        return token_ids

    def search_sentence(
        self, sentence: Sentence, num_results: int = 1, run: Callable[..., Any] | None = None
    ) -> tuple[list[int], Any]:
        """Search for the linearized trees of one sentence.

        Args:
            sentence: a sentence, as in a call.
            num_results: the number of results.
            run: function that runs the search: see `search_batch`.

        Returns:
            The pair of the source's token ids, a list, and of the result of `search_batch`.

        Raises:
            UserError: if it is not a sentence, has no words, or is longer than `max_source_length`.
        """
        token_ids = self.source_ids(sentence)
        words = read_words(sentence, self.word_tokenizer)
        return token_ids, self._search(np.array([token_ids]), [words], num_results, run)

    def output_ids(self, tree: "Tree") -> list[int]:
        """Return the ids of a tree as the model predicts it, with the end token.

        Args:
            tree: an `nltk.Tree`.

        Returns:
            A list of ids.
        """
        _, symbols = self.symbols.linearization.linearize(tree)
        return [*self.symbols.encode([" ".join(symbols)])[0], END_ID]

    def output_tree(self, sentence: Sentence, token_ids: Sequence[int]) -> "Tree":
        """Return the tree over a sentence's words from the ids of an output, repaired if necessary.

        Args:
            sentence: a sentence, as in a call.
            token_ids: iterable of ids, without padding.

        Returns:
            An `nltk.Tree`.
        """
        words = read_words(sentence, self.word_tokenizer)
        return output_tree(words, token_ids, self.symbols)[0]

    def _search_windows(
        self, windows: Iterable[Sequence[Sentence]], num_results: int, total: int | None
    ) -> Iterator[list[Parse]]:
        agree = self.decision == "consensus" and num_results == 1
        num_found = self.search.most_results or 1 if agree else num_results
        results = search_stream(
            self.model,
            ([read_words(x, self.word_tokenizer) for x in window] for window in windows),
            self._encode,
            lambda batch, sentences, numbers: self._search(
                batch, sentences, num_found, sentence_numbers=numbers
            ),
            self.batch_tokens,
            self.source_limit(),
            total,
        )
        for window in results:
            yield [self._make_parse(*found, num_results, agree) for found in window]

    def _make_parse(
        self,
        sentence: Words,
        outputs: Sequence[Output] | None,
        num_results: int = 1,
        agree: bool = False,
    ) -> Parse:
        if outputs is None:
            return no_parse(sentence)
        if agree and outputs:
            parses = parses_from_outputs(sentence, outputs, self.symbols)
            return consensus_parse(parses, log_probabilities(outputs, self.search))
        best, *others = parses_from_outputs(sentence, outputs[:num_results], self.symbols)
        return best._replace(others=tuple(others))

    def _encode(self, sentences: Iterable[Words]) -> list[list[int]]:
        # Escape brackets, as in the training trees.
        escaped = [[*map(escape, words)] for words, _ in sentences]
        limit = self.source_limit() or math.inf
        return [
            [*ids, END_ID] if ids and len(ids) < limit else []
            for ids in self.source_tokenizer.encode_words(escaped)
        ]

    def _search(
        self,
        batch: np.ndarray,
        sentences: Sequence[Words],
        num_results: int,
        run: Callable[..., Any] | None = None,
        sentence_numbers: Tensor | None = None,
    ) -> Any:
        trees = (self.word_tags.grammar_over(sentences, len(batch)),) if self.constrained else ()
        return self.search_batch(batch, num_results, trees, run, sentence_numbers)

    def _search_tags(
        self, batch: np.ndarray, sentences: Sequence[Words], _: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the tagger's leaves in the form of a search: one result with the score 0."""
        leaves = self.word_tags.best_leaves(self.model, batch, sentences)
        return leaves[:, None], np.zeros((len(batch), 1))
