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


def train(train_trees, dev_trees, path, epochs):
    """SuPar's defaults: a BiLSTM over words and characters, without pretrained vectors."""
    from supar import CRFConstituencyParser

    parser = CRFConstituencyParser.build(path, train_trees, feat="char", embed=None, build=True)
    parser.train(
        train=train_trees,
        dev=dev_trees,
        test=dev_trees,
        epochs=int(epochs),
        batch_size=5000,
        lr=2e-3,
        verbose=False,
    )


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
