"""The server's answers, with a translator that gives back its sources."""

import asyncio
import time
import urllib.error
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
from libretranslatepy import LibreTranslateAPI

from keras_transformer.server import ServerOptions, scheduler
from keras_transformer.server.directions import Directions
from keras_transformer.server.scheduler import Scheduler
from keras_transformer.translation import prepared_text
from tests.helpers import error_of
from tests.server.running import copying_translator, get, post, running, translation
from tests.small_corpus import WORDS, new_model, sentence_pairs

pytestmark = pytest.mark.once

FORM = "application/x-www-form-urlencoded"
LIMITS = ServerOptions(max_request_bytes=20_000, max_characters=9_000, max_sentences=60)


@pytest.fixture(scope="module")
def port():
    with running(copying_translator(max_source_length=50), LIMITS) as port:
        yield port


def test_a_client_of_libretranslate_works_unchanged(port):
    client = LibreTranslateAPI(f"http://127.0.0.1:{port}", api_key="ignored")
    assert client.translate("the dog and cat", "en", "de") == "the dog and cat"
    assert client.languages() == [
        {"code": "en", "name": "English", "targets": ["de"]},
        {"code": "de", "name": "German", "targets": []},
    ]
    first, *_ = client.detect("Das ist ein kleiner Hund, und er schläft nicht.")
    assert first["language"] == "de" and 50 < first["confidence"] <= 100
    with pytest.raises(urllib.error.HTTPError) as error:
        client.translate("the dog", "en", "fr")
    assert error.value.code == 400


def test_json_and_both_kinds_of_forms_have_the_same_answer(port):
    multipart = "".join(
        f'--x\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in {"q": "a dog", "source": "en", "target": "de"}.items()
    )
    answers = [
        post(port, "/translate", {"q": "a dog", "source": "en", "target": "de"}),
        post(port, "/translate", "q=a+dog&source=en&target=de", FORM),
        post(port, "/translate", f"{multipart}--x--\r\n", "multipart/form-data; boundary=x"),
    ]
    assert [answer[:2] for answer in answers] == [(200, {"translatedText": "a dog"})] * 3


def test_line_breaks_and_blank_lines_are_kept(port):
    text = "the dog\r\n\r\na cat\n  \nold man\n"
    assert translation(port, text) == {"translatedText": text}
    sentences = ["the dog", "a cat", "old man"]
    assert translation(port, text, sentences=True)["sentences"] == sentences
    assert translation(port, [text, ""], sentences=True)["sentences"] == [sentences, []]
    assert translation(port, [text, "", "house"]) == {"translatedText": [text, "", "house"]}
    assert translation(port, []) == {"translatedText": []}


def test_warnings_describe_findings_in_each_translation():
    translator = copying_translator()  # whose vocabulary lacks digits
    translator.model = new_model()
    with running(translator) as port:
        answer = translation(port, "the dog 1987", warnings=True)
        several = translation(port, ["a cat", "the dog 1987"], warnings="true")
        assert "warnings" not in translation(port, "the dog 1987")
    messages = ["Numbers of the source are missing: 1987.", "The vocabulary lacks: 1, 7, 8, 9."]
    assert answer["warnings"] == several["warnings"][1] == messages
    assert several["warnings"][0] == ["The translation equals the source."]


def test_alternatives_are_other_translations_of_the_whole_text(port):
    answer = translation(port, "the dog\na cat", alternatives=3)
    assert answer["translatedText"] == "the dog\na cat"
    texts = [answer["translatedText"], *answer["alternatives"]]
    assert len({*texts}) == 4 and all(text.count("\n") == 1 for text in texts)
    answer = translation(port, ["the dog", " "], alternatives=1)
    assert [len(others) for others in answer["alternatives"]] == [1, 0]


def test_html_is_kept(port, monkeypatch):
    monkeypatch.setattr(prepared_text, "word_links", lambda _, sources, *__: [()] * len(sources))
    text = "<p>the <b>dog</b> and cat</p><ul>\n<li>a house</li></ul>"
    assert translation(port, text, format="html") == {"translatedText": text}
    assert translation(port, [text, ""], format="html") == {"translatedText": [text, ""]}
    assert translation(port, "the dog", format="text") == {"translatedText": "the dog"}


def test_the_source_language_is_detected(port):
    answer = translation(port, "This is a small dog, and he sleeps.", source="auto")
    assert answer["detectedLanguage"]["language"] == "en"


GOOD = {"q": "a dog", "source": "en", "target": "de"}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("{", 400, "not valid JSON"),
        (b"\xff", 400, "not valid JSON"),
        ("[" * 9_000, 400, "not valid JSON"),
        ("[]", 400, "JSON object"),
        ({"source": "en", "target": "de"}, 400, "`q` is missing"),
        ({**GOOD, "q": 3}, 400, "Received: 3"),
        ({**GOOD, "q": ["a", None]}, 400, "list of strings"),
        ({**GOOD, "q": "\ud800"}, 400, "surrogate"),
        ({"q": "a", "target": "de"}, 400, "`source` is missing"),
        ({**GOOD, "source": ["en"]}, 400, "`source` must be a string"),
        ({**GOOD, "source": "es"}, 400, "`source` must be en. Received: source=es"),
        ({**GOOD, "source": "\ud800"}, 400, "`source` must be Unicode text"),
        ({**GOOD, "target": "\ud800"}, 400, "`target` must be Unicode text"),
        ({**GOOD, "format": {"a": "\ud800"}}, 400, "`format`"),
        ({**GOOD, "alternatives": "\ud800"}, 400, "`alternatives` must be Unicode text"),
        ({**GOOD, "q": "a" * 9_001}, 413, "9,000 characters. Received: 9,001"),
        ({**GOOD, "target": "fr\n"}, 400, "`target` must be de"),
        ({**GOOD, "format": 1}, 400, "`format`"),
        ({**GOOD, "alternatives": -1}, 400, "`alternatives`"),
        ({**GOOD, "warnings": "perhaps"}, 400, "`warnings`"),
        ({**GOOD, "alternatives": "many"}, 400, "`alternatives`"),
        ({**GOOD, "q": ["a dog", "dog" * 60]}, 400, "Text 2 has a sentence of more than 50 tokens"),
        ({**GOOD, "q": ["a dog"] * 61}, 413, "60 texts. Received: 61"),
        ({**GOOD, "q": [""] * 61}, 413, "60 texts. Received: 61"),
        ({**GOOD, "q": "a dog\n" * 61}, 413, "60 sentences. Received: 61"),
        ({**GOOD, "q": "a" * 10_000_000}, 413, "20,000 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 60 else "",
)
def test_bad_input_is_answered_with_one_line(port, body, status, words):
    found, answer, _ = post(port, "/translate", body)
    assert (found, list(answer)) == (status, ["error"])
    assert words in answer["error"] and "\n" not in answer["error"]


def test_damaged_forms_and_unexpected_files_are_refused(port):
    for body, kind in (
        ("x", "multipart/form-data"),
        ("--x\r\nContent", "multipart/form-data; boundary=x"),
        ('--x\r\nContent-Disposition: form-data; name="q"; filename="a"\r\n\r\nb\r\n--x--\r\n',
         "multipart/form-data; boundary=x"),
        ("", "text/plain"),
    ):  # fmt: skip
        status, answer, _ = post(port, "/translate", body, kind)
        assert status == 400 and list(answer) == ["error"]


def test_other_paths_and_methods_have_errors_in_the_same_form(port):
    assert post(port, "/other", {})[:2] == (404, {"error": "Not Found"})
    assert post(port, "/health", {})[:2] == (405, {"error": "Method Not Allowed"})


def test_waiting_requests_are_translated_together():
    translator = copying_translator()
    search, sentences = translator.search, [source for source, _ in sentence_pairs(60)]
    requests = [sentences[:1], *(sentences[i : i + 1 + i % 5] for i in range(1, 16))]
    with running(translator) as port, ThreadPoolExecutor(16) as clients:
        search.gate.clear()
        first = clients.submit(translation, port, requests[0])
        assert search.begun.wait(60)
        others = [clients.submit(translation, port, request) for request in requests[1:]]
        wait_until(port, len(requests))
        search.gate.set()
        answers = [each.result()["translatedText"] for each in (first, *others)]
    assert answers == requests
    assert search.batches == [1, sum(map(len, requests[1:]))]


def test_clients_answered_together_are_translated_together_again(monkeypatch):
    monkeypatch.setattr(scheduler, "_WAIT_PART", 1_000)  # the search takes no time
    monkeypatch.setattr(scheduler, "_WAIT_SECONDS", 10)
    translator = copying_translator()

    async def client(model, number):
        for _ in range(3):
            answer = await model.translate(translator, ["a dog"])
            assert answer.results == [[("a dog", -1.0)]]
            await asyncio.sleep(0.002 * number)

    async def clients():
        model = Scheduler(max_sentences=9)
        await asyncio.gather(*(client(model, number) for number in range(4)))

    asyncio.run(clients())
    assert translator.search.batches == [4, 4, 4]


def test_a_full_queue_answers_with_a_retry_time():
    translator = copying_translator()
    options = ServerOptions(max_waiting=1)
    with running(translator, options) as port, ThreadPoolExecutor(2) as clients:
        translator.search.gate.clear()
        first = clients.submit(translation, port, ["a dog"] * 6)
        assert translator.search.begun.wait(60)
        status, answer, headers = post(port, "/translate", GOOD)
        translator.search.gate.set()
        assert (status, headers["Retry-After"]) == (503, "2") and "waiting" in answer["error"]
        assert first.result()["translatedText"] == ["a dog"] * 6
        assert translation(port, "a dog") == {"translatedText": "a dog"}


def test_an_error_of_one_request_does_not_affect_the_others():
    translator = copying_translator(max_source_length=50)
    with running(translator) as port, ThreadPoolExecutor(3) as clients:
        translator.search.gate.clear()
        first = clients.submit(translation, port, "a dog")
        assert translator.search.begun.wait(60)
        long = clients.submit(post, port, "/translate", {**GOOD, "q": "dog" * 60})
        good = clients.submit(translation, port, "a cat")
        wait_until(port, 3)
        translator.search.gate.set()
        assert long.result()[0] == 400
        answers = [each.result()["translatedText"] for each in (first, good)]
        assert answers == ["a dog", "a cat"]


def test_the_server_continues_after_an_internal_error(monkeypatch):
    translator = copying_translator()
    with running(translator) as port:
        with monkeypatch.context() as patch:
            patch.setattr(type(translator.search), "__call__", lambda *_, **__: 1 / 0)
            status, answer, _ = post(port, "/translate", GOOD)
        assert status == 500 and list(answer) == ["error"]
        assert translation(port, "a dog") == {"translatedText": "a dog"}


def wait_until(port, count):
    """Wait until the server has admitted a number of requests."""
    for _ in range(600):
        if get(port, "/health") == {"status": "ok", "waiting": count}:
            return
        time.sleep(0.05)
    raise AssertionError("the requests did not arrive")


def test_errors_about_unknown_languages_name_the_nearest_codes():
    translator = copying_translator()
    directions = Directions(translator)
    directions.targets = {code: ["en"] for code in (*WORDS[6:], "deu", "dan", "nld")}
    assert "the nearest are deu, " in error_of(directions.translator, "dea", "en")


def test_a_model_of_several_languages_uses_its_tags():
    tags = {"deu": "dog", "fra": "red"}  # tokens that the vocabulary has
    translator = copying_translator()
    translator.metadata = {"source": "eng", "language_tokens": {
        "target_lang": ["source_prefix", tags]
    }}  # fmt: skip
    directions = Directions(translator)
    assert directions.targets == {"eng": ["deu", "fra"]} and directions.first == ("eng", "deu")
    german = directions.translator("eng", "deu")
    assert german is directions.translator("eng", "deu")
    assert german.metadata["target"] == "deu" and german.model is translator.model
    assert german.preprocessor.source_prefix != translator.preprocessor.source_prefix
    translator.metadata = {"source": "en", "target": "de", "tags": ["<2de>", "<2en>", "<bt>"]}
    assert Directions(translator).targets == {"de": ["en"], "en": ["de"]}
