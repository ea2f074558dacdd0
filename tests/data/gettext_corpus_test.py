"""Message catalogs as a parallel corpus."""

import gettext
import itertools
import os
import struct
from pathlib import Path

import pytest

from keras_transformer.data.corpora import load_parallel_text
from keras_transformer.data.gettext_corpus import (
    catalog_pairs,
    clean_message,
    read_catalog,
    without_accelerators,
)
from tests.helpers import error_of

pytestmark = pytest.mark.once

RUSSIAN = (
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && "
    "(n%100<10 || n%100>=20) ? 1 : 2);"
)


def mo(messages, plural="nplurals=2; plural=(n != 1);", order="<", charset="utf-8"):
    """A compiled catalog of messages, whose plurals are joined by a zero."""
    header = f"Content-Type: text/plain; charset={charset}\nPlural-Forms: {plural}\n"
    entries = [(k.encode(charset), v.encode(charset)) for k, v in {"": header, **messages}.items()]
    tables, texts, start = [[], []], b"", 28 + 16 * len(entries)
    for entry in entries:
        for table, text in zip(tables, entry):
            table += [len(text), start + len(texts)]
            texts += text + b"\0"
    numbers = [0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, 0, *tables[0], *tables[1]]
    return struct.pack(f"{order}{len(numbers)}I", *numbers) + texts


def write(folder, **catalogs):
    """`__` in a name stands for the slash."""
    for name, content in catalogs.items():
        kind = "mo" if isinstance(content, bytes) else "po"
        path = folder / f"{name.replace('__', '/')}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if kind == "mo" else content.encode())
    return folder


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("charset", ["utf-8", "iso-8859-1"])
def test_compiled_messages_are_those_that_gettext_reads(tmp_path, order, charset):
    messages = {"dog": "Hund", "menu\4Tree": "Bäume", "a file\0%d files": "eine Datei\0%d Dateien"}
    messages["nothing"] = ""
    path = write(tmp_path, de=mo(messages, order=order, charset=charset)) / "de.mo"
    read = [message[1:] for message in read_catalog(path)]
    translations = gettext.GNUTranslations(path.open("rb"))
    assert read == [
        ("dog", translations.gettext("dog")),
        ("Tree", translations.pgettext("menu", "Tree")),
        ("a file", translations.ngettext("a file", "%d files", 1)),
        ("%d files", translations.ngettext("a file", "%d files", 7)),
    ]


def test_plural_forms_match_the_english_singular_and_plural(tmp_path):
    write(tmp_path, ru=mo({"a file\0%d files": "%d файл\0%d файла\0%d файлов"}, RUSSIAN))
    write(tmp_path, ja=mo({"a file\0%d files": "%d 個のファイル"}, "nplurals=1; plural=0;"))
    forms = {x: [m[1:] for m in read_catalog(tmp_path / f"{x}.mo")] for x in ("ru", "ja")}
    assert forms["ru"] == [("a file", "%d файл"), ("%d files", "%d файлов")]
    assert forms["ja"] == [("a file", "%d 個のファイル"), ("%d files", "%d 個のファイル")]


PO = r"""
# A translator.
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n > 1);\n"

#: main.c:3
msgid "two "
"lines\n"
msgstr "zwei \"Zei"
"len\"\\\n"
#, fuzzy
msgid "not sure"
msgstr "unsicher"
#, c-format
#| msgid "old"
msgctxt "menu"
msgid "Tree"
msgstr "Baum"
msgid "a file"
msgid_plural "%d files"
msgstr[0] "eine Datei"
msgstr[1] "%d Dateien"

msgid "untranslated"
msgstr ""

#~ msgid "gone"
#~ msgstr "weg"
"""


def test_catalogs_as_text(tmp_path):
    path = write(tmp_path, de=PO) / "de.po"
    assert [message[1:] for message in read_catalog(path)] == [
        ("two lines\n", 'zwei "Zeilen"\\\n'),
        ("Tree", "Baum"),
        ("a file", "eine Datei"),
        ("%d files", "%d Dateien"),
    ]


@pytest.mark.parametrize(
    ("english", "translation", "expected"),
    [
        ("_Open", "Ö_ffnen", ("Open", "Öffnen")),
        ("Save &As…", "Speichern &unter…", ("Save As…", "Speichern unter…")),
        ("E_xit", "B_eenden", ("Exit", "Beenden")),
        ("_File", "文件(_F)", ("File", "文件")),
        ("~Width:", "宽度 (~W)：", ("Width:", "宽度：")),
        ("Open", "打开(_O)", ("Open", "打开")),
        ("_Cancel", "Abbrechen", ("Cancel", "Abbrechen")),
        ("_OK", "_OK", ("OK", "OK")),
        # Names, entities and plain text.
        ("role_name", "имя_роли", None),
        ("set max_length", "max_length setzen", None),
        ("calls _exit", "ruft _exit auf", None),
        ("AT&T or R&D", "AT&T oder F&E", None),
        ("R&D", "F&E", None),
        ("a &lt; b", "a &lt; b &amp; c", None),
        ("&lt;none", "&lt;keine", None),
        ("line (f) of a_b_c", "строка", None),
    ],
)
def test_marks_of_accelerators_are_removed_and_names_are_not(english, translation, expected):
    assert without_accelerators(english, translation) == (expected or (english, translation))


@pytest.mark.parametrize(
    ("english", "translation", "expected"),
    [
        ("two\n\tlines\n", " zwei \n Zeilen", ("two lines", "zwei Zeilen")),
        ("<b>%s</b> of {n}", "<b>%s</b> von {n}", ("<b>%s</b> of {n}", "<b>%s</b> von {n}")),
        ("_: a menu's item\nOpen", "Öffnen", ("Open", "Öffnen")),
        ("_n: a file\n%n files", "eine Datei\n%n Dateien", None),
        ("translator-credits", "Anna", None),
        ("%s: %d {name}", "%s: %d {name}", None),
        ("a word", " \n", None),
    ],
)
def test_a_message_becomes_one_line_of_text(english, translation, expected):
    assert clean_message(english, translation) == expected


def test_catalogs_of_a_folder_become_pairs(tmp_path):
    write(
        tmp_path,
        de__LC_MESSAGES__x=mo({"dog": "Hund", "menu\4Tree": "Baum", "cat": "Katze"}),
        de__LC_MESSAGES__y=mo({"dog": "Hund", "Tree": "Stammbaum"}),
        fr_FR__LC_MESSAGES__x=mo({"dog": "chien", "menu\4Tree": "arbre"}),
        zh_CN__LC_MESSAGES__x=mo({"dog": "狗"}),
        zh_TW__LC_MESSAGES__x=mo({"dog": "犬"}),
        po__pt=PO.replace("Baum", "árvore"),
    )
    # What is in two catalogs comes once.
    german = [("dog", "Hund"), ("Tree", "Baum"), ("cat", "Katze"), ("Tree", "Stammbaum")]
    assert catalog_pairs(tmp_path, "en", "de") == german
    assert catalog_pairs(tmp_path, "fr", "en") == [("chien", "dog"), ("arbre", "Tree")]
    # By the same message of the same program, which is "Tree" in a menu.
    assert catalog_pairs(tmp_path, "de", "fr") == [("Hund", "chien"), ("Baum", "arbre")]
    assert catalog_pairs(tmp_path, "en", "zh") == [("dog", "狗")]
    assert catalog_pairs(tmp_path, "en", "zh-TW") == [("dog", "犬")]
    assert ("Tree", "árvore") in catalog_pairs(tmp_path, "en", "pt")
    message = error_of(catalog_pairs, tmp_path, "en", "zh_HK")
    assert "catalogs of zh_HK" in message and "Found: zh_CN, zh_TW" in message
    assert "no message in both pt and zh" in error_of(catalog_pairs, tmp_path, "pt", "zh")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (mo({"dog": "Hund"})[:-5], "is damaged: it ends before its last message"),
        (mo({"dog": "Hund"})[:40], "is damaged"),
        (mo({"dog": "Hund"}).replace(b"Hund", b"H\xfcnd"), "is damaged"),
        (mo({"dog": "Hund"}).replace(b"=utf-8", b"=utf-0"), "is damaged"),
        (mo({"a\0b": "x\0y"}, plural="nplurals=2; plural=n/0;"), "is damaged"),
        (b"no catalog", "is not a message catalog"),
        (b"", "is not a message catalog"),
        ('msgid "a"\nmsgstr "b\n', "de.po, line 2: the catalog is damaged"),
        ('"a"\n', "de.po, line 1: the catalog is damaged"),
        ("", "is empty"),
    ],
)
def test_damaged_catalogs_are_refused_by_path(tmp_path, content, expected):
    write(tmp_path, de=content)
    message = error_of(load_parallel_text, "catalogs", "train", "en", "de", tmp_path)
    assert expected in message and str(tmp_path / "de") in message


def test_splits_of_catalogs(tmp_path):
    numbers = {f"{i} files": f"{i} Dateien" for i in range(200)}
    write(tmp_path, catalogs__de=mo(numbers))
    texts = [load_parallel_text("catalogs", x, "en", "de", tmp_path) for x in ("train", "val")]
    assert [len(text) for text in texts] == [192, 4]
    swapped = load_parallel_text("catalogs", "val", "de", "en", tmp_path)
    assert [pair[::-1] for pair in swapped] == list(texts[1])


def test_files_that_were_made_of_catalogs(tmp_path):
    folder = tmp_path / "catalogs" / "en-ru"
    folder.mkdir(parents=True)
    (folder / "train.tsv").write_text("".join(f"t{i}\tт{i}\n" for i in range(150)))
    (folder / "dev.tsv").write_text("d\tд\n")
    load = load_parallel_text
    assert list(load("catalogs", "val", "en", "ru", tmp_path)) == [("d", "д")]
    assert list(load("catalogs", "val", "ru", "en", tmp_path)) == [("д", "d")]
    assert len(load("catalogs", "test", "en", "ru", tmp_path)) == 3  # held out of train
    assert len(load("catalogs", "train", "en", "ru", tmp_path)) == 147
    (folder / "test.tsv").write_text("e\tе\n")
    assert list(load("catalogs", "test", "en", "ru", tmp_path)) == [("e", "е")]
    assert len(load("catalogs", "train", "en", "ru", tmp_path)) == 150


CORPORA = os.environ.get("KERAS_TRANSFORMER_DATA")


@pytest.mark.skipif(not CORPORA, reason="set KERAS_TRANSFORMER_DATA to a folder with catalogs/")
@pytest.mark.slow
@pytest.mark.parametrize("target", ["ja", "de", "ru", "zh"])
def test_splits_of_real_catalogs_share_no_english_message(target):
    if not Path(CORPORA, "catalogs", f"en-{target}").is_dir():
        pytest.skip("there are none of this pair")
    splits = ("train", "val", "test")
    texts = [load_parallel_text("catalogs", x, "en", target, CORPORA) for x in splits]
    assert len(texts[0]) > 100_000 and len(texts[1]) == 1_000
    for one, other in itertools.combinations(texts, 2):
        assert {english for english, _ in one}.isdisjoint(english for english, _ in other)
