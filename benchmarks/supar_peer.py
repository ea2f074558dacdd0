"""SuPar's CRF constituency parser, run by a Python that has it: `pip install supar==1.1.4`.

python supar_peer.py train TRAIN DEV MODEL EPOCHS    trees in brackets, one a line; a model file
python supar_peer.py parse MODEL THREADS             lines of JSON on standard input, a list of
                                                     sentences; a line when they are parsed
"""

import functools
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


def train(train_trees, dev_trees, path, epochs):
    """A BiLSTM over words and characters, without pretrained vectors."""
    from supar import CRFConstituencyParser

    text = {"train": train_trees, "dev": dev_trees, "test": dev_trees}
    features = {"encoder": "lstm", "feat": ["char"], "embed": None, "unk": "unk"}
    parser = CRFConstituencyParser.build(path, build=True, **features, **text)
    parser.train(**text, epochs=int(epochs), **_TRAINING)


def parse(path, threads):
    """Parse what each line asks for, and tell when it is done."""
    from supar import CRFConstituencyParser

    torch.set_num_threads(int(threads))
    parser = CRFConstituencyParser.load(path)
    for line in sys.stdin:
        sentences = [[tuple(word) for word in sentence] for sentence in json.loads(line)]
        trees = parser.predict(sentences, verbose=False).trees if sentences else []
        print(f"\nparsed {len(list(trees))}", flush=True)


if __name__ == "__main__":
    {"train": train, "parse": parse}[sys.argv[1]](*sys.argv[2:])
