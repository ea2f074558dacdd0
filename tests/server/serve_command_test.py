"""The command `serve`: its address, its end, and its errors."""

import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
from keras_transformer.commands.serve import ServeOptions, _address, serve
from keras_transformer.translation.translator import Translator
from tests.helpers import error_of, wait_for
from tests.server.running import get, post, translation
from tests.small_corpus import new_model, tokenizer


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    path = tmp_path_factory.mktemp("server") / "preset"
    languages = {"source": "en", "target": "de"}
    Translator(new_model(), tokenizer(), languages, extra_length=20).save_to_preset(path)
    return path


@pytest.mark.once
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_sigterm_finishes_running_requests_and_exits_with_0(preset):
    command = [sys.executable, "-m", "keras_transformer", "serve", preset, "--port", "0"]
    with (
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process,
        ThreadPoolExecutor(1) as clients,
    ):
        address = process.stderr.readline()
        assert "for this machine only" in address
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)", address)[1])
        lines = ["the dog sees a man"] * 60
        answer = clients.submit(translation, port, lines)
        wait_for(lambda: get(port, "/health")["waiting"])
        assert not answer.done()
        process.send_signal(signal.SIGTERM)
        assert len(answer.result()["translatedText"]) == len(lines)
        assert process.wait(60) == 0 and process.stderr.read() == ""


@pytest.mark.once
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_sigterm_does_not_wait_for_unfinished_requests(preset):
    command = [sys.executable, "-m", "keras_transformer", "serve", preset, "--port", "0"]
    with subprocess.Popen(
        [*command, "--shutdown-seconds", "2", "--max-waiting", "1"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        port = int(re.search(r"http://127\.0\.0\.1:(\d+)", process.stderr.readline())[1])
        for is_last in (False, True):
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"POST /translate HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n{")
                wait_for(lambda: get(port, "/health")["waiting"])
                status, answer, headers = post(port, "/translate", {})
                assert (status, headers["Retry-After"]) == (503, "2") and "error" in answer
                if is_last:
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(10) == 0
                    assert b" 503 " in client.recv(100)
            if not is_last:
                wait_for(lambda: not get(port, "/health")["waiting"])
        # Neither the client that went away nor the one that was too slow is a defect.
        assert "Traceback" not in process.stderr.read()


@pytest.mark.once
def test_a_port_in_use_and_a_wrong_address_are_one_line(tmp_path):
    # Both fail before a model is looked for.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        error = error_of(serve, ServeOptions(model="none", port=port))
        assert f"`port={port}`: address already in use" in error
    assert "`host=192.0.2.1`" in error_of(serve, ServeOptions(model="none", host="192.0.2.1"))
    for host in ("a..b", f"{'a' * 64}.org", "\udcff"):
        assert "Cannot listen on" in error_of(serve, ServeOptions(model="none", host=host))
    assert "`port=70000`" in error_of(serve, ServeOptions(model="none", port=70_000))
    assert "max_sentences=0" in error_of(serve, ServeOptions(model="none", max_sentences=0))


@pytest.mark.once
def test_the_printed_address_names_who_can_reach_the_server():
    assert "http://127.0.0.1:5000, for this machine only" in _address("127.0.0.1", 5000)
    assert "http://[::1]:5000, for this machine only" in _address("::1", 5000)
    assert "for everybody who can reach this machine" in _address("0.0.0.0", 5000)
