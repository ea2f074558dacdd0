"""What is not translated: which parts of a text, and where they stand in a translation."""

import re
import time
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from keras_transformer.translation.protection import protect
from keras_transformer.untranslated import SYMBOLS
from tests.helpers import error_of

pytestmark = pytest.mark.once

# Text -> what the model reads, and what is kept. A `|` separates them.
PLAIN = [
    ("A <b>black dog</b> runs through the snow.", "A black dog runs through the snow.|<b>|</b>"),
    ("A man pays %s for {name}.", "A man pays for.|%s|{name}"),
    (
        'Two <i>men</i> <br/> sit on <a href="https://example.org/a?b=c&d">a bench</a>.',
        'Two men sit on a bench.|<i>|</i>|<br/>|<a href="https://example.org/a?b=c&d">|</a>',
    ),
    ("A girl eats %1$d apples and ${count} pears.", "A girl eats apples and pears.|%1$d|${count}"),
    ("See https://example.org/x_y(z). A dog runs.", "See. A dog runs.|https://example.org/x_y(z)"),
    ("Write to someone@example.org; a man waits.", "Write to; a man waits.|someone@example.org"),
    (
        'A {{ animal }} runs <ph id="1"/>through the snow.',
        'A runs through the snow.|{{ animal }}|<ph id="1"/>',
    ),
    ("<p><b>A <i>red</i> car</b></p>", "A red car|<p>|<b>|<i>|</i>|</b>|</p>"),
    ("A dog\trun\ts 100% fast, {0} of {1}.", "A dog\trun\ts 100% fast, of.|{0}|{1}"),
    (
        "{count, plural, one {# dog} other {# dogs}} run.",
        "run.|{count, plural, one {# dog} other {# dogs}}",
    ),
    # Per cent
    ("100 % sure, 5% of it, 100%.", "100 % sure, 5% of it, 100%."),
    ("50%-ige Chance", "50%-ige Chance"),
    ("100%fast, 100%dog", "100%fast, 100%dog"),
    ("a%", "a%"),
    ("%", "%"),
    # printf, Qt, Objective-C
    ("3 %s", "3|%s"),
    ("2000%s left", "left|2000%s"),
    ("%d%% done", "done|%d%%"),
    ("%5.2f and %-10s", "and|%5.2f|%-10s"),
    ("%'d files", "files|%'d"),
    ("%ld of %zu", "of|%ld|%zu"),
    ("%*d or %.*s", "or|%*d|%.*s"),
    ("%hhd or %lld", "or|%hhd|%lld"),
    ("%@ and %1$@", "and|%@|%1$@"),
    ("Save %1 as %2", "Save as|%1|%2"),
    ("%L1 left", "left|%L1"),
    ("%1% of %2%", "of|%1%|%2%"),
    ("%n file(s)", "file(s)|%n"),
    ("%dx%d pixels", "pixels|%dx%d"),
    ("%dpx wide", "wide|%dpx"),
    ("%20 there", "there|%20"),
    # Python, shells, templates
    ("%(name)s runs", "runs|%(name)s"),
    ("%<name>s and %{name}", "and|%<name>s|%{name}"),
    ("#{name} runs", "runs|#{name}"),
    ("{} of {}", "of|{}|{}"),
    ("costs {0:>10.2f}", "costs|{0:>10.2f}"),
    ("it is {name!r}", "it is|{name!r}"),
    ("as {x:{width}}", "as|{x:{width}}"),
    ("${HOME} and ${ x }", "and|${HOME}|${ x }"),
    ("so {{{raw}}}", "so|{{{raw}}}"),
    ("{% if x %} yes {% endif %}", "yes|{% if x %}|{% endif %}"),
    ("{not this}", "{not this}"),
    ("the set {1, 2, 3}", "the set {1, 2, 3}"),
    ("{n, select, a {He} b {{x} They}} ran", "ran|{n, select, a {He} b {{x} They}}"),
    ("{n, number} ran {d, date, short}", "ran|{n, number}|{d, date, short}"),
    ("$name runs", "runs|$name"),
    ("$unit_name|, go", ", go|$unit_name|"),
    ("US$5, $5.00, $ 5, A$AP", "US$5, $5.00, $ 5, A$AP"),
    # Whole words, quotes and brackets, and several together
    ("{name}'s dog", "dog|{name}'s"),
    ("v{version} is out", "is out|v{version}"),
    ('the "%s" file', 'the file|"%s"'),
    ("the (%s) file", "the file|(%s)"),
    ("[%d] file", "file|[%d]"),
    ("<%s> failed", "failed|<%s>"),
    ("‘%s’ and »%s«", "and|‘%s’|»%s«"),
    ("not %s: %s", "not|%s: %s"),
    ("not %s (%s)", "not|%s (%s)"),
    ("at %d.%d now", "at now|%d.%d"),
    ("%s, %s and %s", "and|%s, %s|%s"),
    ("{a}{b} runs", "runs|{a}{b}"),
    ("<b>%s</b> runs", "runs|<b>%s</b>"),
    ("x = {y}", "x =|{y}"),
    # Addresses
    ("www.example.org/x is down", "is down|www.example.org/x"),
    ("See http://a.b/c?d=e&f=g#h.", "See.|http://a.b/c?d=e&f=g#h"),
    ("(see https://a.org/x)", "(see )|https://a.org/x"),
    ("https://a.org/x, or", ", or|https://a.org/x"),
    ("见https://a.org/x。然后", "见。然后|https://a.org/x"),
    ("To mailto:a@b.org", "To|mailto:a@b.org"),
    ("@user and a@b", "@user and a@b"),
    ("from x.y+z@a-b.co.uk", "from|x.y+z@a-b.co.uk"),
    ("from <a@b.org>", "from|<a@b.org>"),
    # Tags and entities
    ("R&amp;D is", "R&amp;D is"),
    ("another man &apos;s head", "another man &apos;s head"),
    ("a < b and c > d", "a < b and c > d"),
    ("a <b and c> d", "a <b and c> d"),
    ("<confidence level>", "<confidence level>"),
    ("one<br/>two", "one two|<br/>"),
    ("<a href='x>y'>z</a>", "z|<a href='x>y'>|</a>"),
    ('a <x:y z="1"/>', 'a|<x:y z="1"/>'),
    ("a </b>", "a|</b>"),
    ("<b> a", "a|<b>"),
    ("H<b>el</b>lo", "Hello|<b>|</b>"),
    ("<3 hearts <>", "<3 hearts <>"),
    ("<b><i>a</b></i>", "a|<b>|<i>|</b>|</i>"),
    # White space
    ("a\n%s\nb", "a\nb|%s"),
    ("line %s\nnext", "line\nnext|%s"),
    ("  %s  ", "  |%s"),
    ("", ""),
    ("a  b", "a  b"),
    ("C:\\new #5 e.g. user's", "C:\\new #5 e.g. user's"),
    ("{ $ & } {", "{ $ & } {"),
]
HTML = [
    ("<b>A</b> dog &amp; a cat", "A dog & a cat|<b>|</b>"),
    ("a &lt;b&gt; c", "a c|&lt;b&gt;"),
    ("x &quot;%s&quot; y", "x y|&quot;%s&quot;"),
    ("<p>One.</p><p>Two.</p>", "One.\n\nTwo.|<p>|</p>|<p>|</p>"),
    ("<li>a</li>\n<li>b</li>", "a\n\nb|<li>|</li>|<li>|</li>"),
    ("<!-- no --> yes", "yes|<!-- no -->"),
    ("<script>x < y</script>go", "go|<script>x < y</script>"),
    ("use <code>f(<b>x</b>)</code> now", "use now|<code>f(<b>x</b>)</code>"),
    ("a<br>b<wbr>c", "a bc|<br>|<wbr>"),
    ('<img src="a>b"> c', 'c|<img src="a>b">'),
    ("<a href=x?a=1&amp;b=2>d</a>", "d|<a href=x?a=1&amp;b=2>|</a>"),
    ("a < b &eacute;", "a < b é"),
    ("https://a.org/?x=1&amp;y=2 is", "is|https://a.org/?x=1&amp;y=2"),
    ("<input disabled> x", "x|<input disabled>"),
    ("<![CDATA[x]]>y <!-- open", "y|<![CDATA[x]]>|<!-- open"),
]
MARKDOWN = [
    ("**bold** and *it*", "bold and it|**|**|*|*"),
    ("a_b_c and _d_", "a_b_c and d|_|_"),
    ("5 * 3 * 2", "5 * 3 * 2"),
    ('[a dog](http://x.org "t") runs', 'a dog runs|[|](http://x.org "t")'),
    ("[![i](a)](b)", "i|[|![|](a)|](b)"),
    ("`a*b` runs", "runs|`a*b`"),
    ("[x] and [y][z]", "[x] and y|[|][z]"),
    ("# Title\n\n- a *b*\n- c", "Title\n\na b\n\nc|#|-|*|*|-"),
    ("**a *b***", "a b|**|*|*|**"),
    ("<b>x</b> ~~y~~ <http://a.b>", "x y|<b>|</b>|~~|~~|<http://a.b>"),
    ("so \\*x\\*", "so|\\*x\\*"),
    ("**open a [^1] b", "**open a b|[^1]"),
    ("text (a) [b]", "text (a) [b]"),
]
CASES = [
    (markup, *case)
    for markup, cases in ((None, PLAIN), ("html", HTML), ("markdown", MARKDOWN))
    for case in cases
]


@pytest.mark.parametrize(("markup", "text", "expected"), CASES)
def test_what_is_kept_and_what_the_model_reads(markup, text, expected):
    protected = protect(text, markup)
    found = "|".join([protected.text, *(span.raw for span in protected.spans)])
    assert found == expected


def words_of(text):
    return [m.span() for m in re.finditer(r"[一-龥]|\w[\w'-]*|[^\w\s]", text)]


def same_order(text, translation):
    """Link the words of both sides one by one."""
    return [(*x, *y) for x, y in zip(words_of(text), words_of(translation))]


def linked(text, translation, pairs):
    """Link words by their numbers, from 0: "0-1 1-0". A letter of Chinese is a word."""
    sides = words_of(text), words_of(translation)
    numbers = (map(int, pair.split("-")) for pair in pairs.split())
    return [(*sides[0][i], *sides[1][j]) for i, j in numbers]


@pytest.mark.parametrize(
    ("text", "translation", "pairs", "expected"),
    [
        # A pair of tags goes with its words, nested pairs too.
        ("a <b>red</b> car", "voiture rouge", "1-1 2-0", "voiture <b>rouge</b>"),
        ("<p>a <b>red <i>car</i></b>.</p>", "X Y Z.", "0-2 1-0 2-1 3-3",
         "<p><b>X <i>Y</i></b> Z.</p>"),
        ("he <b>gave up</b> now", "gab er nun auf", "0-1 1-0 2-3 3-2",
         "<b>gab</b> er nun auf"),
        ("he <b>gave up</b> now", "er gab nun schnell auf dann", "0-0 1-1 1-3 2-4 3-2",
         "er <b>gab nun schnell auf</b> dann"),
        # Its words have no translation.
        ("a <b>so</b> red car", "ein rotes Auto", "0-0 2-1 3-2", "ein <b></b>rotes Auto"),
        # A tag inside a word goes around the word.
        ("<b>H</b>ello you", "du hallo", "0-1 1-0", "du <b>hallo</b>"),
        # Placeholders stand next to the words that they stood next to.
        ("see %s now", "nun sieh", "0-1 1-0", "nun sieh %s"),
        ("cannot open file %s", "kann Datei nicht öffnen", "0-2 1-3 2-1",
         "kann Datei %s nicht öffnen"),
        ("of {name}.", "von.", "0-0 1-1", "von {name}."),
        ("of {name} now.", "jetzt von.", "0-1 1-0 2-2", "jetzt von {name}."),
        ("{name}, come", "komm", "1-0", "{name} komm"),
        ("Name:%s", "Wie heißt du", "0-0 1-2", "Wie heißt du %s"),
        ("[%s on]", "an da", "1-1", "%s an da"),
        ("<br/>one two", "zwei eins", "0-1 1-0", "<br/>zwei eins"),
        ("pay %s now", "现在付", "0-2 1-0 1-1", "现在付%s"),
        # The order of placeholders without numbers is their meaning.
        ("see %1$s and hear %2$d", "höre und sieh", "0-2 1-1 2-0", "höre %2$d und sieh %1$s"),
        ("see %s and hear %d", "höre und sieh", "0-2 1-1 2-0", "höre und sieh %s %d"),
        ("<b>x {a}</b> y {b}", "Y X", "0-1 1-0", "Y {b} <b>X {a}</b>"),
        ("<b>x %s</b> y %d", "Y X", "0-1 1-0", "<b>Y X %s</b> %d"),
        # Nothing to translate, and no translation.
        ("<b>%s</b> ", "", "", "<b>%s</b> "),
        ("a <b>%s b</b> {x}", "", "", "<b>%s</b> {x}"),
        ("", "x", "", "x"),
    ],
)  # fmt: skip
def test_where_it_stands_in_a_translation(text, translation, pairs, expected):
    protected = protect(text)
    links = linked(protected.text, translation, pairs)
    assert protected.restore(translation, links) == expected


def test_a_link_between_white_space_separates_sentences():
    protected = protect("<p>%s runs.</p> <p>A {x}.</p>", "html")
    text, translation = protected.text, "Läuft.\n\nEin."
    assert text == "runs.\n\nA."
    # A wrong link does not move a placeholder into another sentence.
    links = [(5, 7, 6, 8), (0, 4, 8, 11), (7, 8, 0, 5)]
    assert protected.restore(translation, links) == "<p>%s Läuft.</p> <p>Ein {x}.</p>"


def test_entities_are_encoded_again():
    protected = protect("A &lt; B &amp; <b>C</b>", "html")
    assert protected.text == "A < B & C"
    links = same_order(protected.text, protected.text)
    assert protected.restore(protected.text, links) == "A &lt; B &amp; <b>C</b>"
    assert protect("x", "html").restore("<&>") == "&lt;&amp;&gt;"
    assert protect("x").restore("<&>") == "<&>"


def test_symbols_stand_for_parts_and_a_wrong_symbol_does_not_count():
    protected = protect('A <b>man</b> pays "%s" for {name}<x id="1"/>.', symbols=True)
    one, two, three = SYMBOLS[:3]
    assert protected.text == f'A man pays "{one}" for {two}{three}.'
    tags = [(2, 5, 4, 8)]  # man: Mann
    right = f"Ein Mann zahlt für {two}{three} „{one}“."
    expected = 'Ein <b>Mann</b> zahlt für {name}<x id="1"/> „%s“.'
    assert protected.restore(right, tags) == expected
    missing, twice = f"Ein Mann zahlt „{one}“.", f"Ein Mann zahlt „{one}“ für {two}, {two}{three}."
    restored = protected.restore(missing, [*tags, (13, 14, 17, 18)])
    assert restored == 'Ein <b>Mann</b> zahlt „%s“ {name} <x id="1"/>.'
    restored = protected.restore(twice, [*tags, (16, 19, 20, 23)])
    assert restored == 'Ein <b>Mann</b> zahlt „%s“ für {name},<x id="1"/>.'
    inside = f"Ein Ma{one}nn zahlt für {two}{three}."
    restored = protected.restore(inside, [*tags, (6, 10, 10, 15)])
    assert restored == 'Ein <b>Mann</b> zahlt %s für {name}<x id="1"/>.'
    ordered = protect("%s of %s", symbols=True)  # in the order of their values
    assert ordered.restore(f"{two} von {one}") == "%s von %s"
    assert "&" not in protect("a &#xEE10; &#60944; b", "html", symbols=True).text


def test_patterns_of_the_caller_are_kept():
    patterns = [r"[A-Z]\d{3,}", r"Acme(?: Corp)?", "", r"i>"]
    protected = protect("<i>Acme Corp sells X4711</i> now", patterns=patterns)
    assert [x.raw for x in protected.spans] == ["<i>", "Acme Corp", "X4711", "</i>"]
    assert protected.text == "sells now"
    # A longer one includes what else is found within it.
    assert [x.raw for x in protect("a <b>x</b> c", patterns=["<b>.*c"]).spans] == ["<b>x</b> c"]


def test_bad_arguments_are_named():
    assert error_of(protect, "a", "xml") == (
        "`markup` must be one of html, markdown. Received: markup='xml'"
    )
    message = error_of(protect, "a", None, ["a", "(b"])
    assert message.startswith("`protect` must be regular expressions. Received: '(b'")
    assert "list of strings" in error_of(protect, "a", None, "a")
    assert "list of strings" in error_of(protect, "a", None, [3])


@pytest.mark.parametrize(
    "text",
    ["<b>" * 900, "</b><i>" * 900, "<!--" * 9000, "{" * 9000, "{a" * 9000, "%" * 9000, "[" * 9000,
     "*a" * 900, "a" * 50_000 + "@", "`" * 9000, "<a '" * 5000, "&" * 9000, "<code>" * 900,
     "a-" * 15_000 + "%s", "%s" * 900, "<b>%s" * 900, "a %s " * 900, "a <b>b</b>. " * 900],
    ids=lambda text: text[:8],
)  # fmt: skip
def test_time_is_linear_and_nesting_unlimited(text):
    begin = time.process_time()
    for markup in (None, "html", "markdown"):
        protected = protect(text, markup)
        restored = protected.restore(protected.text)
        assert all(restored.count(raw) >= count for raw, count in raws(protected).items())
    assert time.process_time() - begin < 5


def read(source, translation, markup=None, patterns=(), symbols=False):
    how = markup, patterns, symbols
    return protect(source, *how).text, protect(translation, *how, source).text


def test_a_translation_is_read_without_the_parts_that_its_source_has():
    first, second = SYMBOLS[:2]
    sides = "{a} pays <b>%s</b>.", "{b} <b>%s</b> zahlt {a}."
    assert read(*sides) == ("pays.", "{b} zahlt.")
    assert read(*sides, symbols=True) == (
        f"{first} pays {second}.",
        f"{{b}} {second} zahlt {first}.",
    )
    # Matched in order: the third has no counterpart.
    assert read("%s of %s", "%s %s %s", symbols=True)[1] == f"{first} {second} %s"
    assert read("a dog", "{a} <b>Hund</b>") == ("a dog", "{a} <b>Hund</b>")
    assert read("<p>a &amp; b</p>", "<p>c &amp; <i>d</i></p>", "html")[1] == "c & <i>d</i>"
    assert (
        read("an Acme XL", "der Acme XL und Acme M", patterns=["Acme [A-Z]+"])[1]
        == "der und Acme M"
    )


# The guarantee

TAGS = {
    None: [("<b>", "</b>"), ('<a href="x">', "</a>"), ("<i>", "</i>")],
    "html": [("<b>", "</b>"), ('<a href="xy">', "</a>"), ("<p>", "</p>"), ("<td>", "</td>")],
    "markdown": [("**", "**"), ("[", "](x)"), ("~~", "~~"), ("<b>", "</b>")],
}
ALONE = ["%s", "{n}", "%1$d", "<br/>", "{{ t }}", "https://e.org/x", '<ph id="1"/>', "${v}", "{}"]
SPACES = st.sampled_from(["", " ", " ", "  ", "\n", "\n\n", ", ", ". "])
# The words of sources and translations differ, so that spans are found again in the output.
SOURCE_WORDS = ["one", "two", "three", "a", "Dr."]
TARGET_WORDS = ["û", "öäß", "Éü", "中文字", "д-д"]


@st.composite
def markups(draw, markup, depth=3):
    parts = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.integers(0, 5 if depth else 3))
        if kind < 2:
            parts.append(draw(st.sampled_from(SOURCE_WORDS)))
        elif kind < 4:
            parts.append(draw(st.sampled_from(ALONE)))
        else:
            begin, end = draw(st.sampled_from(TAGS[markup]))
            parts.append(begin + draw(markups(markup, depth - 1)) + end)
        parts.append(draw(SPACES))
    return "".join(parts)


def target_texts(source):
    symbols = [f" {symbol} " for symbol in source if symbol in SYMBOLS]
    parts = st.sampled_from([*TARGET_WORDS, *symbols, " ", " ", "\n", ".", ", ", "(", "“"])
    return st.lists(parts, max_size=12).map("".join)


@st.composite
def cases(draw, sources):
    """A markup, a source, its translation and links, which may have nothing to do with it."""
    markup = draw(st.sampled_from([None, "html", "markdown"]))
    text = draw(sources(markup))
    protected = protect(text, markup, symbols=draw(st.booleans()))
    translation = draw(target_texts(protected.text))
    limits = [len(protected.text)] * 2 + [len(translation)] * 2
    ranges = st.tuples(*(st.integers(0, limit) for limit in limits))
    links = draw(st.lists(ranges.map(lambda x: (*sorted(x[:2]), *sorted(x[2:]))), max_size=12))
    return protected, translation, links


def raws(protected):
    return Counter(span.raw for span in (*protected.spans, *protected.replaced))


def found_in(protected, restored):
    """Return the spans found in a text, and the text with `|` in their places."""
    names = sorted(map(re.escape, raws(protected)), key=len, reverse=True)
    if not names:
        return [], restored
    pattern = re.compile("|".join(names))
    return pattern.findall(restored), pattern.sub("|", restored)


def atoms(found):
    """Count the smallest parts of spans: two that stand side by side may look like one."""
    names = "|".join(map(re.escape, ALONE))
    return Counter(re.findall(rf"{names}|<[^<>]*>|\S", "".join(found)))


def without_spaces(text):
    return re.sub(rf"[\s{''.join(SYMBOLS)}]", "", text)


@settings(max_examples=150, deadline=None)
@given(case=cases(markups))
def test_each_is_there_once_unchanged_balanced_and_in_no_word(case):
    protected, translation, links = case
    restored = protected.restore(translation, links)
    found, rest = found_in(protected, restored)
    assert atoms(found) == atoms(raws(protected).elements())
    assert without_spaces(rest.replace("|", "")) == without_spaces(translation)
    assert not re.search(r"(%s|\{n\}|%1\$d|\$\{v\}|\{\})[û-üöäßÉ]", restored)
    assert not any(symbol in restored for symbol in SYMBOLS)
    words = re.compile("[а-яa-zÀ-ÿ]+(?:-[а-я]+)*", re.I)
    assert words.findall(rest) == words.findall(translation)
    opened = []
    for is_end, name, is_alone in re.findall(r"<(/?)(\w+)[^<>]*?(/?)>", "".join(found)):
        if is_end:
            assert opened.pop() == name
        elif not is_alone:
            opened.append(name)
    assert not opened
    is_ordered = re.compile(r"%s|\{\}").search
    ordered = [raw for raw in found if is_ordered(raw)]
    spans = protected.replaced or protected.spans
    expected = [span.raw for span in spans if is_ordered(span.raw)]
    assert "".join(ordered) == "".join(expected)


@settings(max_examples=120, deadline=None)
@given(case=cases(lambda markup: st.text("<>/bip%s${}&;[]()*_`~!\n a.:x@#", max_size=40)))
def test_any_text_keeps_all_that_was_taken_out(case):
    protected, translation, links = case
    restored = protected.restore(translation, links)
    found, rest = found_in(protected, restored)
    assert sorted(without_spaces("".join(found))) == sorted(
        without_spaces("".join(raws(protected).elements()))
    )
    assert without_spaces(rest.replace("|", "")) == without_spaces(translation)


@settings(max_examples=120, deadline=None)
@given(markup=st.sampled_from([None, "html", "markdown"]), data=st.data())
def test_a_text_that_is_not_changed_comes_back(markup, data):
    text = data.draw(markups(markup))
    assume(not re.search(r"\w[<*~\[]|[>*~)]\w", text))  # a tag inside a word is moved
    protected = protect(text, markup, symbols=data.draw(st.booleans()))
    shown = protected.text
    spaces = [(*m.span(), *m.span()) for m in re.finditer(r"(?<=[.!?])\s+|\s*\n\s*", shown)]
    links = [*spaces, *same_order(shown, shown)]
    assert protected.restore(shown, links) == text
