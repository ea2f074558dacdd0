"""Reading, writing and cleaning trees in brackets."""

import gzip

import pytest
from nltk import Tree

from keras_transformer.parsing.brackets import (
    clean_label,
    clean_tree,
    escape,
    parse_trees,
    read_trees,
    to_bracketed,
    unescape,
)

pytestmark = pytest.mark.once

DOG = "(S (NP (DT The) (NN dog)) (VP (VBZ runs)))"


def read(tmp_path, text: str | bytes) -> list[Tree]:
    path = tmp_path / "trees.mrg"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_trees(path))


def error_of(tmp_path, text: str | bytes) -> str:
    with pytest.raises(ValueError) as error:
        read(tmp_path, text)
    message = str(error.value)
    assert str(tmp_path / "trees.mrg") in message and "\n" not in message
    return message


def test_trees_are_read_from_one_line_or_several(tmp_path):
    many_lines = "\n(S\n  (NP (DT The)\n(NN\n dog) )\n\n  (VP\t(VBZ runs) ))"
    dog = Tree("S", [Tree("NP", [Tree("DT", ["The"]), Tree("NN", ["dog"])]),
                     Tree("VP", [Tree("VBZ", ["runs"])])])  # fmt: skip
    assert read(tmp_path, DOG) == [dog]
    assert read(tmp_path, f"{DOG}\n{many_lines}\n{DOG}{DOG}(UH Yes)\n") == [dog] * 4 + [
        Tree("UH", ["Yes"])
    ]


def test_reading_keeps_outer_brackets(tmp_path):
    trees = read(tmp_path, f"( {DOG} )\n({DOG})\n(\n {DOG} (. .))\n(TOP {DOG})\n( S (NN a))")
    assert [tree.label() for tree in trees] == ["", "", "", "TOP", "S"]
    assert [len(tree) for tree in trees] == [1, 1, 2, 1, 1]


def test_reading_changes_neither_tags_nor_words(tmp_path):
    text = "(NP-SBJ=2 (-LRB- -LRB-) (CD 1\\/2) (-NONE- *T*-1) (-RRB- -RCB-) ('' '') (NN Ähre))"
    (tree,) = read(tmp_path, text)
    assert to_bracketed(tree) == text


def test_a_word_may_contain_a_space_that_is_not_ascii(tmp_path):
    (tree,) = read(tmp_path, "(NP (NN a\u200ab) (NN \u00a0))")
    assert tree.leaves() == ["a\u200ab", "\u00a0"]


def test_files_with_byte_order_mark_carriage_returns_or_gzip_are_read(tmp_path):
    assert len(read(tmp_path, b"\xef\xbb\xbf" + f"{DOG}\r\n{DOG}\r\n".encode())) == 2
    path = tmp_path / "trees.gz"
    path.write_bytes(gzip.compress(DOG.encode()))
    assert [to_bracketed(tree) for tree in read_trees(path)] == [DOG]


def test_trees_are_streamed():
    lines = iter([DOG, DOG, ")"])
    trees = parse_trees(lines)
    next(trees)
    assert next(lines) == DOG


@pytest.mark.parametrize(
    "text, parts",
    [
        (f"{DOG}\n{DOG})\n", ["line 2:", "')' without its '('", DOG + ")'"]),
        (f"{DOG}\n(S (NP (DT The)\n (NN dog)\n", ["line 2:", "not closed", "'(S (NP (DT The)'"]),
        (f"( {DOG}\n( {DOG} )\n", ["line 2 (the tree begins on line 1)", "is a ')' missing?"]),
        (f"{DOG}\nThe dog\n", ["line 2:", "text outside the trees", "'The dog'"]),
        (f"{DOG} dog\n", ["line 1:", "text outside the trees"]),
        (f"{DOG}\n()\n", ["line 2:", "an empty bracket: ()"]),
        ("(S (NP )\n(VP (VBZ runs)))", ["line 1:", "an empty bracket: (NP)"]),
        ("(S\n(NP The (NN dog)))", ["line 2 (the tree", "'The' has no tag of its own"]),
        ("(S\n(NP (DT The) dog))", ["line 2 (the tree", "'dog' has no tag of its own"]),
        ("(NN the dog)", ["line 1:", "'the' has no tag of its own"]),
        ("", ["is empty", "Penn-style"]),
        (" \n\n", ["contains no tree", "Penn-style"]),
        (f"{DOG}\n".encode() + b"(NN \xff)", ["line 2: cannot decode byte 0xff as UTF-8"]),
    ],
)
def test_errors_name_the_line_of_damaged_brackets(tmp_path, text, parts):
    message = error_of(tmp_path, text)
    for part in parts:
        assert part in message


def test_errors_show_at_most_60_characters(tmp_path):
    line = "(S " + "(NN dog) " * 100
    assert error_of(tmp_path, line).endswith(f"Found: {line[:60]!r}")


def test_a_file_cut_anywhere_in_its_last_tree_is_an_error(tmp_path):
    text = f"{DOG}\n{DOG}"
    for end in range(len(DOG) + 2, len(text)):
        error_of(tmp_path, text[:end])


def test_error_names_a_missing_file(tmp_path):
    with pytest.raises(ValueError, match=r"Cannot read the file .*nothing\.mrg: it does not exist"):
        next(read_trees(tmp_path / "nothing.mrg"))


# Writing


def test_written_trees_are_one_line_and_can_be_read():
    trees = [DOG, "(UH Yes)", f"( {DOG} (. .))", f"(TOP {DOG} {DOG})"]
    assert [to_bracketed(tree) for tree in parse_trees(trees)] == trees


@pytest.mark.parametrize(
    "tree, part",
    [
        (Tree("NN", ["f(x"]), "word='f(x'"),
        (Tree("NN", ["a b"]), "word='a b'"),
        (Tree("NN", [""]), "word=''"),
        (Tree("N)", ["a"]), "label='N)'"),
        (Tree("", ["a"]), "label=''"),
        (Tree("S", [Tree("", [Tree("NN", ["a"])])]), "label=''"),
        (Tree("S", ["a", "b"]), "'a'. Expected (TAG word)"),
        (Tree("S", [Tree("NN", ["a"]), "b"]), "'b'. Expected (TAG word)"),
        (Tree("S", [Tree("NP", [])]), "is empty: (NP )"),
    ],
)
def test_labels_and_words_that_brackets_cannot_contain_are_errors(tree, part):
    with pytest.raises(ValueError) as error:
        to_bracketed(tree)
    assert part in str(error.value)


def test_words_and_tags_of_web_text_are_read_and_written_without_changes():
    for line in (
        r"(TOP (X (NFP \\) (NFP //)))",
        '(TOP (FRAG (NFP :--RRB-) (-LRB- [) (ADD a@b.com) (HYPH -) (`` ")))',
        "(TOP (NML (AFX pre) (GW to) (NN day) (XX %) (. !!!) (NFP >:-LRB-)))",
    ):
        (tree,) = parse_trees([line])
        assert to_bracketed(tree) == line


def test_brackets_in_words_are_escaped_and_unescaped():
    assert [escape(word) for word in ("(", "f(x)", "[", "a/b")] == [
        "-LRB-",
        "f-LRB-x-RRB-",
        "[",
        "a/b",
    ]
    codes = ["-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-", "1\\/2", "\\*", "f-LRB-x-RRB-"]
    assert [unescape(word) for word in codes] == [*"()[]{}", "1/2", "*", "f(x)"]


def test_deep_trees_are_read_and_written():
    line = "(NP " * 20_000 + "(NN dog)" + ")" * 20_000
    (tree,) = parse_trees([line])
    assert to_bracketed(tree) == line


# Cleaning


def clean(text: str) -> str | None:
    (tree,) = parse_trees([text])
    cleaned = clean_tree(tree)
    assert to_bracketed(tree) == text  # The tree that was given is as it was.
    return None if cleaned is None else to_bracketed(cleaned)


@pytest.mark.parametrize(
    "label, bare",
    [
        ("NP", "NP"),
        ("NP-SBJ-1", "NP"),
        ("NP=2", "NP"),
        ("NP-SBJ=1-3", "NP"),
        ("ADVP|PRT", "ADVP"),
        ("NNS|NN", "NNS"),
        ("PRP$", "PRP$"),
        ("-NONE-", "-NONE-"),
        ("-LRB-", "-LRB-"),
        ("-RCB-", "-RCB-"),
        ("``", "``"),
        (":", ":"),
        ("-", "-"),
        ("=", "="),
        ("|", "|"),
        ("", ""),
    ],
)
def test_clean_label_removes_functions_and_indices(label, bare):
    assert clean_label(label) == bare


@pytest.mark.parametrize("outer", ["(", "(TOP", "(ROOT", "(S1", "(ROOT (TOP"])
def test_cleaning_removes_the_outer_bracket_of_a_single_tree(outer):
    ends = ")" * outer.count("(")
    assert clean(f"{outer} (S (NN a) (NN b)){ends}") == "(S (NN a) (NN b))"
    assert clean(f"{outer} (UH Yes){ends}") == "(UH Yes)"
    assert clean(f"{outer} (S (NN a)) (. .){ends}") == "(TOP (S (NN a)) (. .))"


def test_cleaning_removes_the_outer_bracket_of_one_child_and_a_trace():
    assert clean("( (S (NN a)) (NP (-NONE- *)))") == "(S (NN a))"


def test_cleaning_keeps_inner_constituents_labelled_like_outer_brackets():
    assert clean("(S (TOP (NN a)))") == "(S (TOP (NN a)))"


def test_cleaning_removes_traces_and_constituents_they_leave_empty():
    assert clean("(S (NP-SBJ (-NONE- *)) (VP (VB go) (SBAR (-NONE- 0) (S (-NONE- *T*-1)))))") == (
        "(S (VP (VB go)))"
    )
    assert clean("( (S (NP (-NONE- *)) (VP (-NONE- *?*))))") is None
    assert clean("(-NONE- *)") is None


def test_cleaning_keeps_words_that_look_like_traces():
    assert clean("(NP (SYM *) (-LRB- -NONE-) (CD 0))") == "(NP (SYM *) (-LRB- -NONE-) (CD 0))"


def test_cleaning_applies_all_rules_together():
    text = (
        "( (S-TPC-1 (NP-SBJ-2 (DT The) (-LRB- -LRB-) (NN|NNS dog) (-RRB- -RRB-)) "
        "(VP=3 (VBZ runs) (ADVP|PRT (RB off)) (NP-2 (-NONE- *T*-1)))))"
    )
    assert clean(text) == (
        "(S (NP (DT The) (-LRB- -LRB-) (NN dog) (-RRB- -RRB-)) (VP (VBZ runs) (ADVP (RB off))))"
    )


def test_cleaning_keeps_unary_chains_of_any_depth():
    labels = ["A", "B", "B"] * 5_000
    text = "".join(f"({label} " for label in labels) + "(NN dog)" + ")" * len(labels)
    assert clean(text) == text
