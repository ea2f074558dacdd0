"""Send requests of mixed sizes to `keras-transformer serve`, from one client and from several.

Each answer is compared with that of `Translator` for all sentences at once.
"""

import http.client
import itertools
import json
import random
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from keras_transformer.command_line import run


@dataclass(kw_only=True)
class Options:
    model: str = "saved_models/multi30k_en_de"
    """Model to serve."""
    text: Path
    """File of sentences to translate, one per line."""
    clients: int = 16
    """Number of clients that send requests at the same time."""
    requests: int = 5_000
    """Number of their requests. One client alone sends a tenth."""
    most_sentences: int = 8
    """Sentences of the largest request. Three of four requests have one sentence."""


def main(options):
    lines = options.text.read_text("utf-8").splitlines()
    random_numbers = random.Random(0)
    sizes = (1, 1, 1, *range(2, options.most_sentences + 1))
    weights = [3, 3, 3, *[3 / (options.most_sentences - 1)] * (options.most_sentences - 1)]
    requests = [
        random_numbers.choices(lines, k=random_numbers.choices(sizes, weights)[0])
        for _ in range(options.requests)
    ]
    command = [sys.executable, "-m", "keras_transformer", "serve"]
    start = time.perf_counter()
    with subprocess.Popen(
        [*command, options.model, "--port", "0"], stderr=subprocess.PIPE, text=True
    ) as server:
        found = None
        while found is None:
            found = re.search(r"http://([\d.]+):(\d+)", server.stderr.readline())
        seconds = time.perf_counter() - start
        print(f"start: {seconds:.1f} s, {resident(server.pid)} MiB", flush=True)
        send(found, server.pid, requests[:100], options.clients)  # programs are compiled
        alone, _ = send(found, server.pid, requests[: len(requests) // 10], 1)
        together, answers = send(found, server.pid, requests, options.clients)
        print(f"{options.clients} clients get {together / alone:.1f} times one client's throughput")
        server.terminate()
        server.stderr.read()
    print(f"status after SIGTERM: {server.returncode}")

    from keras_transformer.translation.translator import Translator

    distinct = sorted({*itertools.chain.from_iterable(requests)})
    expected = dict(zip(distinct, Translator.from_preset(options.model)(distinct)))
    wrong = sum(
        answer != expected[sentence]
        for sentences, translations in zip(requests, answers)
        for sentence, answer in zip(sentences, translations, strict=True)
    )
    total = sum(map(len, requests))
    print(f"{total:,} sentences, of which {wrong} are translated otherwise than all at once")


def send(address, process, requests, clients):
    """Send requests, and return sentences per second and the answers."""
    answers, seconds = [None] * len(requests), [0.0] * len(requests)
    numbers, failures = iter(range(len(requests))), []
    lock, memory = threading.Lock(), []

    def client():
        connection = http.client.HTTPConnection(*address.groups(), timeout=600)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            body = json.dumps({"q": requests[number], "source": "en", "target": "de"})
            start = time.perf_counter()
            try:
                connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                answer = json.loads(response.read())
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                failures.append(repr(error))
                continue
            seconds[number] = time.perf_counter() - start
            if response.status != 200:
                failures.append(answer)
                continue
            answers[number] = answer["translatedText"]
            if number % 1000 == 0:
                memory.append(resident(process))

    threads = [threading.Thread(target=client) for _ in range(clients)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    duration = time.perf_counter() - start
    total = sum(map(len, requests))
    seconds.sort()
    print(
        f"{clients} clients, {len(requests):,} requests, {len(failures)} failures: "
        f"{total / duration:,.0f} sentences/s, {len(requests) / duration:,.0f} requests/s, "
        f"median {1000 * seconds[len(seconds) // 2]:.0f} ms, 99 % within "
        f"{1000 * seconds[len(seconds) * 99 // 100]:.0f} ms; memory {memory} MiB",
        flush=True,
    )
    if failures:
        sys.exit(f"first failure: {failures[0]}")
    return total / duration, answers


def resident(process):
    """Return the resident memory of a process in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024


if __name__ == "__main__":
    run(main, Options)
