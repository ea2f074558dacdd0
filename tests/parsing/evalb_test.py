"""EVALB's figures by hand, from its rules. The C program prints the same rows."""

import json
from dataclasses import FrozenInstanceError

import pytest
from nltk import Tree

from keras_transformer.parsing.evalb import Parameters, evaluate_files, evaluate_trees

pytestmark = pytest.mark.once

COLLINS, NEW = Parameters.named("COLLINS"), Parameters.named("new")
DOG = "(S (NP (DT the) (NN dog)) (VP (VBZ runs)))"


def row(gold, predicted, parameters=None):
    """Return (status, matched, gold and predicted brackets, crossing, words, correct tags)."""
    (sentence,) = evaluate_trees([gold], [predicted], parameters).sentence_scores
    return (
        sentence.status,
        *(sentence.matched, sentence.gold_brackets, sentence.predicted_brackets),
        *(sentence.crossing, sentence.words, sentence.correct_tags),
    )


# Each figure

CASES = {
    # The same tree: S, NP and VP.
    "equal": (None, DOG, DOG, (0, 3, 3, 3, 0, 3, 3)),
    # NP is labelled ADJP: its span agrees, its label does not.
    "label": (
        *(None, DOG, DOG.replace("(NP", "(ADJP")),
        (0, 2, 3, 3, 0, 3, 3),
    ),
    "unlabeled": (
        *(Parameters(labeled=False), DOG, DOG.replace("(NP", "(ADJP")),
        (0, 3, 3, 3, 0, 3, 3),
    ),
    "tag": (None, DOG, DOG.replace("NN", "NNP"), (0, 3, 3, 3, 0, 3, 2)),
    # Gold has S 0-4, A 0-2, B 2-4, the other S 0-4, A 1-3, B 0-3: A crosses A, B crosses B.
    "crossing": (
        None,
        "(S (A (X a) (X b)) (B (X c) (X d)))",
        "(S (B (X a) (A (X b) (X c))) (X d))",
        (0, 1, 3, 3, 2, 4, 4),
    ),
    # One predicted bracket that crosses two gold brackets counts once.
    "crossing_once": (
        None,
        "(S (A (X a) (B (X b) (X c))) (X d))",
        "(S (X a) (X b) (C (X c) (X d)))",
        (0, 1, 3, 2, 1, 4, 4),
    ),
    # A deleted bracket is not counted as crossing.
    "crossing_deleted": (
        COLLINS,
        "(S (A (X a) (X b)) (X c))",
        "(S (X a) (TOP (X b) (X c)))",
        (0, 1, 2, 1, 0, 3, 3),
    ),
    # One of three A over the same span matches.
    "unary_predicted": (None, "(S (A (X a)))", "(S (A (A (A (X a)))))", (0, 2, 2, 4, 0, 1, 1)),
    "unary_gold": (None, "(S (A (A (A (X a)))))", "(S (A (X a)))", (0, 2, 4, 2, 0, 1, 1)),
    "unary_order": (None, "(A (B (X a)))", "(B (A (X a)))", (0, 2, 2, 2, 0, 1, 1)),
    # NP-SBJ-1 and NP=2 are NP; tags are compared unchanged.
    "function_tags": (
        None,
        "(S (NP-SBJ-1 (X-Y a)) (NP=2 (X b)))",
        "(S (NP (X a)) (NP-OBJ=3 (X b)))",
        (0, 3, 3, 3, 0, 2, 1),
    ),
    # The label -NONE- of a bracket is cut at its first "-" to an empty label, which is not deleted.
    "dash_first": (COLLINS, "(-NONE- (X a))", "(-LRB- (X a))", (0, 1, 1, 1, 0, 1, 1)),
    # TOP, "." and "," are deleted: NP 0-1 and S 0-2 are left.
    "deleted": (
        COLLINS,
        "(TOP (S (NP (X a) (, ,)) (X b) (. .)))",
        "(S (, ,) (NP (X a)) (X b))",
        (0, 2, 2, 2, 0, 2, 2),
    ),
    # Brackets that contain only a trace are deleted with it.
    "traces": (
        COLLINS,
        "(S (NP (-NONE- *)) (VP (X a) (SBAR (-NONE- 0) (S (-NONE- *)))))",
        "(S (VP (X a)))",
        (0, 2, 2, 2, 0, 1, 1),
    ),
    # A deleted tag must match exactly; a deleted label also matches equal labels.
    "deleted_by_equal": (
        Parameters(delete_labels=frozenset({"D"}), equal_labels=frozenset({("E", "D")})),
        "(S (E (E a)) (X b))",
        "(S (E a) (X b))",
        (0, 1, 1, 1, 0, 2, 2),
    ),
    "advp_prt": (
        COLLINS,
        "(S (PRT (PRT up)) (ADVP (RB so)))",
        "(S (ADVP (ADVP up)) (PRT (RB so)))",
        (0, 3, 3, 3, 0, 2, 2),
    ),
    # A is B and B is C, yet A is not C.
    "equal_is_not_transitive": (
        Parameters(equal_labels=frozenset({("A", "B"), ("B", "C")})),
        "(S (A (X a)) (B (X b)))",
        "(S (C (X a)) (C (X b)))",
        (0, 2, 3, 3, 0, 2, 2),
    ),
    # The first gold bracket takes the first equal bracket, even if that leaves none for the second.
    "first_that_fits": (
        Parameters(equal_labels=frozenset({("A", "B")})),
        "(B (A (B (X a))))",
        "(A (B (C (X a))))",
        (0, 2, 3, 3, 0, 1, 1),
    ),
    "equal_words": (
        Parameters(equal_words=frozenset({("This", "this")})),
        "(S (X this))",
        "(S (X This))",
        (0, 1, 1, 1, 0, 1, 1),
    ),
    # An outer bracket without a label is scored like the others.
    "outer_bracket": (COLLINS, "( (S (X a)))", "(S (X a))", (0, 1, 2, 1, 0, 1, 1)),
    "forest": (None, "(S (A (X a)) (X b))", "(A (X a)) (X b)", (0, 1, 2, 1, 0, 2, 2)),
    # Without brackets, all zero of them match.
    "no_brackets": (COLLINS, "(TOP (X a))", "(X a)", (0, 0, 0, 0, 0, 1, 1)),
    "length_differs": (None, "(S (X a))", "(S (X a) (X b))", (1, 0, 1, 1, 0, 0, 0)),
    "word_differs": (None, "(S (X a))", "(S (X b))", (1, 0, 1, 1, 0, 0, 0)),
    "no_gold": (None, "", "(S (X b))", (1, 0, 0, 1, 0, 0, 0)),
    "no_parse": (None, "(S (X a))", "", (2, 0, 1, 0, 0, 0, 0)),
    "no_words": (COLLINS, "(S (X a))", "(S (. .) (NP))", (2, 0, 1, 0, 0, 0, 0)),
    "neither": (None, "", "", (2, 0, 0, 0, 0, 0, 0)),
    # Only ASCII spaces separate words: these trees have one word, "a\u00a0b".
    "no_break_space": (None, "(S (X a\u00a0b))", "(S (X a\u00a0b))", (0, 1, 1, 1, 0, 1, 1)),
    "spaces": (None, " (S(A\t(X  a) )(X b)) ", "(S (A (X a)) (X b))", (0, 2, 2, 2, 0, 2, 2)),
    # An empty bracket; with a space after the label, a tag with an empty word.
    "empty_brackets": (None, "(S (NP) (X a))", "(S (X a) (NP (NP)))", (0, 1, 1, 1, 0, 1, 1)),
    "empty_word": (None, "(S (NP ) (X a))", "(S (NP) (X a))", (1, 0, 1, 1, 0, 0, 0)),
}


@pytest.mark.parametrize("parameters, gold, predicted, expected", CASES.values(), ids=CASES)
def test_sentences_get_the_rows_of_the_c_program(parameters, gold, predicted, expected):
    assert row(gold, predicted, parameters) == expected


# Gold tags the closing quote '', which is deleted; the parser tags it as a possessive.
QUOTED = "(S (NP (NN x) (NP (NN y) ('' '))) (VP (VB z)))"
POSSESSIVE = "(S (NP (NN x) (NP (NN y) (POS '))) (VP (VB z)))"


@pytest.mark.parametrize("gold, predicted", [(QUOTED, POSSESSIVE), (POSSESSIVE, QUOTED)])
def test_quote_is_put_back(gold, predicted):
    # With the quote among the words: S 0-4, NP 0-3, NP 1-3, VP 3-4.
    assert row(gold, predicted, NEW) == (0, 4, 4, 4, 0, 4, 3)
    assert row(gold, predicted, COLLINS)[0] == 1
    # A quote that both trees delete is not put back.
    assert row(QUOTED, QUOTED, NEW) == (0, 4, 4, 4, 0, 3, 3)


def test_quote_belongs_to_the_brackets_around_it():
    # Gold puts the quote into S after NP, the parser into NP, where it ends NP one word later.
    gold, predicted = (
        "(S (NP (NN x)) ('' \") (VP (VB z)))",
        '(S (NP (NN x) (NN ")) (VP (VB z)))',
    )
    assert row(gold, predicted, NEW) == (0, 2, 3, 3, 0, 3, 2)


@pytest.mark.parametrize("tags", [("''", "POS"), ("POS", "''")])
def test_two_quotes_are_put_back(tags):
    # The first one moves the second.
    gold, predicted = (f"(S (A ({tag} ') (X x)) ({tag} '))" for tag in tags)
    assert row(gold, predicted, NEW) == (0, 2, 2, 2, 0, 3, 1)


def test_quotes_are_put_back_only_where_lengths_differ():
    # One quote is left out in each tree, but not the same one.
    assert row("(S ('' ') (X x) (POS '))", "(S (POS ') (X x) ('' '))", NEW)[0] == 1


def test_quotes_deleted_in_both_are_not_put_back():
    # The lengths differ for another reason.
    gold, predicted = "(S ('' ') (X x))", "(S ('' ') (X x) (X y))"
    (sentence,) = evaluate_trees([gold], [predicted], NEW).sentence_scores
    assert sentence.message == "Length unmatch (1|2)"


def test_other_words_are_not_put_back():
    gold, predicted = ("(S (NN x) ('' ?))", "(S (NN x) (POS ?))")
    assert row(gold, predicted, NEW)[0] == 1


# Summaries

# 3 of 4 brackets, 2 of 4 with one crossing, an error, a skip, and one of 41 words.
TREES = [
    ("(S (A (X a)) (B (X b)) (C (X c)))", "(S (A (X a)) (B (X b)) (D (Y c)))"),
    ("(S (A (X a) (X b)) (A (X c)))", "(S (X a) (A (X b) (X c)) (A (X d)))"),
    ("(S (A (X a) (X b)) (X c))", "(S (X a) (A (X b) (X c)))"),
    ("(S (X a))", ""),
    ("(S" + " (X a)" * 41 + ")",) * 2,
]


def summary_of(trees=TREES, parameters=None):
    return evaluate_trees(*zip(*trees), parameters)


def test_summary_figures_equal_values_worked_out_by_hand():
    scores = summary_of()
    assert (scores.sentences, scores.valid, scores.errors, scores.skipped) == (5, 3, 1, 1)
    # 3/4, 1/2 and 1/1 brackets.
    assert (scores.matched, scores.gold_brackets, scores.predicted_brackets) == (5, 7, 7)
    assert scores.recall == scores.precision == pytest.approx(500 / 7)
    assert scores.f1 == pytest.approx(500 / 7)
    assert scores.complete_match == pytest.approx(100 / 3)
    assert scores.average_crossing == pytest.approx(1 / 3)
    assert scores.no_crossing == pytest.approx(200 / 3)
    assert scores.two_or_less_crossing == 100
    assert scores.tagging_accuracy == pytest.approx(100 * 46 / 47)

    short = scores.short
    assert (short.sentences, short.valid, short.errors, short.skipped) == (4, 2, 1, 1)
    assert (short.matched, short.gold_brackets, short.words, short.correct_tags) == (4, 6, 6, 5)
    assert short.average_crossing == 0.5


def test_strict_figures_count_error_and_skip_sentences_as_wrong():
    scores = summary_of()
    # 4 + 3 + 2 + 1 + 1 gold brackets, 4 + 3 + 2 + 0 + 1 predicted ones; none of the error or the
    # skip sentence matches, though S and A are in both trees.
    assert (scores.strict_gold_brackets, scores.strict_predicted_brackets) == (11, 10)
    assert scores.strict_recall == pytest.approx(500 / 11) and scores.strict_precision == 50
    assert scores.strict_f1 == pytest.approx(1000 / 21)
    assert scores.short.strict_f1 == pytest.approx(100 * 2 * 4 / (10 + 9))
    # EVALB ignores the full stops and TOP.
    gold, predicted = "(TOP (S (NP (X a)) (. .)))", "(TOP (S (. a) (NP (X .))))"
    scores = summary_of([(gold, predicted), (gold, gold)], COLLINS)
    assert (scores.errors, scores.f1, scores.strict_f1) == (1, 100, 50)


def test_strict_figures_without_errors_equal_evalb():
    scores = summary_of([TREES[0], TREES[2], TREES[4]])
    assert scores.f1 == scores.strict_f1 == pytest.approx(500 / 7)
    assert (scores.recall, scores.precision) == (scores.strict_recall, scores.strict_precision)
    nothing = summary_of([("(TOP (X a))", "")], COLLINS)
    assert nothing.strict_f1 == nothing.strict_recall == nothing.strict_precision == 0


def test_the_table_shows_no_brackets_of_error_and_skip_sentences():
    rows = [sentence.table_row(1) for sentence in summary_of().sentence_scores]
    for text in (rows[1], rows[3]):
        assert text.split()[3:] == ["0.00", "0.00", *"000000", "0.00"]


def test_recall_divides_by_gold_and_precision_by_predicted_brackets():
    scores = evaluate_trees(["(S (A (X a)) (X b))"], ["(S (B (X a)) (C (X b)))"])
    assert (scores.recall, scores.precision) == (50, pytest.approx(100 / 3))
    assert scores.f1 == pytest.approx(40)  # 2 matched of 2 + 3


def test_sentences_with_more_than_two_crossings_are_counted_apart():
    gold = "(S (A (X a) (X b)) (A (X c) (X d)))"
    two = "(S (X a) (B (B (X b) (X c))) (X d))"
    three = "(S (X a) (B (B (B (X b) (X c)))) (X d))"
    scores = evaluate_trees([gold] * 2, [two, three])
    assert [sentence.crossing for sentence in scores.sentence_scores] == [2, 3]
    assert (scores.crossing, scores.no_crossing, scores.two_or_less_crossing) == (5, 0, 50)


@pytest.mark.parametrize(
    "words, punctuation, traces, is_short",
    [(40, 0, 0, True), (41, 0, 0, False), (39, 1, 0, True), (40, 1, 0, False), (40, 0, 3, True)],
)
def test_deleted_punctuation_counts_for_length_and_traces_do_not(
    words, punctuation, traces, is_short
):
    # Deleted words count for the length, except those of DELETE_LABEL_FOR_LENGTH.
    tree = "(S" + " (X a)" * words + " (. .)" * punctuation + " (-NONE- *)" * traces + ")"
    scores = evaluate_trees([tree], [tree], COLLINS)
    assert scores.sentence_scores[0].length == words + punctuation
    assert scores.words == words
    assert scores.short.sentences == is_short


def test_length_is_the_length_of_the_gold_sentence():
    short, long = "(S (X a))", "(S (X a) (X a))"
    parameters = Parameters(cutoff_length=1)
    assert evaluate_trees([short], [long], parameters).short.errors == 1
    assert evaluate_trees([long], [short], parameters).short.sentences == 0


def test_str_equals_the_summary_of_the_c_program():
    assert (
        str(summary_of())
        == """\
=== Summary ===

-- All --
Number of sentence        =      5
Number of Error sentence  =      1
Number of Skip  sentence  =      1
Number of Valid sentence  =      3
Bracketing Recall         =  71.43
Bracketing Precision      =  71.43
Bracketing FMeasure       =  71.43
Complete match            =  33.33
Average crossing          =   0.33
No crossing               =  66.67
2 or less crossing        = 100.00
Tagging accuracy          =  97.87

-- len<=40 --
Number of sentence        =      4
Number of Error sentence  =      1
Number of Skip  sentence  =      1
Number of Valid sentence  =      2
Bracketing Recall         =  66.67
Bracketing Precision      =  66.67
Bracketing FMeasure       =  66.67
Complete match            =   0.00
Average crossing          =   0.50
No crossing               =  50.00
2 or less crossing        = 100.00
Tagging accuracy          =  83.33"""
    )


def test_no_valid_sentence_gives_zeros_and_nan_as_the_c_program():
    scores = summary_of([("(S (X a))", "")])
    assert (scores.recall, scores.precision, scores.f1, scores.tagging_accuracy) == (0, 0, 0, 0)
    assert scores.average_crossing == scores.complete_match == 0
    assert "Bracketing FMeasure       =    nan\n" in str(scores)  # as the C program


def test_error_sentences_have_the_reason():
    scores = summary_of([("(S (X a))", "(S (X a) (X b))"), ("(S (X a))", "(S (X b))"), (DOG, DOG)])
    assert [sentence.message for sentence in scores.sentence_scores] == [
        *("Length unmatch (1|2)", "Words unmatch (a|b)", ""),
    ]


def test_scores_survive_json():
    scores = summary_of()
    values = scores.to_dict()
    assert json.loads(json.dumps(values)) == values
    assert (values["f1"], values["errors"]) == (scores.f1, 1)
    assert values["strict_f1"] == scores.strict_f1 != scores.f1
    assert (values["cutoff_length"], values["short"]["f1"]) == (40, scores.short.f1)


def test_scores_are_immutable():
    with pytest.raises(FrozenInstanceError):
        summary_of().errors = 0


# Trees

# Trees that nltk does not read, or reads differently.
NO_NLTK = {"neither", "no_gold", "no_parse", "forest", "no_break_space", "empty_word"}


@pytest.mark.parametrize("name", sorted(CASES.keys() - NO_NLTK))
def test_nltk_trees_score_as_their_strings(name):
    parameters, gold, predicted, expected = CASES[name]
    assert row(Tree.fromstring(gold), Tree.fromstring(predicted), parameters) == expected


def test_a_tree_may_span_several_lines():
    text = Tree.fromstring(DOG).pformat(margin=5)
    assert len(text.splitlines()) > 3
    assert row(text, DOG) == CASES["equal"][-1]


def test_a_tree_without_words_is_a_skip_sentence():
    # EVALB reads its string, "(S )", as a tag with an empty word.
    assert row(DOG, Tree("S", [])) == (2, 0, 3, 0, 0, 0, 0)
    assert row(DOG, str(Tree("S", []))) == (1, 0, 3, 0, 0, 0, 0)


def test_words_of_nltk_trees_may_contain_brackets():
    tree = Tree("S", [Tree("-LRB-", ["("]), Tree("X", ["a b"])])
    assert row(tree, tree) == (0, 1, 1, 1, 0, 2, 2)


def test_trees_of_5000_levels_are_compared():
    depth = 5000
    tree = Tree("X", ["a"])
    for _ in range(depth):
        tree = Tree("A", [tree])
    text = "(A " * depth + "(X a)" + ")" * depth
    assert row(tree, text) == (0, depth, depth, depth, 0, 1, 1)


@pytest.mark.parametrize(
    "gold, predicted, message",
    [
        ([], [], r"`gold` must hold at least one tree\. Received: gold=\[\]"),
        ([DOG], [DOG, DOG], "`predicted` must hold one tree .* 1 gold and 2 predicted trees"),
        (
            [DOG],
            ["(S (X a)"],
            r"`predicted\[0\]`: 1 brackets are not closed\. .*'\(S \(X a\)'",
        ),
        ([DOG, "(X a))"], [DOG, DOG], r"`gold\[1\]`: a closing bracket has no opening bracket\."),
        ([DOG], ["(S a dog)"], r"`predicted\[0\]`: expected a bracket, not 'a'"),
        ([DOG], ["(S (NN dog ))"], "expected a bracket, not 'dog'"),
        ([DOG], ["the dog"], "expected a bracket, not 'the'"),
        ([DOG], [Tree("S", ["a", "b"])], r"`predicted\[0\]`: the word 'a' is not alone"),
        ([DOG], [Tree("S", [None, None])], "the word None is not alone"),
        (
            [DOG],
            [None],
            r"`predicted\[0\]`: Expected an nltk Tree or a .*, not NoneType",
        ),
        ([DOG], ["(" * 99], "Received: '" + r"\(" * 60 + "'$"),
    ],
)
def test_malformed_trees_are_errors_of_one_line(gold, predicted, message):
    with pytest.raises(ValueError, match=message) as error:
        evaluate_trees(gold, predicted)
    assert "\n" not in str(error.value)


# Files


def test_two_files_give_the_summary_of_their_trees(tmp_path):
    for name, trees in zip(("gold", "predicted"), zip(*TREES)):
        (tmp_path / name).write_text("\n".join(trees) + "\n")
    assert evaluate_files(tmp_path / "gold", tmp_path / "predicted") == summary_of()


@pytest.mark.parametrize(
    "content",
    [
        b"(S (X caf\xe9))",  # Latin-1, and no newline at the end
        b"(S (X caf\xe9))\r\n",
        b"\xef\xbb\xbf(S (X caf\xe9))\n",  # with a byte order mark
    ],
)
def test_bytes_that_are_not_utf8_are_compared(tmp_path, content):
    (tmp_path / "gold").write_bytes(b"(S (X caf\xe9))\n")
    (tmp_path / "predicted").write_bytes(content)
    assert evaluate_files(tmp_path / "gold", tmp_path / "predicted").recall == 100


def test_only_a_newline_ends_a_line(tmp_path):
    (tmp_path / "gold").write_bytes("(S (X a\u2028b) (X c\x85d)\r(X e))\n".encode())
    assert evaluate_files(tmp_path / "gold", tmp_path / "gold").words == 3
