"""A translator that reads lines of JSON, a list of sentences each, and prints their translations.

python marian_toolkit_peer.py ours FOLDER
python marian_toolkit_peer.py marian FOLDER BATCH_SIZE THREADS GEMM_TYPE
"""

import json
import sys


def ours(folder):
    """Return the translator of a preset."""
    import keras_transformer as kt

    translator = kt.Translator.from_preset(folder)
    return lambda lines: translator(lines, split=None)


def marian(folder, batch_size, threads, gemm):
    """Return Marian's translator, on CPU cores (`pip install pymarian`)."""
    import pymarian

    translator = pymarian.Translator(
        f"-c {folder}/decoder.yml --cpu-threads {threads} --mini-batch {batch_size} "
        f"--maxi-batch 100 --maxi-batch-sort src --gemm-type {gemm} --quiet"
    )
    return translator.translate


if __name__ == "__main__":
    translate = {"ours": ours, "marian": marian}[sys.argv[1]](*sys.argv[2:])
    for line in sys.stdin:
        print(json.dumps(translate(json.loads(line))), flush=True)
