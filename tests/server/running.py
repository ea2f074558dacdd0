"""A server in a thread of the tests, and requests to it."""

import contextlib
import http.client
import json
import socket
import threading
import urllib.request
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import uvicorn

import keras_transformer as kt
from keras_transformer.server.application import application
from keras_transformer.translation.translator import Translator
from tests.small_corpus import tokenizer


@dataclass(frozen=True)
class Copy(kt.BeamSearch):
    """The first result is the source; the second is the source without its last token."""

    batches: list = field(default_factory=list)  # the numbers of rows that were searched
    gate: threading.Event = field(default_factory=threading.Event)  # a search waits for it
    begun: threading.Event = field(default_factory=threading.Event)

    def __call__(self, model, token_ids, num_results=1, constraints=(), **options):
        self.begun.set()
        assert self.gate.wait(60)
        self.batches.append(int((token_ids[:, 0] > 0).sum()))
        outputs = np.repeat(token_ids[:, None], num_results, axis=1)
        scores = np.full(outputs.shape[:2], -np.inf, "float32")
        scores[:, :2] = [-1.0, -2.0][:num_results]
        if num_results > 1:
            outputs[:, 1, 0] = 0
        return outputs, scores


def copying_translator(**options):
    """A translator without a model, whose translation of a text is the text."""
    search = Copy()
    search.gate.set()
    model = SimpleNamespace(config=SimpleNamespace(max_length=None))
    languages = {"source": "en", "target": "de"}
    return Translator(model, tokenizer(), languages, search=search, **options)


@contextlib.contextmanager
def running(translator, options=None):
    """Serve a translator, and return the port."""
    server = uvicorn.Server(
        uvicorn.Config(application(translator, options), log_level="warning", access_log=False)
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def post(port, path, body, kind="application/json"):
    """Send a request, and return status, answer and headers. A dict is sent as JSON."""
    body = json.dumps(body) if isinstance(body, dict) else body
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection):
        connection.request("POST", path, body, {"Content-Type": kind})
        response = connection.getresponse()
        return response.status, json.loads(response.read()), response.headers


def get(port, path):
    """Return the answer to a request without a body."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
        return json.loads(response.read())


def translation(port, q, **others):
    """Return the answer to a request for a translation, which must be 200."""
    status, answer, _ = post(port, "/translate", {"q": q, "source": "en", "target": "de", **others})
    assert status == 200, answer
    return answer
