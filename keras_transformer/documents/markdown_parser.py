"""The parser of Markdown, with the places of inline tokens, which markdown-it-py lacks."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.container import container_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.footnote import footnote_plugin

from keras_transformer.protection.spans import MarkedText, Span

_OPTIONS = {"tasklists": True, "alerts": True, "inline_definitions": True, "maxNesting": 60}
_DEEPEST = 12  # links in links, which each take the parser time
_SCHEME = re.compile(r"(?<![\w.+-])(?:https?|ftp)\Z")
_URL = re.compile(r"://[^\s<]*[^\s<?!.,:;*_~'\"()\]]")
_USER = re.compile(r"[\w.+-]+\Z")
_HOST = re.compile(r"@[\w-]+(?:\.[\w-]+)+")
_TEX = re.compile(r"\\(?:[(\[]|begin\{(\w+\*?)\})")
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)")
_KINDS = {"hardbreak": "separator", "footnote_ref": "mark"}
_ENDS = {**dict.fromkeys(("link", "image", "footnote_ref"), "]"), "autolink": ">"}
_KEPT = frozenset(("code", "kbd", "samp", "var", "tt", "pre", "script", "style", "svg", "math"))
_SEPARATORS = frozenset(("br", "hr", "img", "input"))
_REASONS = {"code_inline": "in code", "math_inline": "in math", "math_inline_double": "in math"}
SPACE = " \t\r\n"


class _State(StateInline):
    """A state whose tokens have a `map`: the place where the parser was."""

    def push(self, ttype, tag, nesting):
        token = super().push(ttype, tag, nesting)
        token.map = [self.pos, self.pos]
        return token


class _Inline(ParserInline):
    def parse(self, src, md, env, tokens):
        state = _State(src, md, env, tokens)
        state.level = _OPTIONS["maxNesting"] - _DEEPEST
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


def _with_places(rule, end: str | None):
    """Return a rule of the parser whose tokens have their places."""

    def run(state, silent):
        start, size = state.pos, len(state.tokens)
        # Without an end, each beginning would look for one up to the end of the text.
        found = (not end or state.html_terminator_last(end) > start) and rule(state, silent)
        new = [] if silent or not found else [t for t in state.tokens[size:] if t.map]
        if new and new[0].type == "text":  # the marks of emphasis, which may become tokens
            for token in new:
                token.map = [start, start + len(token.content)]
                start = token.map[1]
        elif new and new[0].info == "auto":
            new[0].map = [start, state.pos]
        elif new:
            # The first letters of an address are behind the place where it is found.
            new[0].map[0], new[-1].map[1] = min(start, new[0].map[0]), state.pos
        return found

    return run


def _tex(state: StateInline, silent: bool) -> bool:
    r"""Parse `\(a\)`, an environment, and `\[a\]` on lines of its own."""
    source, start = state.src, state.pos
    match = _TEX.match(source, start)
    if not match:
        return False
    end = {r"\(": r"\)", r"\[": r"\]"}.get(match[0]) or rf"\end{{{match[1]}}}"
    if state.html_terminator_last(end) < match.end():
        return False
    stop = source.find(end, match.end(), state.posMax) + len(end)
    is_alone = source[start - 1 : start] in ("", "\n") and source[stop : stop + 1] in ("", "\n")
    if stop < match.end() or (match[0] == r"\[" and not is_alone):
        return False
    if not silent:
        state.push("math_inline", "math", 0).content = source[start:stop]
    state.pos = stop
    return True


def _address(state: StateInline, silent: bool) -> bool:
    """Parse an address without brackets."""
    pos, mark = state.pos, state.src[state.pos]
    if silent or state.linkLevel or mark not in ":@":
        return False
    first = pos - min(len(state.pending), 64)
    start = (_SCHEME if mark == ":" else _USER).search(state.src, first, pos)
    found = (_URL if mark == ":" else _HOST).match(state.src, pos, state.posMax)
    if not start or not found:
        return False
    is_inside = found[0].count("(") > found[0].count(")")
    state.push("address", "", 0).map = [start.start(), pos]
    state.pos = found.end() + (is_inside and state.src.startswith(")", found.end()))
    return True


def make_parser() -> MarkdownIt:
    """Return a parser of CommonMark, GitHub's extensions and those common in page generators."""
    parser = MarkdownIt("commonmark", _OPTIONS)
    parser.inline = _Inline()
    parser.enable("table")
    for plugin in (deflist_plugin, admon_plugin):
        parser.use(plugin)
    parser.use(footnote_plugin, inline=False, move_to_end=False)
    parser.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    parser.use(container_plugin, "block", validate=lambda params, _: bool(params.strip()))
    parser.inline.ruler.before("escape", "tex", _tex)
    parser.inline.ruler.push("address", _address)
    inline = parser.inline.ruler
    for name, rule in zip(inline.get_active_rules(), inline.getRules("")):
        inline.at(name, _with_places(rule, _ENDS.get(name)))
    parser.core.ruler.enableOnly(["normalize", "block"])
    parser.validateLink = lambda url: True  # Each link is one, wherever it leads.
    parser.normalizeLink = lambda url: url
    parser.normalizeLinkText = lambda link: link
    return parser


class InlineText:
    """The content of a block as text with spans, whose places are those in the content.

    The `content` of a span is how it is written in any place: the half of a link that has no other
    label than its text names it.

    Attributes:
        marked: the `MarkedText`. A line break is `"\\n"`, and a hard one is a separator.
        breaks: places of the line breaks that are not hard.
        kept: `Counter` of reasons why parts are not translated.
    """

    def __init__(self, parser: MarkdownIt, content: str, env: Any):
        self.breaks: list[tuple[int, int]] = []
        self.kept: Counter[str] = Counter()
        self._content = content
        self._texts: list[str] = []
        self._size = self._last = 0
        self._spans: list[tuple[int, Span]] = []
        # The pairs that are open: their tag in HTML, and the numbers of texts and spans before.
        self._opened: list[tuple[str, int, int]] = []
        self._num_open: Counter[tuple[int, str]] = Counter()  # by the number of pairs of Markdown
        self._read(parser.inline.parse(content, parser, env, []), 0)
        self._add_text(content[self._last :])
        self.marked = MarkedText("".join(self._texts), tuple(self._spans))

    def _add_text(self, text: str) -> None:
        self._texts.append(text)
        self._size += len(text)

    def _read(self, tokens: Iterable[Token], offset: int) -> None:
        for token in tokens:
            if not token.map or token.type == "text":
                continue
            start, stop = token.map[0] + offset, token.map[1] + offset
            # The second mark of `**` is another token.
            start, stop = (
                start - (token.type == "strong_open"),
                stop + (token.type == "strong_close"),
            )
            is_break = token.type in ("softbreak", "hardbreak")
            gap = self._content[self._last : start]
            if token.info != "auto" or token.nesting > 0:
                self._add_text(gap.rstrip(" ") if is_break else gap)
                start -= len(gap) - len(gap.rstrip(" ")) if is_break else 0
                self._last = stop
                self._read_token(token, start, stop)

    def _read_token(self, token: Token, start: int, stop: int) -> None:
        self.kept["in titles"] += "title" in token.attrs
        if token.type == "softbreak":
            self.breaks.append((start, stop))
            self._add_text("\n")
        elif token.type == "text_special":
            self._add_text(token.content)
        elif token.type == "html_inline":
            self._read_tag(token.content, start, stop)
        elif token.type == "image":
            self._open(start, start + 2)
            self._last = start + 2
            self._read(token.children or (), start + 2)
            inner_stop = start + 2 + len(token.content)
            self._add_text(self._content[self._last : inner_stop])
            self._last = stop
            self._close(inner_stop, stop)
        elif token.nesting > 0 and token.info != "auto":
            self._open(start, stop)
        elif token.nesting < 0:
            self._close(start, stop)
        else:
            self._add(start, stop, _KINDS.get(token.type, "placeholder"))
            reason = _REASONS.get(token.type)
            self.kept[reason or ""] += any(map(str.isalpha, token.content))

    def _add(self, start: int, stop: int, kind: Any) -> None:
        raw = self._content[start:stop]
        self._spans.append((self._size, Span(raw, kind, start, stop, content=raw)))

    def _open(self, start: int, stop: int, tag: str = "", kind: Any = "open") -> None:
        self._num_open[self._num_open[0, ""] if tag else 0, tag] += 1
        self._opened.append((tag, len(self._texts), len(self._spans)))
        self._add(start, stop, kind)

    def _close(self, start: int, stop: int, tag: str = "") -> None:
        """Close the pair that was opened last, with this tag. A tag without its end is a mark."""
        found = None
        while found != tag:
            found, num_texts, num_spans = self._opened.pop()
            self._num_open[self._num_open[0, ""] if found else 0, found] -= 1
        first = self._spans[num_spans][1]
        texts = (self._texts[i] for i in range(num_texts, len(self._texts)))
        if tag in _KEPT or not any(text.strip(SPACE) for text in texts):
            self._merge(first, stop, tag in _KEPT, num_texts, num_spans)
            return
        self._add(start, stop, "close")
        last = self._spans[-1][1]
        first.kind, first.partner, last.partner = "open", last, first
        if first.raw in ("[", "![") and last.raw in ("]", "][]"):
            last.content = f"][{' '.join(self._content[first.stop : start].split())}]"

    def _merge(self, first: Span, stop: int, is_code: bool, num_texts: int, num_spans: int) -> None:
        """Make one span of a pair that has no words to translate."""
        if is_code and any(map(str.isalpha, "".join(self._texts[num_texts:]))):
            self.kept["in code"] += 1
        is_word = is_code or any(x.kind == "placeholder" for _, x in self._spans[num_spans:])
        self._size = self._spans[num_spans][0]
        self.breaks = [x for x in self.breaks if x[0] < first.start]
        del self._texts[num_texts:], self._spans[num_spans:]
        self._add(first.start, stop, "placeholder" if is_word else "separator")

    def _read_tag(self, raw: str, start: int, stop: int) -> None:
        match = _TAG.match(raw)
        is_end, tag = (bool(match[1]), match[2].lower()) if match else (False, "")
        if tag in _SEPARATORS:
            self._add(start, stop, "separator")
        elif not tag or raw.endswith("/>"):
            self._add(start, stop, "mark")
        elif not is_end:
            self._open(start, stop, tag, "mark")
        elif self._num_open[self._num_open[0, ""], tag]:
            self._close(start, stop, tag)
        else:
            self._add(start, stop, "mark")
