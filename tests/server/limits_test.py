"""Limits of the server: what it admits, and how long one client keeps the others waiting."""

import asyncio
import http.client
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
from keras_transformer.errors import UserError
from keras_transformer.server import ServerOptions
from keras_transformer.server import application as application_module
from keras_transformer.server.scheduler import Admission, Busy, Scheduler
from tests.helpers import error_of, wait_for
from tests.server.running import copying_translator, get, post, running, translation
from tests.small_corpus import new_model

pytestmark = pytest.mark.once

GOOD = {"q": "a dog", "source": "en", "target": "de"}
LONG = "the dog sees a man\n" * 600  # several batches


def test_a_request_without_sentences_counts_as_a_request():
    admission = Admission(max_requests=2, max_bytes=100)
    with admission.request(), admission.request():
        assert admission.num_requests == 2
        with pytest.raises(Busy), admission.request():
            pass
    assert admission.num_requests == 0


def test_the_bytes_of_waiting_requests_are_bounded_and_given_back():
    admission = Admission(max_requests=9, max_bytes=100)
    with admission.request() as hold:
        hold(90)
        hold(90)  # A request alone may hold more.
        with pytest.raises(Busy), admission.request() as other:
            other(1)
    with admission.request() as hold, admission.request() as other:
        hold(60)
        other(40)
        with pytest.raises(Busy):
            other(1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_waiting": 0}, "max_waiting=0"),
        ({"body_seconds": 0}, "body_seconds=0"),
        ({"cors_origin": ("example.org",)}, "cors_origin='example.org'"),
        ({"cors_origin": ("https://example.org/",)}, "cors_origin='https://example.org/'"),
    ],
)
def test_an_option_out_of_its_range_is_named(options, words):
    assert words in error_of(ServerOptions(**options).validate)


def test_only_pages_of_named_origins_may_send_requests():
    def asked(port, method):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"Origin": "https://example.org", "Access-Control-Request-Method": "POST"}
        connection.request(method, "/translate" if method == "OPTIONS" else "/health", "", headers)
        response = connection.getresponse()
        return response.status, response.getheader("Access-Control-Allow-Origin")

    with running(copying_translator()) as port:
        assert asked(port, "OPTIONS") == (405, None) and asked(port, "GET") == (200, None)
    with running(copying_translator(), ServerOptions(cors_origin=("https://example.org",))) as port:
        assert asked(port, "OPTIONS") == asked(port, "GET") == (200, "https://example.org")
    with running(copying_translator(), ServerOptions(cors_origin=("https://other.org",))) as port:
        assert asked(port, "GET") == (200, None)


def test_parameters_of_the_body_override_the_query():
    with running(copying_translator()) as port:
        query = "/translate?q=a+cat&source=en&target=de"
        assert post(port, query, "", "text/plain")[1] == {"translatedText": "a cat"}
        assert post(port, query, {"q": "a dog"})[1] == {"translatedText": "a dog"}


def test_a_form_may_have_many_fields():
    with running(copying_translator()) as port:
        body = "&".join(["q=a+dog"] * 1_500) + "&source=en&target=de"
        answer = post(port, "/translate", body, "application/x-www-form-urlencoded")
    assert answer[:2] == (200, {"translatedText": ["a dog"] * 1_500})


def test_reading_a_body_has_a_time_limit():
    with running(copying_translator(), ServerOptions(body_seconds=1)) as port:
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
            assert b" 408 " in client.recv(1_000)
        assert translation(port, "a dog") == {"translatedText": "a dog"}


def test_a_short_request_comes_between_the_batches_of_a_long_one():
    translator = copying_translator(batch_tokens=256)
    search = translator.search
    with running(translator) as port, ThreadPoolExecutor(2) as clients:
        search.gate.clear()
        long = clients.submit(translation, port, LONG)
        assert search.begun.wait(60)
        short = clients.submit(translation, port, ["a red dog"] * 3)
        while get(port, "/health")["waiting"] < 2:
            time.sleep(0.01)
        time.sleep(0.2)  # until it waits for the model
        search.gate.set()
        assert short.result()["translatedText"] == ["a red dog"] * 3
        assert long.result()["translatedText"] == LONG
    assert len(search.batches) > 5 and search.batches.index(3) == 1


def test_a_failed_job_does_not_affect_others():
    translator = copying_translator()
    search = type(translator.search)
    call = search.__call__
    red = translator.source_ids("a red dog")

    class Failing(search):
        def __call__(self, model, token_ids, *arguments, **options):
            if any([*row[: len(red)]] == red for row in token_ids.tolist()):
                raise UserError("red")
            return call(self, model, token_ids, *arguments, **options)

    translator.search = Failing()
    translator.search.gate.set()

    async def requests():
        scheduler = Scheduler(9)
        texts = ["a dog", "a red dog", "a cat"]
        tasks = [scheduler.translate(translator, [text]) for text in texts]
        return await asyncio.gather(*tasks, return_exceptions=True)

    first, failed, last = asyncio.run(requests())
    assert [x.results[0][0][0] for x in (first, last)] == ["a dog", "a cat"]
    assert isinstance(failed, UserError)


def test_a_canceled_request_is_not_translated():
    translator = copying_translator()
    translator.search.gate.clear()

    async def requests():
        scheduler = Scheduler(9)
        first = asyncio.create_task(scheduler.translate(translator, ["a dog"]))
        await asyncio.to_thread(translator.search.begun.wait, 60)
        second = asyncio.create_task(scheduler.translate(translator, ["a cat"] * 2))
        await asyncio.sleep(0)
        second.cancel()
        translator.search.gate.set()
        await first
        await scheduler.translate(translator, ["a man"] * 3)

    asyncio.run(requests())
    assert translator.search.batches == [1, 3]


def connected(port, body, path="/translate"):
    """Send a request, and return its socket."""
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    body = json.dumps(body).encode()
    client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return client


def test_a_request_ends_when_its_client_goes_away():
    translator = copying_translator(batch_tokens=256)
    search = translator.search
    with running(translator) as port:
        search.gate.clear()
        long = connected(port, {**GOOD, "q": LONG})
        assert search.begun.wait(60)
        short = connected(port, {**GOOD, "q": ["a cat"] * 3})
        wait_for(lambda: get(port, "/health")["waiting"] == 2)
        time.sleep(0.2)  # until the short one waits for the model
        later = connected(port, {**GOOD, "q": ["a man"] * 5})
        wait_for(lambda: get(port, "/health")["waiting"] == 3)
        for client in (long, short, later):
            client.close()
        wait_for(lambda: get(port, "/health")["waiting"] == 0)
        search.gate.set()
        assert translation(port, "a dog")["translatedText"] == "a dog"
        # The batch of the long request that had begun, perhaps the short one, and the last one.
        assert len(search.batches) <= 3 and 5 not in search.batches


def test_a_short_request_does_not_wait_for_two_long_ones():
    translator = copying_translator(batch_tokens=256)
    translator.model = new_model()
    search = translator.search
    with running(translator) as port, ThreadPoolExecutor(3) as clients:
        search.gate.clear()
        long = [clients.submit(translation, port, LONG * 15) for _ in range(2)]
        assert search.begun.wait(60)
        wait_for(lambda: get(port, "/health")["waiting"] == 2)
        short = clients.submit(translation, port, "dog", warnings=True)
        wait_for(lambda: get(port, "/health")["waiting"] == 3)
        search.gate.set()
        assert short.result()["warnings"] == []
        assert not any(client.done() for client in long)


def test_warnings_of_a_long_request_do_not_keep_a_short_one_waiting(monkeypatch):
    begun, end = threading.Event(), threading.Event()

    def warnings(translator, answer, best):
        if len(best[0]) > 100:
            begun.set()
            assert end.wait(60)
        return [[] for _ in best]

    monkeypatch.setattr(application_module, "_warnings", warnings)
    with running(copying_translator(batch_tokens=256)) as port, ThreadPoolExecutor(2) as clients:
        long = clients.submit(translation, port, LONG, warnings=True)
        assert begun.wait(60)
        short = clients.submit(translation, port, "a dog", warnings=True)
        try:
            assert short.result(20)["warnings"] == []
        finally:
            end.set()
        assert long.result()["warnings"] == []


def test_an_explanation_requires_one_short_line():
    with running(copying_translator()) as port:
        for text in ("a dog\na cat", "a dog " * 100, ["a dog"]):
            status, answer, _ = post(port, "/explain", {**GOOD, "q": text})
            assert status == 400 and "one line of at most 500" in answer["error"]


@pytest.mark.parametrize("text", ["`", "'\u0301日", "<", "[", "&", "\n", "7", "abc de ", "%", "{"])
def test_the_time_for_html_does_not_depend_on_its_characters(text):
    options = ServerOptions(max_sentences=100_000)
    with running(copying_translator(), options) as port, ThreadPoolExecutor(1) as clients:
        times = []
        for page in ("the dog sees a man\n", text):
            q = page * (200_000 // len(page.encode()))
            body = json.dumps({**GOOD, "q": q}, ensure_ascii=False).encode()
            begin = time.monotonic()
            answer = clients.submit(post, port, "/translate", body)
            slowest = 0.0
            while not answer.done():
                start = time.monotonic()
                assert get(port, "/health")["status"] == "ok"
                slowest = max(slowest, time.monotonic() - start)
                time.sleep(0.02)
            assert answer.result()[0] in (200, 400)
            times.append(time.monotonic() - begin)
            assert slowest < 5  # of seconds: the event loop is free, on a busy machine too
    assert times[1] < 5 * times[0] + 2  # The search takes no time here.
