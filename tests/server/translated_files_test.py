"""Files that clients upload: their translations, their limits, and their end."""

import json
import os
import time
import urllib.error
import urllib.request
import zipfile

import pytest

pytest.importorskip("starlette", reason="the extra `serve` is not installed")
from keras_transformer.server import ServerOptions
from keras_transformer.server.client_data import TranslatedFiles, safe_name
from tests.helpers import error_of, wait_for
from tests.server.running import copying_translator, get, post, running

pytestmark = pytest.mark.once

LIMITS = ServerOptions(max_file_bytes=3_000, max_characters=500)


@pytest.fixture(scope="module")
def port():
    with running(copying_translator(), LIMITS) as port:
        yield port


def upload(port, name, content, **fields):
    """Send a file, and return the status and the answer."""
    fields = {"source": "en", "target": "de", **fields}
    parts = [
        f'--x\r\nContent-Disposition: form-data; name="{key}"\r\n\r\n{value}\r\n'.encode()
        for key, value in fields.items()
    ]
    head = f'--x\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = b"".join([*parts, head.encode(), content, b"\r\n--x--\r\n"])
    return post(port, "/translate_file", body, "multipart/form-data; boundary=x")[:2]


def downloaded(port, name, content, **fields):
    """Send a file, and return its translation."""
    status, answer = upload(port, name, content, **fields)
    assert status == 200, answer
    with urllib.request.urlopen(answer["translatedFileUrl"]) as response:
        assert response.headers["Content-Disposition"].startswith("attachment")
        assert response.headers["Content-Security-Policy"] == "sandbox"
        return response.read()


def test_a_translated_file_has_its_own_name(port):
    content = b"the dog\r\n\r\na cat\n"
    assert downloaded(port, "notes.txt", content) == content
    urls = {upload(port, "a.txt", content)[1]["translatedFileUrl"] for _ in range(3)}
    assert len(urls) == 3 and all(len(url.rpartition("/")[2]) > 32 for url in urls)


@pytest.mark.parametrize("letter", "犬🐶")
def test_long_names_in_any_script_are_accepted(port, letter):
    assert downloaded(port, f"{letter * 300}.txt", b"a dog") == b"a dog"


def test_the_language_may_be_detected_and_a_file_in_the_target_language_stays(port):
    german = "Das ist ein kleiner Hund, und er schläft nicht.".encode()
    assert downloaded(port, "a.txt", german, source="auto") == german
    assert downloaded(port, "a.txt", b"This is a small dog.", source="auto")


def test_settings_name_the_formats(port):
    settings = get(port, "/frontend/settings")
    assert settings["filesTranslation"] and ".docx" in settings["supportedFilesFormat"]


@pytest.mark.parametrize(
    ("name", "content", "status", "words"),
    [
        ("a.exe", b"a dog", 400, "one of the endings"),
        ("a.txt", b"a dog" * 1_000, 413, "3,000 bytes"),
        ("a.txt", b"a dog " * 100, 413, "500 characters. Received: 599"),
        ("a.txt", b"\xff", 400, "a.txt, line 1: cannot decode"),
        ("a.docx", b"no zip", 400, "a.docx"),
        ("../../etc/a.exe", b"", 400, "Received: 'a.exe'"),
    ],
)
def test_a_bad_file_has_an_error_of_one_line_without_the_servers_folders(
    port, name, content, status, words
):
    found, answer = upload(port, name, content)
    assert found == status and words in answer["error"]
    assert "\n" not in answer["error"] and "/tmp" not in answer["error"]


def test_a_missing_file_and_an_unknown_download_are_reported(port):
    status, answer, _ = post(port, "/translate_file", {"source": "en", "target": "de"})
    assert status == 400 and "`file` must be a file" in answer["error"]
    with pytest.raises(urllib.error.HTTPError) as error:
        get(port, "/download_file/other.txt")
    assert error.value.code == 404 and "error" in json.load(error.value)


def test_a_file_is_deleted_after_its_time_and_a_refused_one_at_once(monkeypatch):
    folders = []
    new_folder = TranslatedFiles.new_folder
    monkeypatch.setattr(
        TranslatedFiles, "new_folder", lambda self: folders.append(new_folder(self)) or folders[-1]
    )
    with running(copying_translator(), ServerOptions(file_seconds=1)) as port:
        url = upload(port, "a.txt", b"a dog")[1]["translatedFileUrl"]
        assert upload(port, "a.txt", b"\xff")[0] == 400
        kept, refused = folders
        assert kept.exists() and not refused.exists()
        wait_for(lambda: not kept.exists())
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(url)
        upload(port, "a.txt", b"a dog")
        time.sleep(0.1)
    assert not folders[-1].exists()


def test_names_of_files_have_no_folders_and_are_short():
    assert safe_name("..\\..\\a b.TXT") == "a b.txt"
    for letter in "a犬🐶":
        assert 195 < len(os.fsencode(safe_name(letter * 300 + ".html"))) <= 205
    assert "Received: ''" in error_of(safe_name, "/")


def test_a_zip_bomb_is_refused(port, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.docx", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("word/document.xml", b"a" * 900_000)
    status, answer = upload(port, "a.docx", (tmp_path / "a.docx").read_bytes())
    assert status == 400 and "a.docx" in answer["error"]
