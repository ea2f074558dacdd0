"""Message catalogs: their entries, their units, and what is written with translations."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import keras_transformer as kt
from keras_transformer.data.catalog_entries import catalog_entries, unescaped
from keras_transformer.documents import read_document, translate_file
from keras_transformer.documents.catalogs import written_field
from tests.documents.translators import upper

SUFFIX = ".po"
pytestmark = pytest.mark.once
polib = pytest.importorskip("polib", reason="polib is not installed")
HEADER = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n\n'
CATALOG = """\
# Translators, 2020
msgid ""
msgstr ""
"Language: pl\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2);\\n"

#. A note
#: a.py:1
#, c-format
#| msgid "old"
msgctxt "menu"
msgid "Open \\"%s\\"?\\n"
msgstr ""

#, fuzzy
msgid "Almost"
msgstr "prawie"
msgid "Done"
msgstr ""
"gotowe"

msgid "One file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

msgid "%d"
msgstr ""

#~ msgid "gone"
#~ msgstr ""
"""


def message(text, comments=""):
    return f'{HEADER}{comments}msgid "{text}"\nmsgstr ""\n'


def filled(translated, text, translation):
    """Return the text of a message with a translation, without the lines of the header."""
    new = translated(message(text), lambda texts: [translation] * len(texts))
    return new.removeprefix(HEADER)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_catalog_without_new_translations_is_the_same_bytes(newline, encoding, tmp_path):
    content = CATALOG.replace("\n", newline).encode(encoding)
    (tmp_path / "a.po").write_bytes(content)
    translate_file(tmp_path / "a.po", tmp_path / "b.po", lambda texts: [""] * len(texts))
    assert (tmp_path / "b.po").read_bytes() == content


def test_messages_without_a_translation_are_filled_and_fuzzy(translated, tmp_path):
    new = translated(CATALOG)
    assert translated.texts == ['Open "%s"?', "One file", "%d files"]
    assert translated.report.skipped == {
        "fuzzy": 1, "translated": 1, "without letters": 1, "obsolete": 1,
    }  # fmt: skip
    old, catalog = polib.pofile(str(tmp_path / "a.po")), polib.pofile(str(translated.target))
    new_entry = catalog.find('Open "%s"?\n')
    assert new_entry.msgstr == 'OPEN "%S"?\n' and new_entry.flags == ["fuzzy", "c-format"]
    kept = (new_entry.comment, new_entry.msgctxt, new_entry.previous_msgid)
    assert kept == ("A note", "menu", "old")
    plural = catalog.find("One file")
    assert plural.msgstr_plural == {0: "ONE FILE", 1: "%D FILES", 2: "%D FILES"} and plural.fuzzy
    others = [entry for entry in catalog if entry not in (new_entry, plural)]
    assert [str(entry) for entry in others] == [str(entry) for entry in old if entry in others]
    # Other lines are the same.
    assert {*new.splitlines()} >= {
        x for x in CATALOG.splitlines() if not x.startswith("msgstr[")
    } - {"#, c-format"}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("#,c-format\n", "#, fuzzy, c-format\n"),
        ("#, c-format, no-wrap\n", "#, fuzzy, c-format, no-wrap\n"),
        ("", "#, fuzzy\n"),
        ('#| msgid "old"\n', '#, fuzzy\n#| msgid "old"\n'),
        ("# note\n#: a.c:1\n", "# note\n#: a.c:1\n#, fuzzy\n"),
    ],
)
def test_a_translation_is_marked_as_fuzzy_before_previous_messages(flags, expected, translated):
    new = translated(message("A dog", flags))
    assert new == f'{HEADER}{expected}msgid "A dog"\nmsgstr "A DOG"\n'


@pytest.mark.parametrize(
    "flags", ["#,fuzzy\n", "#, c-format,fuzzy\n", "#,\tfuzzy , python-format\n"]
)
def test_flags_are_read_with_any_spaces(flags, translated):
    content = f'{HEADER}{flags}msgid "a"\nmsgstr "b"\n'
    assert translated(content) == content
    assert translated.report.skipped == {"fuzzy": 1}


@pytest.mark.parametrize(
    ("source", "text"),
    [(r"bell\a!", "bell\a!"), (r"\x41 b", "A b"), (r"\033[1mred", "\x1b[1mred"),
     (r"gr\303\274n", "grün"), (r"a\tb\\n", "a\tb\\n"), (r"\v\f\b", "\v\f\b"), (r"no\q", r"no\q"),
     (r"\374", "ü"), ("a\\\"b", 'a"b')],
)  # fmt: skip
def test_escapes_stand_for_the_characters_of_c(source, text):
    assert unescaped(source) == text


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), st.integers(20, 90))
def test_a_written_field_is_read_again(text, columns):
    content = written_field("msgid", "x") + "\n" + written_field("msgstr", text, "\n", columns)
    (entry,) = catalog_entries(content, "a")
    assert entry.translations[0].text == text


def test_control_characters_of_a_message_stay(translated):
    new = filled(translated, r"Ring\a the \033[1mbell\033[0m", "Läute die Glocke")
    assert all(new.count(escape) == 2 for escape in (r"\a", r"\033[1m", r"\033[0m"))


def test_a_translation_has_the_line_ends_of_its_message(translated):
    windows, unix = message("A dog"), 'msgid "A\\n"\n"cat"\nmsgstr ""\n'
    new = translated(windows.replace("\n", "\r\n").encode() + b"\n" + unix.encode()).decode()
    assert '#, fuzzy\r\nmsgid "A dog"\r\nmsgstr "A DOG"\r\n' in new
    assert '#, fuzzy\nmsgid "A\\n"\n"cat"\nmsgstr ""\n"A\\n"\n"CAT"\n' in new


def test_long_messages_are_wrapped_as_gettext_does(translated):
    new = filled(translated, "a", "wort " * 40)
    assert max(map(len, new.splitlines())) <= 79 and len(new.splitlines()) > 4
    assert polib.pofile(str(translated.target))[0].msgstr == ("wort " * 40).strip()


def test_messages_that_are_not_wrapped_get_translations_that_are_not(translated):
    new = filled(translated, "word " * 40 + "end", "wort " * 30 + "ende")
    assert new.endswith(f'msgstr "{"wort " * 30}ende"\n')


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("_Open the door", "Die Tür öffnen", "_Die Tür öffnen"),
        ("&Open the door", "Öffne Tor", "Öffne T&or"),
        ("E_xit", "Ende", "_Ende"),
        ("~File", "Datei", "~Datei"),
        ("_Save as...", "Speichern unter", "_Speichern unter..."),
        ("Save _As…", "Als Bild", "_Als Bild…"),
        ("_Open…", "打开", "打开(_O)…"),
        ("&Open <b>", "<b> offen", "<b> &offen"),
        ("max_length", "max_länge", "max_länge"),
        ("AT&T", "AT&T", "AT&T"),
        ("R&D costs", "F&E-Kosten", "F&E-Kosten"),
        ("a &lt; b", "a &lt; c", "a &lt; c"),
        ("Loading...", "Lädt", "Lädt..."),
        (" Two  ", "Zwei", " Zwei  "),
    ],
)
def test_accelerators_and_dots_of_messages_stay(source, translation, expected, translated):
    assert filled(translated, source, translation).endswith(f'msgstr "{expected}"\n')
    text = re.sub(r"(?<!\w)[_&~](?=\w(?!\w*;))|(?<=^E)_", "", source).strip().rstrip(".…")
    assert translated.texts == [text]


def test_names_of_translators_are_not_translated(translated):
    content = message("translator-credits")
    assert translated(content) == content
    assert translated.report.skipped == {"for the names of translators": 1}


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("nplurals=1; plural=0", ["2"]),
        ("nplurals=2; plural=n > 1;", ["1", "2"]),
        ("nplurals=2; plural=n==1", ["2", "1"]),
        ("nplurals=3; plural=n%10==1 ? 0 : n>9 ? 1 : 2;", ["1", "2", "2"]),
        ("", ["1", "2"]),  # of the language de
        ("nplurals=2; plural=1/0;", ["1", "2"]),
        ("nplurals=99999999; plural=0;", ["1", "2"]),
        (f"nplurals=2; plural={'(' * 9999};", ["1", "2"]),
    ],
)
def test_a_message_with_a_plural_gets_the_forms_of_the_language(rule, expected, translated):
    header = HEADER.strip() + f'\n"Plural-Forms: {rule}\\n"\n\n'
    plural = 'msgid "dog"\nmsgid_plural "dogs"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    translated(header + plural, lambda texts: [str(["dog", "dogs"].index(x) + 1) for x in texts])
    assert list(polib.pofile(str(translated.target))[0].msgstr_plural.values()) == expected


def test_plurals_of_an_unknown_language_are_counted(translated):
    content = HEADER.replace("de", "tlh") + 'msgid "dog"\nmsgid_plural "dogs"\nmsgstr[0] ""\n'
    assert translated(content) == content
    reason = "with plurals, whose forms the catalog does not define"
    assert translated.report.skipped == {reason: 1} and translated.report.num_translated == 1


TEMPLATE = r"""#, fuzzy
msgid ""
msgstr ""
"Language: \n"
"Content-Type: text/plain; charset=CHARSET\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\n"

msgid "dog"
msgid_plural "dogs"
msgstr[0] ""
msgstr[1] ""
"""


@pytest.mark.parametrize(
    ("language", "forms"), [("fr", 2), ("pl", 3), ("ja", 1), ("arb_Arab", 6), ("pt_BR", 2)]
)
def test_a_template_becomes_a_catalog_of_the_language(language, forms, translated):
    new = translated(TEMPLATE, suffix=".pot", target_lang=language)
    code = language.removesuffix("b_Arab")
    assert f'"Language: {code}\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"' in new
    assert f"nplurals={forms};" in polib.pofile(str(translated.target)).metadata["Plural-Forms"]
    assert len(polib.pofile(str(translated.target))[0].msgstr_plural) == forms


def test_a_template_is_not_written_to_a_template(tmp_path):
    (tmp_path / "a.pot").write_text(TEMPLATE)
    with pytest.raises(kt.UserError, match=r"`target` must end with \.po for the file"):
        translate_file(tmp_path / "a.pot", tmp_path / "b.pot", upper)


def test_a_header_without_a_language_gets_it(translated):
    content = HEADER.replace("Language: de", "Language: ") + 'msgid "a"\nmsgstr ""\n'
    assert '"Language: fr\\n"' in translated(content, target_lang="fr")
    assert '"Language: \\n"' in translated(content)
    declared = message("a")
    assert '"Language: de\\n"' in translated(declared, target_lang="de_AT")


def test_the_charset_is_the_headers_only(translated):
    comment = "# Content-Type: text/plain; charset=ASCII\n"
    new = translated(f'{comment}{HEADER}msgid "Content-Type: x; charset=latin1"\nmsgstr "grün"\n')
    assert "grün" in new


def test_a_catalog_in_another_charset_keeps_it(tmp_path):
    content = message("Gr\u00fcn").replace("UTF-8", "ISO-8859-1").encode("latin-1")
    (tmp_path / "a.po").write_bytes(content)
    translate_file(tmp_path / "a.po", tmp_path / "b.po", upper)
    assert 'msgstr "GRÜN"' in (tmp_path / "b.po").read_bytes().decode("latin-1")


BAD = {
    "none": ('msgid "a"\nmsgstr ""\n', "the header of the catalog has no charset"),
    "empty": ("", "the header of the catalog has no charset"),
    "charset": (HEADER.replace("UTF-8", "x-none"), "has an unknown encoding: 'x-none'"),
    "undefined": (HEADER.replace("UTF-8", "undefined"), "cannot be decoded as undefined"),
    "half": (f'{HEADER}msgid "a', "line 5: the catalog is damaged"),
    "without": (f'{HEADER}msgid "a"\n', "line 5: a message without msgstr"),
    "between": (f'{HEADER}msgid "a"\n\nmsgid "b"\nmsgstr ""', "line 7: the catalog is damaged"),
    "source": (f'{HEADER}msgctxt "a"\nmsgstr ""\n', "line 5: a message without msgid"),
    "word": (f'{HEADER}msgid "a"\nnothing "b"\n', "line 6: the catalog is damaged"),
    "string": (f'"a"\n{HEADER}', "line 1: the catalog is damaged"),
    "bytes": (HEADER.encode() + b'msgid "\xff"\nmsgstr ""\n', "line 5: cannot decode byte 0xff"),
    "long": (message("b" * 200_000), "line 5: a text of 200,000 characters"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_damaged_catalog_is_refused_in_one_line(name, tmp_path):
    content, expected = BAD[name]
    path = tmp_path / f"{name}.po"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(kt.UserError, match=expected) as error:
        read_document(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


WORDS = st.text(st.sampled_from('abé 狗._&%d<b>\\"\n\t'), max_size=20)
COMMENTS = st.sampled_from(
    ["", "# note\n", "#. extracted\n", "#: a.c:1 b.c:2\n", "#, c-format\n", "#,python-format\n",
     "#, fuzzy\n", '#| msgctxt "x"\n#| msgid "old"\n', "#\n", "\n", "  \n"]
)  # fmt: skip


@st.composite
def documents(draw):
    """Build a catalog out of all constructs."""
    parts = [HEADER.replace("de", "pl")]
    for number in range(draw(st.integers(1, 4))):
        sources = {"msgid": f"{number}{draw(WORDS)}"}
        if draw(st.booleans()):
            sources = {"msgctxt": draw(WORDS), **sources}
        if is_plural := draw(st.booleans()):
            sources["msgid_plural"] = draw(WORDS) or "x"
        forms = [f"msgstr[{n}]" for n in range(3)] if is_plural else ["msgstr"]
        translation = draw(st.sampled_from(["", "", "done\n"]))
        fields = {**sources, **dict.fromkeys(forms, translation)}
        written = [written_field(key, text) for key, text in fields.items()]
        entry = "".join(draw(COMMENTS) for _ in range(2)) + "\n".join(written) + "\n"
        parts.append(
            re.sub("(?m)^(?!#|$)", "#~ ", entry) if draw(st.integers(0, 5)) == 5 else entry
        )
    return "".join(parts).replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@given(documents())
def test_only_translations_and_flags_of_messages_change(tmp_path_factory, document):
    folder = tmp_path_factory.mktemp("catalog")
    source, target = folder / "a.po", folder / "b.po"
    source.write_bytes(document.encode())
    report = translate_file(source, target, upper)
    new = target.read_bytes().decode()
    pattern = re.compile(r'^(msgstr.*|".*"|#,.*)\r?\n?', re.MULTILINE)
    sources = [pattern.sub("", x).splitlines() for x in (document, new)]
    assert sources[0] == sources[1]
    pairs = [(x, y) for x, y in zip(catalog_entries(document, ""), catalog_entries(new, ""))]
    num_filled = num_left = 0
    for old, entry in pairs:
        for key in ("msgctxt", "msgid", "msgid_plural"):
            assert [x.fields[key].text for x in (old, entry) if key in x.fields] in (
                [], [old.fields[key].text] * 2 if key in old.fields else [],
            )  # fmt: skip
        if old.is_header or any(x.text for x in old.translations) or old.is_obsolete:
            assert [x.text for x in old.translations] == [x.text for x in entry.translations]
            num_left += not old.is_header
        elif entry.translations[0].text:
            num_filled += 1
            texts = old.fields["msgid"].text.upper(), entry.translations[0].text
            wanted, got = (re.sub(r"\([_&~][A-Z]\)|[_&~\s]", "", text) for text in texts)
            assert got == wanted
            assert "fuzzy" in entry.flags
        else:
            num_left += 1
    assert sum(report.skipped.values()) >= num_left and report.num_translated >= num_filled
