"""SuPar's CRF constituency parser, run by a Python with `pip install supar==1.1.4`.

python supar_peer.py train TRAIN DEV MODEL EPOCHS [OPTIONS]
    Train on files of trees in brackets, one per line, and write a model file. OPTIONS is JSON.
python supar_peer.py parse MODEL THREADS
    Read lines of JSON, a list of sentences each, and print a line when they are parsed.
python supar_peer.py trees MODEL THREADS
    Read lines of JSON, a sentence with its tags each, and print its tree.
"""

import functools
import itertools
import json
import sys

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

    text = {"train": train_trees, "dev": dev_trees, "test": dev_trees}
    features = {"encoder": "lstm", "feat": ["char"], "embed": None, "unk": "unk"}
    options = {**_TRAINING, **features, **text, **json.loads(options)}
    parser = CRFConstituencyParser.build(path, build=True, **options)
    parser.train(epochs=int(epochs), **options)


def parse(path, threads):
    """Parse the sentences of each line, and report when they are done."""
    parse = load(path, threads)
    for line in sys.stdin:
        print(f"\nparsed {len(parse(json.loads(line)))}", flush=True)


def trees(path, threads):
    """Print the tree of each line. Sentences with several trees are skipped."""
    parse = load(path, threads)
    while lines := [*itertools.islice(sys.stdin, 2000)]:
        for tree in parse(map(json.loads, lines)):
            if len(tree) == 1:
                print(" ".join(str(tree).split()))


def load(path, threads):
    """Return a function from sentences, lists of pairs (word, tag), to their trees."""
    from supar import CRFConstituencyParser

    torch.set_num_threads(int(threads))
    parser = CRFConstituencyParser.load(path)

    def parse(sentences):
        sentences = [[tuple(word) for word in sentence] for sentence in sentences]
        return [*parser.predict(sentences, verbose=False).trees] if sentences else []

    return parse


if __name__ == "__main__":
    {"train": train, "parse": parse, "trees": trees}[sys.argv[1]](*sys.argv[2:])
