import dataclasses
import functools
import itertools

import numpy as np
from keras import ops

from keras_transformer.data.text_lines import in_windows
from keras_transformer.decoding.beam_search import BeamSearch
from keras_transformer.errors import UserError
from keras_transformer.options import from_keywords
from keras_transformer.parsing.parser_tokens import TreeSymbols, WordTokenizer
from keras_transformer.parsing.parses import (
    consensus_parse,
    log_probabilities,
    no_parse,
    parses_of,
)
from keras_transformer.parsing.tree_grammar import InOrderTreeGrammar, TreeGrammar
from keras_transformer.parsing.trees import (
    LABELLED_BRACKETS,
    Linearization,
    escape,
)
from keras_transformer.parsing.word_sync_search import WordSynchronousBeamSearch
from keras_transformer.parsing.word_tags import TagDictionary, WordTags
from keras_transformer.parsing.words import DEFAULT_WORD_TOKENIZER, tokenize_words, words_of
from keras_transformer.presets.format import TAG_DICTIONARY
from keras_transformer.progress import spinner
from keras_transformer.reserved_ids import END_ID
from keras_transformer.tasks.search_stream import search_stream
from keras_transformer.tasks.task import Task, check_has_tokens, check_is_no_string
from keras_transformer.validation import check_choice

# By the order of a linearisation.
_GRAMMARS = {"top-down": TreeGrammar, "in-order": InOrderTreeGrammar}


class ConstituencyParser(Task):
    """Sentences in, trees out: section 6.3.

    ```python
    parser = ConstituencyParser.from_preset("saved_models/craft_parser")
    parser(["The dog runs."])  # [Tree('S', [Tree('NP', ...), Tree('VP', ...), Tree('.', ['.'])])]
    parser([["The", "dog", "runs", "."]])  # words, as they are
    parser([[("The", "DT"), ("dog", "NN"), ("runs", "VBZ"), "."]])  # with tags that are known
    ```

    The model predicts the tree as a sequence of symbols. The search leaves it only those that lead
    to a tree over exactly the sentence's words (`TreeGrammar`), and of tags those that a word can
    have (`TagDictionary`). Without this constraint, whatever comes out is repaired, and the repairs
    are counted. With an `untagged_leaf_id` of the model, the search is for trees without tags, and
    each word has the tag that the model's tagger finds best among those.

    Args:
        model: a `Transformer`.
        preprocessor: the `Tokenizer` of words and symbols, in which each symbol is one token, or a
            `kt.data.TranslationPreprocessor` of it.
        metadata: dict of JSON values kept with a preset. Its `"symbols"` are the symbols' list. If
            it has them, its `"max_openings"` is `TreeGrammar`'s, and its `"tag_dictionary"`, which
            is taken out of it, what `TagDictionary.to_dict` gives. Its `"word_tokenizer"` names
            the rules that split raw text: `"craft"` or, without it,
            `"treebank"`; see `kt.parsing.tokenize_words`.
        batch_tokens: the largest number of source slots parsed at once.
        search: a `BeamSearch`, a `Sampling`, a `WordSynchronousBeamSearch` or this class, or one of
            the names `"greedy"`, `"beam"`, `"random"`, `"top_k"` and `"top_p"`. Defaults to a
            beam search as in section 6.3.
        constrained: whether the search may only build trees.
        tag_dictionary: the `TagDictionary` that a constrained search keeps to, and a preset holds.
            True: that of `metadata`, if there is one; False: none, and a preset holds that of
            `metadata` all the same.
        linearization: the `Linearization` of the symbols. Defaults to what `metadata` has as
            `"linearization"`, and without that to `LabelledBrackets()`.
        decision: which tree a sentence has, where one result is asked for: `"best"`, that of the
            best score, or `"consensus"`, the `kt.parsing.consensus` of all that the search finds,
            each weighed by its probability; its own score is their agreement. Pictures and a
            SavedModel have the best. Defaults to what `metadata` has as `"decision"`, and without
            that to `"best"`.
        **options: attributes to replace: of the search, such as `beam_size`, `alpha` and
            `extra_length`, and `max_source_length`, the largest number of tokens of a sentence,
            including its end token (1024). Longer sentences get no tree, since the tree of a part
            would not be one. None: no limit.

    Raises:
        UserError: if `metadata` has no symbols, one is no token or of another linearisation, or
            `metadata` is of another linearisation than the given one; if the search has no such
            option, or an option is out of its range; if there is no such `decision`.
    """

    default_search = BeamSearch(beam_size=21, alpha=0.3, extra_length=300)

    def __init__(
        self,
        model,
        preprocessor,
        metadata,
        batch_tokens=1024,
        search=None,
        constrained=True,
        tag_dictionary=True,
        linearization=None,
        decision=None,
        **options,
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
        self._check_logits()
        self.source_tokenizer = WordTokenizer(tokenizer)
        self.word_tokenizer = self.metadata.get("word_tokenizer", DEFAULT_WORD_TOKENIZER)
        tokenize_words("", self.word_tokenizer)  # refuses a name that is none
        self.decision = self._kept("decision", decision, "best")
        check_choice("decision", self.decision, ("best", "consensus"))
        self.constrained = constrained
        self.tag_dictionary = self._own_tag_dictionary if constrained and tag_dictionary else None
        self.word_tags = WordTags(self.symbols, self.tag_dictionary)
        self.grammar = self._grammar(self.word_tags.leaf_sets) if constrained else None

    def _kept(self, name, given, default):
        """An argument's value, given or the metadata's; the metadata keep what is given."""
        if given is not None:
            self.metadata[name] = given
        return self.metadata.get(name, default)

    def _known_linearization(self, given):
        """The given linearisation or the metadata's, which it leaves in the metadata."""
        if given is not None:
            serialized = given.serialize()
            if self.metadata.setdefault("linearization", serialized) != serialized:
                raise UserError(
                    f"The parser's `metadata` is of the linearization "
                    f"{self.metadata['linearization']}. Received: linearization={given}"
                )
            return given
        if "linearization" in self.metadata:
            return Linearization.deserialize(self.metadata["linearization"])
        return LABELLED_BRACKETS

    def _check_logits(self):
        size = self.model.config.vocabulary_size
        if size < self.symbols.vocabulary_size:
            raise UserError(
                f"The model has logits of {size} tokens, and the symbols of its trees are among "
                f"the first {self.symbols.vocabulary_size}: they do not belong together."
            )
        untagged = self._untagged_leaf_id
        if self.has_tagger and untagged not in self.symbols.leaves().values():
            raise UserError(
                f"The model writes the token {untagged} for each word, which is none of the "
                "parser's leaves: they do not belong together."
            )

    def _take_tag_dictionary(self, given):
        """The given dictionary or the metadata's, which it takes out of the metadata."""
        values = self.metadata.pop("tag_dictionary", None)
        if isinstance(given, TagDictionary):
            return given
        return None if values is None else TagDictionary.from_dict(values)

    def _parts(self):
        outputs = "trees over the sentence's words" if self.constrained else "anything"
        if self.decision == "consensus":
            outputs = f"the consensus of {outputs}"
        return {
            **super()._parts(),
            "trees": self.symbols,
            "outputs": f"{outputs}, of at most {self.extra_length:,} symbols more than tokens",
            "tags": self.tag_dictionary or "any",
        }

    @classmethod
    def _parts_of(cls, config):
        values = config.tag_dictionary
        if values is None:
            return super()._parts_of(config)
        try:
            TagDictionary.from_dict(values)
        except UserError as error:
            raise UserError(f"{config.path / TAG_DICTIONARY} is damaged: {error}") from error
        return {"metadata": {**config.metadata, "tag_dictionary": values}}

    def _preset_parts(self):
        own = self._own_tag_dictionary
        return {"tag_dictionary": None if own is None else own.to_dict()}

    def _grammar(self, leaf_sets):
        leaves = tuple(self.word_tags.leaves.values())
        if self.has_tagger:
            # Tags are no business of the search.
            leaves, leaf_sets = (self._untagged_leaf_id,), ()
        return _GRAMMARS[self.symbols.linearization.order](
            *self.symbols.brackets(),
            leaves,
            max_openings=self.metadata.get("max_openings", TreeGrammar.max_openings),
            leaf_sets=leaf_sets,
        )

    @functools.cached_property
    def _grammar_of_tags(self):
        """The grammar for words whose tag is given."""
        return self._grammar(self.word_tags.leaf_sets_of_given())

    @property
    def has_tagger(self):
        """Whether tags are no part of the trees that the decoder writes: a tagger finds them."""
        return self._untagged_leaf_id is not None

    @property
    def _untagged_leaf_id(self):
        # A parser may have a plain `Transformer`, which has no such hyperparameter.
        return getattr(self.model.config, "untagged_leaf_id", None)

    @classmethod
    def train(cls, train, val, extra=None, test=None, **options):
        """Train a parser: vocabulary, model, checkpoints, average and preset (section 6.3).

        ```python
        train = kt.parsing.Treebank.from_file("train.mrg")
        val = kt.parsing.Treebank.from_file("val.mrg")
        parser = kt.ConstituencyParser.train(train, val, steps=8000, output_dir="runs/x")
        ```

        Seeds and devices that it sets are the whole process's.

        Args:
            train: `kt.parsing.Treebank` to train on.
            val: `kt.parsing.Treebank` to validate on.
            extra: a second `kt.parsing.Treebank` to train on, such as another parser's output.
            test: `kt.parsing.Treebank` to score at the end, for `results.json` and the model card.
            **options: the options of `kt.parsing.ParserTrainingOptions` by their names, such as
                `variant`, `steps`, `batch_tokens`, `peak_learning_rate`, `dropout` and `seed`, with
                the recipe's defaults. Those used most:
                `output_dir`: folder for the tokenizer, checkpoints, logs and, in `model`, the
                preset. It must be given.
                `resume`: whether to resume from the newest checkpoint in that folder, exactly;
                without one the training starts.
                `overwrite`: whether to start again, and replace an earlier training there.

        Returns:
            A `ConstituencyParser` with the trained model.

        Raises:
            UserError: if an option or a tree is wrong, or if `output_dir` holds another training,
                or any without `resume` or `overwrite`.
            TrainingStopped: after SIGTERM or Ctrl-C, when a checkpoint is written.
        """
        from keras_transformer.parsing.train_parser import ParserTrainingOptions, train_parser

        options = from_keywords(ParserTrainingOptions, options)
        return train_parser(cls, train, val, extra, test, options=options)[0]

    def export(self, path):
        """Write a TensorFlow SavedModel: see `keras_transformer.parsing.parser_saved_model`.

        Args:
            path: the folder to write: whole, or not at all.

        Raises:
            UserError: if the backend is not TensorFlow.
        """
        from keras_transformer.parsing.parser_saved_model import export_parser

        with spinner("exporting"):
            export_parser(self, path)

    def __call__(self, sentences):
        """Parse.

        Args:
            sentences: list of sentences. A string is split into words by the rules of the treebank
                that the parser was trained on; a list of strings holds the words themselves, in
                that treebank's spelling. No word is empty, or has ASCII white space in it. In
                place of a word there may be a pair (word, tag): then the word has that tag, be it
                one of the parser's or not. With None for a tag the parser finds it, as without one.

        Returns:
            The list of trees (`nltk.Tree`), in the same order; None for a sentence without words,
            and for one that is longer than `max_source_length`.

        Raises:
            UserError: if a word is no string, empty, or has ASCII white space in it, or a tag is
                neither a string nor None.
        """
        return [parse.tree for parse in self.parse(sentences)]

    def parse(self, sentences, num_results=1):
        """Parse a stream of any length, holding only a few thousand sentences at a time.

        Progress is shown on a terminal, from the fifth second on, and elsewhere logged each minute.

        Args:
            sentences: iterable of sentences, as above.
            num_results: how many parses of each sentence, no more than the search's `beam_size`.
                More than one are what the search finds, without a consensus.

        Returns:
            An iterator of `Parse`, in the same order: the best of each sentence, or the consensus,
            as `decision` says; the best has those that come next as its `others`.
        """
        check_is_no_string(sentences, "parsed")
        total = len(sentences) if hasattr(sentences, "__len__") else None
        windows = self._search_windows(in_windows(sentences), num_results, total)
        return itertools.chain.from_iterable(windows)

    def parse_windows(self, windows, num_results=1):
        """As `parse`, for who reads the stream: what is searched together is given together.

        Args:
            windows: iterable of lists of sentences. The next list is asked for when the parses of
                the one before have been taken.
            num_results: as for `parse`.

        Returns:
            An iterator of lists of `Parse`, one for each window.
        """
        return self._search_windows(windows, num_results, None)

    def tag(self, sentences):
        """Find the words' tags alone, by the model's tagger: one pass of the encoder, no search.

        Args:
            sentences: iterable of sentences, as a call takes them. A tag that is given stays.

        Returns:
            An iterator of lists of tags, one for each word, in the same order; None for a sentence
            without words, and for one that is longer than `max_source_length`.

        Raises:
            UserError: if the model was trained without a tagger.
        """
        check_is_no_string(sentences, "tagged")
        windows = search_stream(
            ([words_of(x, self.word_tokenizer) for x in w] for w in in_windows(sentences)),
            self._encode,
            self._search_tags,
            self.batch_tokens,
            self.source_limit(),
        )
        return (
            found and self._with_found_tags(sentence, found[0][0])
            for sentence, found in itertools.chain.from_iterable(windows)
        )

    def search_trees(
        self,
        token_ids,
        num_words,
        word_kinds=None,
        num_results=1,
        grammar=None,
        run=None,
        sentence_numbers=None,
    ):
        """Search for linearised trees.

        Args:
            token_ids: int array `(batch, source)`.
            num_words: int array `(batch,)`.
            word_kinds: with a tag dictionary, int array `(batch, words)`: its kinds of the words.
            num_results: how many of each sentence.
            grammar: of the trees. Defaults to the parser's `grammar`.
            run: what runs the search: see `search_batch`.
            sentence_numbers: as in the call of a `Search`.

        Returns:
            `(token_ids, scores)`, as `beam_search`; or what `run` gives.
        """
        grammar = grammar or self.grammar
        trees = (grammar.over(num_words, word_kinds),) if self.constrained else ()
        return self.search_batch(token_ids, num_results, trees, run, sentence_numbers)

    def source_ids(self, sentence):
        """The ids of a sentence as the model reads it: a list.

        Args:
            sentence: a sentence, as a call takes it.

        Raises:
            UserError: if it is no sentence, has no words, or is longer than `max_source_length`.
        """
        (token_ids,) = self._encode([words_of(sentence, self.word_tokenizer)])
        check_has_tokens(sentence, token_ids)
        return token_ids

    def search_sentence(self, sentence, num_results=1, run=None):
        """Search for the linearised trees of one sentence.

        Args:
            sentence: a string, or a list of words, as above.
            num_results: how many.
            run: what runs the search: see `search_batch`.

        Returns:
            The pair of the source's token ids, a list, and of what `search_batch` gives.

        Raises:
            UserError: if it is no sentence, has no words, or is longer than `max_source_length`.
        """
        token_ids = self.source_ids(sentence)
        words = words_of(sentence, self.word_tokenizer)
        return token_ids, self._search(np.array([token_ids]), [words], num_results, run)

    def output_ids(self, tree):
        """The ids of a tree as the model predicts it, with the end token: a list.

        Args:
            tree: an `nltk.Tree`.
        """
        _, symbols = self.symbols.linearization.linearize(tree)
        return [*self.symbols.encode([" ".join(symbols)])[0], END_ID]

    def output_tokens(self, token_ids):
        """The symbols of outputs' ids, `</s>` for the end token: a list of strings.

        Args:
            token_ids: iterable of ids, without padding.
        """
        return self.tokenizer.tokens_of(token_ids)

    def tree_of(self, sentence, token_ids):
        """The tree over a sentence's words that the ids of an output say, repaired if need be.

        Args:
            sentence: a sentence, as a call takes it.
            token_ids: iterable of ids, without padding. Where the parser has a tagger they say no
                tags: these are its own.
        """
        words = words_of(sentence, self.word_tokenizer)
        if self.has_tagger and (tags := next(self.tag([sentence]))):
            words.tags[:] = tags
        return self._parse_of(words, [(token_ids, 0.0)]).tree

    def explain(self, sentence, tree=None):
        """Show how a sentence is parsed: its tree, the attention and, of a beam search, the beam.

        The tree is the search's best. Where the parser decides by consensus, a call may return
        another.

        Args:
            sentence: a string, or a list of words, as a call takes it.
            tree: the gold tree (`nltk.Tree`), to be set beside the parser's.

        Returns:
            A `kt.visualization.Explanation`.

        Raises:
            UserError: if it is no sentence, has no words, or is longer than `max_source_length`.
        """
        from keras_transformer.visualization.explanation import explain_parse

        return explain_parse(self, sentence, tree)

    def search_of_outputs(self):
        """A search by words is told which symbols stand for one."""
        search = self.search
        if isinstance(search, WordSynchronousBeamSearch) and not search.word_ids:
            search = dataclasses.replace(search, word_ids=tuple(self.symbols.leaves().values()))
        return search

    def _search_windows(self, windows, num_results, total):
        agree = self.decision == "consensus" and num_results == 1
        num_found = self.search.most_results or 1 if agree else num_results
        results = search_stream(
            ([words_of(x, self.word_tokenizer) for x in window] for window in windows),
            self._encode,
            lambda batch, sentences, numbers: self._search(
                batch, sentences, num_found, sentence_numbers=numbers
            ),
            self.batch_tokens,
            self.source_limit(),
            total,
            self.model,
        )
        for window in results:
            yield [self._parse_of(*found, num_results, agree) for found in window]

    def _parse_of(self, sentence, outputs, num_results=1, agree=False):
        if outputs is None:
            return no_parse(sentence)
        if agree and outputs:
            parses = parses_of(sentence, outputs, self.symbols)
            return consensus_parse(parses, log_probabilities(outputs, self.search))
        best, *others = parses_of(sentence, outputs[:num_results], self.symbols)
        return best._replace(others=tuple(others))

    def _encode(self, sentences):
        # As in trees, and so in training: a bracket is no symbol there.
        escaped = [[*map(escape, words)] for words, _ in sentences]
        token_ids = self.source_tokenizer.encode_words(escaped)
        return [
            [*ids, END_ID] if self._can_be_parsed(words, ids) else []
            for (words, _), ids in zip(sentences, token_ids)
        ]

    def _can_be_parsed(self, words, token_ids):
        limit = self.source_limit()
        return bool(words) and (limit is None or len(token_ids) + 1 <= limit)

    def _search(self, batch, sentences, num_results, run=None, sentence_numbers=None):
        num_words, kinds = self._word_kinds(batch, sentences)
        grammar = self.grammar
        if self.has_tagger:
            for sentence, leaves in zip(sentences, self._best_leaves(batch, kinds)):
                sentence.tags[:] = self._with_found_tags(sentence, leaves)
            kinds = None
        elif self.constrained:
            given = self.word_tags.kinds_with_given(
                kinds, num_words, [tags for _, tags in sentences]
            )
            if given is not None:
                kinds, grammar = given, self._grammar_of_tags
        return self.search_trees(
            batch, num_words, kinds, num_results, grammar, run, sentence_numbers
        )

    def _search_tags(self, batch, sentences, _):
        """As if the tagger's leaves were found by a search: one result, of score 0."""
        leaves = self._best_leaves(batch, self._word_kinds(batch, sentences)[1])
        return leaves[:, None], np.zeros((len(batch), 1))

    def _word_kinds(self, batch, sentences):
        num_words = np.zeros(len(batch), "int32")
        num_words[: len(sentences)] = [len(words) for words, _ in sentences]
        escaped = [[*map(escape, words)] for words, _ in sentences]
        return num_words, self.word_tags.kinds(num_words, escaped)

    def _best_leaves(self, batch, kinds):
        return ops.convert_to_numpy(self.word_tags.tag(self.model, batch, kinds))

    def _with_found_tags(self, sentence, leaves):
        """A sentence's tags, with the tagger's in the places of those that are not given."""
        found = self.word_tags.tags_of(leaves[: len(sentence.tags)])
        return [tag or best for tag, best in zip(sentence.tags, found)]
