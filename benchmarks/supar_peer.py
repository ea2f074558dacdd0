"""SuPar's CRF constituency parser, run by a Python with `pip install supar==1.1.4`.

python supar_peer.py train TRAIN DEV MODEL EPOCHS [OPTIONS]
    Train on files of trees in brackets, one per line, and write a model file. OPTIONS is JSON.
python supar_peer.py parse MODEL THREADS
    Read lines of JSON, a list of sentences each, and print a line when they are parsed.
python supar_peer.py trees MODEL THREADS [all]
    Read lines of JSON, a sentence with its tags each, and print its tree. Sentences with several
    trees are left out, or with `all` printed as one tree. The time goes to standard error.
"""

import functools
import itertools
import json
import sys
import tempfile
import time
from pathlib import Path

import torch

# SuPar's files hold more than tensors, and it relies on PyTorch's earlier default.
torch.load = functools.partial(torch.load, weights_only=False)


# The defaults of SuPar's command line: Adam (Kingma and Ba, 2015) with an annealed rate.
_TRAINING = {
    **{"lr": 2e-3, "mu": 0.9, "nu": 0.9, "eps": 1e-12, "weight_decay": 0, "decay": 0.75},
    **{"decay_steps": 5000, "batch_size": 5000, "checkpoint": False, "verbose": False},
}


def train(train_trees, dev_trees, path, epochs, options="{}"):
    """Train a BiLSTM over words and characters, without pretrained vectors."""
    from supar import CRFConstituencyParser

    train_trees, dev_trees = map(readable, (train_trees, dev_trees))
    text = {"train": train_trees, "dev": dev_trees, "test": dev_trees}
    features = {"encoder": "lstm", "feat": ["char"], "embed": None, "unk": "unk"}
    options = {**_TRAINING, **features, **text, **json.loads(options)}
    parser = CRFConstituencyParser.build(path, build=True, **options)
    parser.train(epochs=int(epochs), **options)


def readable(path):
    """Return a copy of a file of trees that SuPar can read.

    nltk takes a backslash before a bracket as an escape: it cannot read a word that ends in one.
    """
    copy = Path(tempfile.mkdtemp(), "trees.pid")
    copy.write_text(Path(path).read_text("utf-8").replace("\\)", "/)"), "utf-8")
    return str(copy)


def parse(path, threads):
    """Parse the sentences of each line, and report when they are done."""
    parse = load(path, threads)
    for line in sys.stdin:
        print(f"\nparsed {len(parse(json.loads(line)))}", flush=True)


def trees(path, threads, which="one"):
    """Print the tree of each line. Sentences with several trees are left out, or become one."""
    parse = load(path, threads)
    num, seconds = 0, 0.0
    while lines := [*itertools.islice(sys.stdin, 2000)]:
        sentences = [json.loads(line) for line in lines]
        start = time.time()
        parsed = parse(sentences)
        seconds += time.time() - start
        num += len(lines)
        for sentence, tree in zip(sentences, parsed):
            for i, (word, _) in enumerate(sentence):
                tree[tree.leaf_treeposition(i)] = word
            if len(tree) == 1 or which == "all":
                print(" ".join(str(tree).split()))
    print(f"{num} sentences, {num / seconds:.1f} per second", file=sys.stderr)


def load(path, threads):
    """Return a function from sentences, lists of pairs (word, tag), to their trees."""
    from supar import CRFConstituencyParser

    torch.set_num_threads(int(threads))
    parser = CRFConstituencyParser.load(path)

    def parse(sentences):
        # nltk takes a backslash before a bracket as an escape.
        sentences = [[(word.replace("\\", "/"), tag) for word, tag in x] for x in sentences]
        return [*parser.predict(sentences, verbose=False).trees] if sentences else []

    return parse


if __name__ == "__main__":
    {"train": train, "parse": parse, "trees": trees}[sys.argv[1]](*sys.argv[2:])
