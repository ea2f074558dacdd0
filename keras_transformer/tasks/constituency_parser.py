from collections import Counter
from typing import NamedTuple

import numpy as np

from keras_transformer.data.tag_dictionary import TagDictionary
from keras_transformer.data.tokenizer import END_ID
from keras_transformer.data.tree_symbols import TreeSymbols
from keras_transformer.data.trees import escape, repair
from keras_transformer.decoding.search import beam_search
from keras_transformer.decoding.tree_grammar import TreeGrammar
from keras_transformer.tasks.search_stream import few_sizes, search_stream
from keras_transformer.tasks.task import Task, check_is_no_string


class Parse(NamedTuple):
    """A sentence's tree; None for a sentence without words."""

    tree: object  # nltk.Tree
    score: float  # what the search gives it
    repairs: Counter  # what had to be mended in the model's output, by kind


class ConstituencyParser(Task):
    """Sentences in, trees out: section 6.3.

    ```python
    parser = ConstituencyParser.from_preset("saved_models/craft_parser")
    parser(["The dog runs."])  # [Tree('S', [Tree('NP', ...), Tree('VP', ...), Tree('.', ['.'])])]
    parser([["The", "dog", "runs", "."]])  # words, as they are
    ```

    The model predicts the tree as a sequence of symbols. The search leaves it only those that lead
    to a tree over exactly the sentence's words (`TreeGrammar`), and of tags those that a word can
    have (`TagDictionary`). Without this constraint, whatever comes out is repaired, and the repairs
    are counted.

    Args:
        model: a `Transformer`.
        tokenizer: a `Tokenizer` of which each symbol is one token.
        metadata: dict of JSON values kept with a preset. Its `"symbols"` are the symbols' list. If
            it has them, its `"max_openings"` is `TreeGrammar`'s, and its `"tag_dictionary"` what
            `TagDictionary.to_dict` gives.
        extra_length: how many tokens longer than its sentence a tree may be.
        batch_tokens: the largest number of source slots parsed at once.
        search: `beam_search` or `sample`.
        constrained: whether the search may only build trees.
        tag_dictionary: whether a constrained search keeps to the tag dictionary, if there is one.
        beam_size: live hypotheses of a sentence.
        alpha: strength of the length penalty.
        **search_options: further arguments of `search`.

    Raises:
        ValueError: if `metadata` has no symbols, or one is no token.
    """

    def __init__(
        self,
        model,
        tokenizer,
        metadata,
        extra_length=300,
        batch_tokens=1024,
        search=beam_search,
        constrained=True,
        tag_dictionary=True,
        beam_size=21,
        alpha=0.3,
        **search_options,
    ):
        if search is beam_search:
            search_options = {"beam_size": beam_size, "alpha": alpha, **search_options}
        super().__init__(
            model, tokenizer, metadata, extra_length, batch_tokens, search, **search_options
        )
        if "symbols" not in self.metadata:
            raise ValueError(
                'A parser\'s `metadata` must hold the symbols of its trees, as "symbols". '
                f"Received: metadata={self.metadata}"
            )
        self.symbols = TreeSymbols(self.metadata["symbols"], tokenizer)
        self.constrained = constrained
        self.tag_dictionary = None
        leaves, leaf_sets = self.symbols.leaves(), ()
        if constrained and tag_dictionary and "tag_dictionary" in self.metadata:
            self.tag_dictionary = TagDictionary(**self.metadata["tag_dictionary"])
            leaf_sets = [[leaves[tag] for tag in tags] for tags in self.tag_dictionary.tag_sets]
        self.grammar = TreeGrammar(
            *self.symbols.brackets(),
            tuple(leaves.values()),
            max_openings=self.metadata.get("max_openings", TreeGrammar.max_openings),
            leaf_sets=leaf_sets,
        )

    def export(self, path):
        """Write a TensorFlow SavedModel: see `keras_transformer.export.parser_saved_model`."""
        from keras_transformer.export.parser_saved_model import export_parser

        export_parser(self, path)

    def __call__(self, sentences):
        """Parse.

        Args:
            sentences: list of sentences. A string is split into words as in the Penn Treebank; a
                list of strings holds the words themselves, in the Penn Treebank's spelling.

        Returns:
            The list of trees (`nltk.Tree`), in the same order; None for a sentence without words.
        """
        return [parse.tree for parse in self.parse(sentences)]

    def parse(self, sentences):
        """Parse a stream of any length, holding only a few thousand sentences at a time.

        Progress is shown on standard error, if that is a terminal, from the fifth second on.

        Args:
            sentences: iterable of sentences, as above.

        Returns:
            An iterator of `Parse`, in the same order.
        """
        check_is_no_string(sentences, "parsed")
        return self._parse(sentences)

    def search_trees(self, token_ids, num_words, word_kinds=None, num_results=1):
        """Search for linearised trees.

        Args:
            token_ids: int array `(batch, source)`.
            num_words: int array `(batch,)`.
            word_kinds: with a tag dictionary, int array `(batch, words)`: its kinds of the words.
            num_results: how many of each sentence.

        Returns:
            `(token_ids, scores)`, as `beam_search`.
        """
        if not self.constrained:
            return self.search_batch(token_ids, num_results)
        return self.search_batch(
            token_ids,
            num_results,
            grammar=self.grammar,
            num_words=num_words,
            word_kinds=word_kinds,
        )

    def _parse(self, sentences):
        results = search_stream(
            map(words_of, sentences),
            self._encode,
            self._search,
            self.batch_tokens,
            self._max_source_length(),
            total=len(sentences) if hasattr(sentences, "__len__") else None,
        )
        for words, outputs in results:
            if not words:
                yield Parse(None, 0.0, Counter())
                continue
            # Without the constraint, no output at all is possible too.
            token_ids, score = outputs[0] if outputs else ([], -np.inf)
            tree, repairs = repair([escape(word) for word in words], self.symbols.decode(token_ids))
            yield Parse(tree, score, repairs)

    def _encode(self, sentences):
        token_ids = self.tokenizer.encode([" ".join(words) for words in sentences])
        return [[*ids, END_ID] for ids in token_ids]

    def _search(self, batch, sentences):
        num_words = np.zeros(len(batch), "int32")
        num_words[: len(sentences)] = [len(words) for words in sentences]
        return self.search_trees(batch, num_words, self._word_kinds(num_words, sentences))

    def _word_kinds(self, num_words, sentences):
        if self.tag_dictionary is None:
            return None
        word_kinds = np.zeros((len(num_words), few_sizes(num_words.max())), "int32")
        for row, words in enumerate(sentences):
            word_kinds[row, : len(words)] = self.tag_dictionary.kinds_of(map(escape, words))
        return word_kinds


def words_of(sentence):
    """The words of a sentence: those of a list, or those that a string is split into."""
    if not isinstance(sentence, str):
        return list(sentence)
    from nltk.tokenize import TreebankWordTokenizer

    return TreebankWordTokenizer().tokenize(sentence, convert_parentheses=True)
