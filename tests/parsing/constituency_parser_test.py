import dataclasses

import keras
import numpy as np
import pytest
from nltk import Tree

import keras_transformer as kt
from keras_transformer.parsing.brackets import parse_trees, to_bracketed, unescape
from keras_transformer.parsing.constituency_parser import ConstituencyParser
from keras_transformer.parsing.linearization import LABELLED_BRACKETS, LabelledBrackets
from keras_transformer.parsing.train_parser import validation_parser
from keras_transformer.parsing.tree_consensus import consensus
from keras_transformer.parsing.word_tags import TagDictionary
from keras_transformer.parsing.words import read_words
from tests.parsing.small_trees import (
    EXTRA_LENGTH,
    new_parser,
    new_parser_of,
    short_sentences,
    symbols,
    tag_dictionary,
    tokenizer,
    trees,
)
from tests.parsing.unlabelled_closers import UnlabelledClosers

SENTENCES = short_sentences(12)
ODD = [["🙂"], ["中文", "句子"], ["(", "odd", ")", "a(b)"], ["\u200b", "½", "\u00a0"], ["x" * 50]]


@pytest.fixture(scope="module")
def parser():
    return new_parser()


@pytest.mark.each_backend
def test_trees_are_over_exactly_the_words(parser):
    sentences = SENTENCES + ODD
    for words, parse in zip(sentences, parser.parse(sentences), strict=True):
        expected = [word.replace("(", "-LRB-").replace(")", "-RRB-") for word in words]
        assert parse.tree.leaves() == expected
        assert LABELLED_BRACKETS.rebuild(*LABELLED_BRACKETS.linearize(parse.tree)) == parse.tree
        assert not parse.repairs and np.isfinite(parse.score)
        assert {subtree.label() for subtree in parse.tree.subtrees()} <= {
            symbol.strip("()") for symbol in symbols()
        }


def test_results_keep_the_order_of_the_sentences(parser):
    together = parser(SENTENCES)
    assert [tree.leaves() for tree in together] == SENTENCES
    assert parser(SENTENCES[3:4]) == together[3:4]


def test_a_bracket_is_read_in_its_escaped_form(parser):
    # Unescaped, "(NP" and ")" would be symbols of the vocabulary.
    written, escaped = parser.parse([["(NP", "runs", ")"], ["-LRB-NP", "runs", "-RRB-"]])
    assert written.tree == escaped.tree and written.score == escaped.score


def test_a_sentence_without_words_gets_no_tree(parser):
    assert parser(["", ["Hello"], [], "  "])[1].leaves() == ["Hello"]
    assert [tree is None for tree in parser(["", ["Hello"], [], "  "])] == [1, 0, 1, 1]
    assert parser([]) == []


@pytest.mark.parametrize("constrained", [True, False])
def test_a_sentence_that_is_too_long_gets_no_tree(constrained):
    parser = new_parser(max_source_length=12, constrained=constrained)
    lengths = [len(ids) + 1 for ids in tokenizer().encode(["runs", "runs " * 30])]
    assert lengths[0] <= 12 < lengths[1]
    short, long, empty = parser.parse([["runs"], ["runs"] * 30, []])
    assert short.tree.leaves() == ["runs"] and not short.is_too_long
    assert long[:3] == (None, 0.0, {}) and long.is_too_long
    assert empty.tree is None and not empty.is_too_long


def test_the_longest_sentence_gets_a_tree():
    (ids,) = tokenizer().encode(["He runs ."])
    for room, is_too_long in ((1, False), (0, True)):
        (parse,) = new_parser(max_source_length=len(ids) + room).parse([["He", "runs", "."]])
        assert parse.is_too_long == is_too_long


def test_words_without_a_known_token_get_leaves(parser):
    # SentencePiece drops a space without width, but the length limit of an output depends on its
    # source, so each word must have a token.
    for parse in parser.parse([["\u200b"] * (EXTRA_LENGTH - 1), ["\u200b"] * 2 * EXTRA_LENGTH]):
        assert set(parse.tree.leaves()) == {"\u200b"}


def test_parse_windows_reads_a_window_after_the_one_before_is_consumed(parser):
    asked = []

    def windows():
        for window in (["He runs.", ""], ["She sees him."]):
            asked.append(window)
            yield window

    for count, parses in enumerate(parser.parse_windows(windows()), start=1):
        assert len(asked) == count
        assert [parse.tree for parse in parses] == parser(asked[-1])
    assert count == 2


@pytest.mark.once
def test_text_is_split_as_in_the_penn_treebank():
    assert read_words('He can\'t (really) say "no".').words == [
        *("He", "ca", "n't", "-LRB-", "really", "-RRB-", "say", "``", "no", "''", "."),
    ]
    assert read_words(["as", ("it", "PRP"), ("is.", None)]) == (
        ["as", "it", "is."],
        [None, "PRP", None],
    )


def test_raw_text_is_split_by_the_rules_of_the_metadata(parser, tmp_path):
    assert parser(["a well-known dog."])[0].leaves() == ["a", "well-known", "dog", "."]
    parser = new_parser()
    parser.metadata["word_tokenizer"] = "craft"
    parser.save_to_preset(tmp_path / "preset")
    craft = kt.ConstituencyParser.from_preset(
        tmp_path / "preset", extra_length=EXTRA_LENGTH, beam_size=3
    )
    expected = ["a", "well", "-", "known", "dog", "."]
    assert craft(["a well-known dog."])[0].leaves() == expected
    assert craft([["a", "well-known"]])[0].leaves() == ["a", "well-known"]
    with pytest.raises(ValueError, match="`word_tokenizer` must be one of"):
        metadata = {**parser.metadata, "word_tokenizer": "alien"}
        ConstituencyParser(parser.model, tokenizer(), metadata)


def test_num_results_returns_the_next_best_parses(parser):
    best = list(parser.parse(SENTENCES[:3]))
    for one, several in zip(best, parser.parse([*SENTENCES[:3]], num_results=3), strict=True):
        assert several.tree == one.tree and not one.others
        parses = [several, *several.others]
        scores = [parse.score for parse in parses]
        assert len(parses) == 3 and scores == sorted(scores, reverse=True)
        assert len({str(parse.tree) for parse in parses}) == 3
        assert {tuple(parse.tree.leaves()) for parse in parses} == {tuple(one.tree.leaves())}
    (empty,) = parser.parse([[]], num_results=3)
    assert empty.tree is None and empty.others == ()
    with pytest.raises(ValueError, match="no larger than `beam_size`"):
        list(parser.parse(SENTENCES[:1], num_results=4))


@pytest.mark.parametrize(
    "words",
    [
        [".", ",", "``", "''", ":", ";", "!?", "..."],
        [*"()[]{}", "-LRB-", "(S", ")S", "()"],
        ["👩\u200d🔬", "🙂", "🇩🇪"],
        ["\u00a0", "\u2003", "\u3000", "\u2028", "a\u2009b"],
        ["\u200b", "\ufeff", "\u200d", "a\u200b"],
        ["\x00", "\x7f", "e\u0301"],
    ],
)
def test_trees_of_unusual_words_are_over_exactly_these_words(parser, words):
    (tree,) = parser([words])
    assert list(map(unescape, tree.leaves())) == [*map(unescape, words)]
    assert next(iter(parse_trees([to_bracketed(tree)]))) == tree


@pytest.mark.slow
def test_very_long_words_and_sentences_get_trees():
    parser = new_parser(beam_size=1, max_source_length=1200)
    word, sentence, together = parser.parse([["x" * 10_000], ["he"] * 500, ["x" * 500]])
    assert word.is_too_long and together.tree.leaves() == ["x" * 500]
    assert sentence.tree.leaves() == ["he"] * 500


@pytest.mark.once
@pytest.mark.parametrize("word", ["", "a b", "\t", None, 3, "a\ud83d"])
def test_invalid_words_are_errors(parser, word):
    with pytest.raises(ValueError, match="A word must be a string that is not empty"):
        parser([["He", word]])


def test_unconstrained_outputs_are_repaired_and_counted():
    parses = list(new_parser(constrained=False).parse(SENTENCES))
    for words, parse in zip(SENTENCES, parses):
        assert parse.tree.leaves() == words
    assert sum(sum(parse.repairs.values()) for parse in parses) > len(parses)


def test_words_get_tags_of_the_dictionary(parser):
    def are_in_dictionary(parser):
        dictionary = tag_dictionary()
        return [
            all(
                tag in dictionary.tag_sets[kind]
                for (_, tag), kind in zip(tree.pos(), dictionary.word_kinds(tree.leaves()))
            )
            for tree in parser(SENTENCES + ODD)
        ]

    # The model is not trained: without the dictionary, tags are random.
    assert all(are_in_dictionary(parser))
    assert not any(are_in_dictionary(new_parser(tag_dictionary=False))[: len(SENTENCES)])


@pytest.mark.parametrize(
    "options", [{}, {"tag_dictionary": False}, {"constrained": False}], ids=str
)
def test_given_tags_are_in_the_tree(options):
    parser = new_parser(**options)
    tags = sorted(parser.symbols.leaves())
    # Every third word gets a tag that the dictionary does not allow.
    tagged = [
        [(word, tags[i % len(tags)] if i % 3 == 0 else None) for i, word in enumerate(words)]
        for words in SENTENCES
    ]
    dictionary = parser.tag_dictionary
    for sentence, tree in zip(tagged, parser(tagged)):
        assert tree.leaves() == [word for word, _ in sentence]
        for (word, tag), (_, predicted) in zip(sentence, tree.pos()):
            if tag is not None:
                assert predicted == tag
            elif dictionary:
                assert predicted in dictionary.tag_sets[dictionary.word_kinds([word])[0]]


@pytest.mark.parametrize("tag_dictionary", [True, False])
def test_giving_the_predicted_tags_gives_the_same_trees(tag_dictionary):
    # A greedy search takes the best allowed symbol, and its own choice is still allowed.
    parser = new_parser(beam_size=1, alpha=0.0, tag_dictionary=tag_dictionary)
    parses = list(parser.parse(SENTENCES))
    given = parser.parse([parse.tree.pos() for parse in parses])
    for parse, same in zip(parses, given):
        assert same.tree == parse.tree and same.score == pytest.approx(parse.score, abs=1e-4)


def test_a_parser_without_tags_writes_given_tags_into_the_tree():
    parser = new_parser_of(LabelledBrackets(keep_tags=False))
    words = SENTENCES[0]
    (tree,) = parser([[(word, f"T{i}") for i, word in enumerate(words)]])
    assert tree.pos() == [(word, f"T{i}") for i, word in enumerate(words)]
    assert [tag for _, tag in parser([words])[0].pos()] == ["XX"] * len(words)


def test_a_given_tag_without_a_symbol_is_in_the_tree(parser):
    (tree,) = parser([[("He", "ALIEN"), ("sees", "VBZ"), "."]])
    assert [tag for _, tag in tree.pos()][:2] == ["ALIEN", "VBZ"]


def test_brackets_in_given_tags_are_escaped(parser):
    # NLTK's tagger returns such tags.
    (tree,) = parser([[("(", "("), ("He", "X)")]])
    assert tree.pos() == [("-LRB-", "-LRB-"), ("He", "X-RRB-")]
    assert next(iter(parse_trees([to_bracketed(tree)]))) == tree


@pytest.mark.once
@pytest.mark.parametrize("tag", [3, "", "N N", "\ud83d"])
def test_invalid_tags_are_errors(parser, tag):
    with pytest.raises(ValueError, match="tag must be None or a string that could be"):
        parser([[("He", tag)]])


@pytest.mark.once
def test_a_surrogate_in_text_is_an_error(parser):
    with pytest.raises(ValueError, match="half of a character"):
        parser(["He runs\ud83d."])


def test_samples_are_trees():
    options = {"search": "random", "temperature": 3.0, "seed": 1}
    for words, tree in zip(SENTENCES, new_parser(**options)(SENTENCES)):
        assert tree.leaves() == words


def test_a_preset_keeps_the_symbols(parser, tmp_path):
    parser.save_to_preset(tmp_path / "preset", card="# A parser\n")
    loaded = kt.ConstituencyParser.from_preset(
        tmp_path / "preset", extra_length=EXTRA_LENGTH, batch_tokens=1024, beam_size=3
    )
    assert loaded(SENTENCES) == parser(SENTENCES)
    with pytest.raises(ValueError, match="must be a preset for Translator"):
        kt.Translator.from_preset(tmp_path / "preset")


@pytest.mark.once
def test_the_paper_s_search_is_the_default():
    parser = ConstituencyParser(new_parser().model, tokenizer(), {"symbols": list(symbols())})
    assert parser.search == kt.BeamSearch(beam_size=21, alpha=0.3, extra_length=300)
    assert parser.extra_length == 300 and parser.constrained


@pytest.mark.once
def test_one_string_is_parsed_to_one_tree(parser):
    assert parser("The dog runs.") == parser(["The dog runs."])[0]
    with pytest.raises(ValueError, match="parsed one by one"):
        parser.parse("The dog runs.")


@pytest.mark.once
def test_metadata_without_symbols_is_an_error():
    with pytest.raises(ValueError, match='as "symbols"'):
        ConstituencyParser(new_parser().model, tokenizer(), {})


@pytest.mark.once
def test_symbols_and_words_may_have_separate_vocabularies(tmp_path):
    parser = new_parser(counts_words=True)
    sizes = parser.model.hyperparameters
    assert sizes["vocabulary_size"] == 4 + len(symbols()) < tokenizer().vocabulary_size
    assert sizes["source_vocabulary_size"] == tokenizer().vocabulary_size
    parser.save_to_preset(tmp_path / "preset")
    loaded = kt.ConstituencyParser.from_preset(
        tmp_path / "preset", extra_length=EXTRA_LENGTH, batch_tokens=1024, beam_size=3
    )
    assert loaded(SENTENCES[:2]) == parser(SENTENCES[:2])
    # The first symbol has the id 4, so these logits end before the last symbol.
    small = kt.Transformer(len(symbols()), 1, 16, 32, 2, source_vocabulary_size=60)
    with pytest.raises(ValueError, match="Expected logits for at least"):
        ConstituencyParser(small, tokenizer(), {"symbols": list(symbols())})


@pytest.mark.parametrize("counts_words", [False, True])
def test_a_model_that_learned_one_tree_predicts_it(counts_words):
    """A tree survives linearization, training and search."""
    tree = Tree.fromstring("(S (NP (DT the) (NN dog)) (VP (VBZ sees) (NP (PRP him))) (. .))")
    words, sequence = LABELLED_BRACKETS.linearize(tree)
    parser = new_parser(counts_words=counts_words)
    source = np.array([[*tokenizer().encode([" ".join(words)])[0], 2]])
    target = np.array([[*parser.symbols.encode([" ".join(sequence)])[0], 2]])
    inputs = {
        "encoder_token_ids": source,
        "decoder_token_ids": np.concatenate([[[1]], target[:, :-1]], axis=1),
    }
    parser.model.compile(keras.optimizers.Adam(0.02), loss=kt.LabelSmoothedCrossentropy(0.0))
    for _ in range(40):
        parser.model.train_on_batch(inputs, target)
    (parse,) = parser.parse([words])
    assert parse.tree == tree


# The tag dictionary


@pytest.mark.once
def test_a_preset_keeps_the_tag_dictionary_of_a_parser_that_does_not_use_it(tmp_path):
    for options in ({}, {"tag_dictionary": False}, {"constrained": False}):
        parser = new_parser(**options)
        assert "tag_dictionary" not in parser.metadata
        parser.save_to_preset(tmp_path / "preset")
        loaded = kt.ConstituencyParser.from_preset(tmp_path / "preset")
        assert loaded.tag_dictionary.to_dict() == tag_dictionary().to_dict()
        assert loaded.metadata == parser.metadata
    without = kt.ConstituencyParser.from_preset(tmp_path / "preset", tag_dictionary=False)
    assert without.tag_dictionary is None and without.grammar.leaf_sets == ()
    assert new_parser(constrained=False).tag_dictionary is None


@pytest.mark.once
def test_a_tag_dictionary_can_be_an_argument(tmp_path):
    other = TagDictionary.from_trees(trees(), min_count=1)
    parser = new_parser(tag_dictionary=other)
    assert parser.tag_dictionary is other
    parser.save_to_preset(tmp_path / "preset")
    loaded = kt.ConstituencyParser.from_preset(tmp_path / "preset")
    assert loaded.tag_dictionary.to_dict() == other.to_dict() != tag_dictionary().to_dict()


@pytest.mark.once
def test_a_tag_dictionary_with_unknown_tags_is_an_error():
    with pytest.raises(ValueError, match="no symbols for its tags ALIEN, TAG"):
        new_parser(tag_dictionary=TagDictionary([["NN", "TAG", "ALIEN"]], []))


# Another linearization
def test_a_preset_keeps_the_linearization(tmp_path):
    options = {
        "extra_length": EXTRA_LENGTH,
        "batch_tokens": 1024,
        "beam_size": 3,
        "constrained": False,
    }
    parser = new_parser_of(UnlabelledClosers(), **options)
    assert ")" in parser.symbols.symbols
    expected = parser(SENTENCES)
    assert [tree.leaves() for tree in expected] == SENTENCES
    parser.save_to_preset(tmp_path / "preset")
    loaded = kt.ConstituencyParser.from_preset(tmp_path / "preset", **options)
    assert type(loaded.symbols.linearization) is UnlabelledClosers
    assert loaded(SENTENCES) == expected
    with pytest.raises(
        ValueError, match="contradicts the parser's `metadata`.*Received: linearization="
    ):
        kt.ConstituencyParser.from_preset(tmp_path / "preset", linearization=LabelledBrackets())


@pytest.mark.once
def test_labelled_brackets_are_the_default_linearization():
    assert new_parser().symbols.linearization == LabelledBrackets()
    without_tags = LabelledBrackets(keep_tags=False)
    parser = new_parser(linearization=without_tags)
    assert parser.metadata["linearization"] == without_tags.serialize()
    with pytest.raises(ValueError, match="is not a symbol of the linearization"):
        new_parser(linearization=UnlabelledClosers())


def test_the_consensus_is_of_all_results_of_the_beam(parser):
    agreeing = new_parser(decision="consensus")
    several = 0
    found = parser.parse(SENTENCES[:4], num_results=3)
    for parse, best in zip(agreeing.parse(SENTENCES[:4]), found, strict=True):
        trees = [each.tree for each in (best, *best.others)]
        # A score is log P / lp(|y|), with alpha 0.3; a tree has a symbol for each leaf, two for
        # each constituent, and the end token.
        penalties = [((5 + size_of(tree)) / 6) ** 0.3 for tree in trees]
        scores = [each.score for each in (best, *best.others)]
        weights = [np.exp(x * penalty) for x, penalty in zip(scores, penalties)]
        tree, agreement = consensus(trees, weights)
        assert (parse.tree, parse.others) == (tree, ())
        assert parse.score == pytest.approx(agreement) and 0 < parse.score <= 1
        several += tree != best.tree
    assert several  # else the best alone would do
    assert agreeing([[]]) == [None]


def size_of(tree):
    return 2 * sum(1 for _ in tree.subtrees()) - len(tree.leaves()) + 1


def test_several_results_are_the_results_of_the_beam(parser):
    agreeing = new_parser(decision="consensus")
    for found, expected in zip(*(x.parse(SENTENCES[:2], 2) for x in (agreeing, parser))):
        assert found == expected


def test_a_preset_keeps_the_decision(tmp_path):
    new_parser(decision="consensus").save_to_preset(tmp_path / "model")
    load = ConstituencyParser.from_preset
    assert load(tmp_path / "model").decision == "consensus"
    assert load(tmp_path / "model", decision="best").decision == "best" == new_parser().decision
    with pytest.raises(kt.UserError, match="`decision` must be"):
        new_parser(decision="mean")


def test_the_consensus_of_one_sample_is_the_sample():
    parser = new_parser(search=kt.Sampling(seed=1), decision="consensus")
    assert [tree.leaves() for tree in parser(SENTENCES[:3])] == SENTENCES[:3]


@pytest.mark.once
def test_scores_of_a_training_count_long_sentences_as_skipped():
    options = kt.parsing.ParsingOptions(beam_size=2, extra_length=EXTRA_LENGTH)
    quick = validation_parser(new_parser(), options)
    assert kt.parsing.score_trees(quick, trees()[:3]).sentences == 3
    # The limit excludes one sentence, as a model with too few positions does.
    longest = max(len(tree.leaves()) for tree in trees()[:3])
    quick.preprocessor = dataclasses.replace(quick.preprocessor, max_source_length=longest)
    longer = Tree("S", [*trees()[0], *trees()[1], *trees()[2]])
    assert kt.parsing.score_trees(quick, [longer]).skipped == 1
    for number in (0, -1):
        with pytest.raises(kt.UserError, match=f"`val_sentences` .*={number}"):
            validation_parser(new_parser(), kt.parsing.ParsingOptions(val_sentences=number))
