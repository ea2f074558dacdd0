"""Write the trees of the GENIA treebank in CRAFT's form, as gold trees of other abstracts.

GENIA's 1,999 abstracts (Tateisi et al., 2005; annotations CC BY 3.0, © GENIA Project) follow the
Penn Treebank. CRAFT also follows the guidelines of biomedical treebanks (Warner et al., 2004). So
the two treebanks differ in words and labels. This script changes what rules can change; training on
CRAFT's own trees afterwards adapts to the rest.
"""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

from nltk import Tree

import keras_transformer as kt
from keras_transformer.command_line import run
from keras_transformer.reserved_ids import UNKNOWN_ID

TAGS = {
    **{"PERIOD": ".", "COMMA": ",", "COLON": ":", "LRB": "-LRB-", "RRB": "-RRB-"},
    **{"LQT": "``", "RQT": "''", "PRPP": "PRP$", "WPP": "WP$"},
}
# Tag of a word -> label of the constituent of its parts before a noun.
MODIFIERS = {
    **dict.fromkeys(("NN", "NNS", "NNP", "NNPS", "CD"), "NML"),
    **dict.fromkeys(("JJ", "JJR", "JJS", "VBN", "VBG"), "ADJP"),
}
NOUNS = {"NN", "NNS", "NNP", "NNPS"}
# The tag of a part before the tagger predicts it.
UNKNOWN = "XX"


@dataclass(kw_only=True)
class Options:
    data_dir: Path
    """Folder of the treebank's XML files."""
    model: str
    """A parser of CRAFT with a tagger, which tags the parts of words that only CRAFT splits. Trees
    with unknown labels are left out."""
    max_words: int = 120
    """Longer sentences are left out."""


def main(options):
    parser = kt.ConstituencyParser.from_preset(options.model)
    files = sorted(options.data_dir.glob("*.xml"))
    if not files:
        raise kt.UserError(f"There is no XML file in {options.data_dir}.")
    trees = [tree for path in files for tree in trees_of(path)]
    trees = [tree for tree in trees if len(tree.leaves()) <= options.max_words]
    for tree, tags in zip(trees, parser.tag(tree.leaves() for tree in trees), strict=True):
        for leaf, tag in zip(tree.subtrees(lambda x: x.height() == 2), tags, strict=True):
            if leaf.label() == UNKNOWN:
                leaf.set_label(tag)
        if UNKNOWN_ID not in parser.output_ids(tree):
            print(f"( {kt.parsing.to_bracketed(tree)} )")


def trees_of(path):
    """Yield the trees of an article, except single leaves."""
    for sentence in ET.parse(path).iter("sentence"):
        if parts := parts_of(sentence):
            top, *marks = parts
            if top.height() == 2:
                continue
            top.extend(marks)  # In CRAFT the full stop belongs to the sentence.
            yield top


def parts_of(element):
    """Return the constituents and leaves that are children of an element, without traces."""
    children = [x for x in element if x.tag == "tok" or "null" not in x.attrib]
    parts = [(child, part) for child in children for part in [part_of(child)] if part]
    found = []
    for i, (child, part) in enumerate(parts):
        modifies_noun = any(x.get("cat") in NOUNS for x, _ in parts[i + 1 :])
        if child.tag == "cons":
            if modifies_noun and element.get("cat") == part.label() == "NP":
                part.set_label("NML")
            found.append(part)
        else:
            found += word_parts(child, part, len(parts) == 1, modifies_noun)
    return found


def word_parts(word, leaves, is_only, modifies_noun):
    """Return the constituent of a word's leaves in a list, or the leaves if they need none."""
    label = MODIFIERS.get(word.get("cat"))
    if len(leaves) > 1 and not is_only and (modifies_noun or label == "ADJP"):
        return [Tree(label or "NML", leaves)]
    return leaves


def part_of(element):
    """Return a constituent, the list of the leaves of a word in CRAFT's words, or None if empty."""
    if element.tag == "cons":
        parts = parts_of(element)
        if element.get("cat") == "PP" and parts and parts[0].label() == "TO":
            parts[0].set_label("IN")
        return Tree(element.get("cat"), parts) if parts else None
    words = kt.parsing.tokenize_words("".join(element.itertext()).strip(), "craft")
    tag = TAGS.get(element.get("cat"), element.get("cat"))
    return [Tree(tag if len(words) == 1 else UNKNOWN, [word]) for word in words]


if __name__ == "__main__":
    run(main, Options)
