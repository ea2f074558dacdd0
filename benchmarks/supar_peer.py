"""SuPar's CRF constituency parser, run by a Python that has it: `pip install supar==1.1.4`.

python supar_peer.py train TRAIN DEV MODEL EPOCHS [OPTIONS]
                                            trees in brackets, one a line; a model file; other
                                            options than its own, as JSON
python supar_peer.py parse MODEL THREADS    lines of JSON on standard input, a list of sentences; a
                                            line when they are parsed
python supar_peer.py trees MODEL THREADS    lines of JSON, a sentence with its tags; its tree
"""

import functools
import itertools
import json
import sys

import torch

# It reads its own files, which hold more than tensors; PyTorch's default was another then.
torch.load = functools.partial(torch.load, weights_only=False)


# What its command line has where nothing else is said: Adam (Kingma and Ba, 2015), annealed.
_TRAINING = {
    **{"lr": 2e-3, "mu": 0.9, "nu": 0.9, "eps": 1e-12, "weight_decay": 0, "decay": 0.75},
    **{"decay_steps": 5000, "batch_size": 5000, "checkpoint": False, "verbose": False},
}


def train(train_trees, dev_trees, path, epochs, options="{}"):
    """A BiLSTM over words and characters, without pretrained vectors."""
    from supar import CRFConstituencyParser

    text = {"train": train_trees, "dev": dev_trees, "test": dev_trees}
    features = {"encoder": "lstm", "feat": ["char"], "embed": None, "unk": "unk"}
    options = {**_TRAINING, **features, **text, **json.loads(options)}
    parser = CRFConstituencyParser.build(path, build=True, **options)
    parser.train(epochs=int(epochs), **options)


def parse(path, threads):
    """Parse what each line asks for, and tell when it is done."""
    parse = load(path, threads)
    for line in sys.stdin:
        print(f"\nparsed {len(parse(json.loads(line)))}", flush=True)


def trees(path, threads):
    """Print the tree of each line, on one. A sentence that has several in a row has none."""
    parse = load(path, threads)
    while lines := [*itertools.islice(sys.stdin, 2000)]:
        for tree in parse(map(json.loads, lines)):
            if len(tree) == 1:
                print(" ".join(str(tree).split()))


def load(path, threads):
    """A function of sentences, lists of pairs (word, tag), that returns their trees."""
    from supar import CRFConstituencyParser

    torch.set_num_threads(int(threads))
    parser = CRFConstituencyParser.load(path)

    def parse(sentences):
        sentences = [[tuple(word) for word in sentence] for sentence in sentences]
        return [*parser.predict(sentences, verbose=False).trees] if sentences else []

    return parse


if __name__ == "__main__":
    {"train": train, "parse": parse, "trees": trees}[sys.argv[1]](*sys.argv[2:])
