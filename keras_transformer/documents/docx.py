"""Word documents (`.docx`): the text of a paragraph between tabs and line breaks is a unit."""

import copy
import html
import re
import shutil
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer.documents.document import Document, local_name, parse_xml, required, splice
from keras_transformer.documents.fragments import TAG, Dialect, Fragment, fragments
from keras_transformer.errors import UserError

_PARTS = re.compile(r"word/[^/]+\.xml")
_ROOTS = ("document", "hdr", "ftr", "footnotes", "endnotes")
_LARGEST_PART = 1 << 28  # bytes
_LARGEST_TOTAL = 1 << 31

_BREAKS = ("br", "tab", "cr", "ptab")
_CONTAINERS = ("hyperlink", "ins", "smartTag", "moveTo")
# Hints of Word about its last layout and its checks.
_DROPPED = ("proofErr", "lastRenderedPageBreak")
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"

DIALECT = Dialect(ends=r'<br id="\d+"/>')


class Docx(Document):
    """A Word document. Other parts of the file than those with texts are copied."""

    markup = "html"

    def _read(self) -> None:
        required("lxml.etree", "lxml")
        self._paragraphs: list[_Paragraph] = []
        self._roots: dict[str, Any] = {}
        try:
            with zipfile.ZipFile(self.path) as file:
                self._check_sizes(file)
                if "word/document.xml" not in file.namelist():
                    raise UserError(f"{self.path} has no part word/document.xml: not a .docx file.")
                for name in filter(_PARTS.fullmatch, file.namelist()):
                    root = parse_xml(file.read(name), f"{self.path}, {name}")
                    if local_name(root) in _ROOTS:
                        self._roots[name] = root
                        self._read_part(name, root)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
            raise UserError(f"{self.path} is not a complete .docx file: {error}.") from None

    def _check_sizes(self, file: zipfile.ZipFile) -> None:
        total = 0
        for part in file.infolist():
            total += part.file_size
            is_read = _PARTS.fullmatch(part.filename)
            if total > _LARGEST_TOTAL or (is_read and part.file_size > _LARGEST_PART):
                raise UserError(
                    f"{self.path}, {part.filename}: {part.file_size:,} bytes when unpacked. "
                    f"Expected at most {_LARGEST_PART:,} of text, and {_LARGEST_TOTAL:,} in all"
                )

    def _read_part(self, name: str, root: Any) -> None:
        depth = 0  # of fields, which may extend over paragraphs
        for number, element in enumerate(root.iter("{*}p"), start=1):
            if element.tag.rpartition("}")[0] != root.tag.rpartition("}")[0]:
                continue  # a paragraph of a drawing
            paragraph = _Paragraph(element, depth)
            depth = paragraph.depth
            self.skipped["in fields"] += paragraph.has_field_text
            for part in fragments(paragraph.text, DIALECT):
                if self._add(part.text, f"{name}, paragraph {number}"):
                    paragraph.parts.append((part, len(self.units) - 1))
            if paragraph.parts:
                self._paragraphs.append(paragraph)

    def render(self, translations: Sequence[str | None], path: Path) -> None:
        for paragraph in self._paragraphs:
            edits = [
                (part.start, part.stop, new)
                for part, number in paragraph.parts
                if (new := self._restored(part, translations[number], paragraph.text.__getitem__))
            ]
            paragraph.fill(splice(paragraph.text, edits))
        with zipfile.ZipFile(self.path) as source, zipfile.ZipFile(path, "w") as target:
            for part in source.infolist():
                root = self._roots.get(part.filename)
                with target.open(copy.copy(part), "w") as new, source.open(part) as old:
                    if root is None:
                        shutil.copyfileobj(old, new)
                    else:
                        root.getroottree().write(new, encoding="UTF-8", standalone=True)


class _Paragraph:
    """A paragraph as a text with tags, each of which stands for a piece of it.

    `<g id="1">` stands for the format of runs, or for an element around runs such as a link;
    `<br id="2"/>` for a tab or a line break, and `<ph id="3"/>` for anything else. The format of
    most of the text has no tags.

    Attributes:
        text: the text.
        depth: the number of fields that are open at the end.
        parts: the units, with their numbers.
        has_field_text: whether it contains text of a field, such as a table of contents.
    """

    def __init__(self, element: Any, depth: int):
        self.element = element
        self.depth = depth
        self.parts: list[tuple[Fragment, int]] = []
        self.has_field_text = False
        # Pairs of a kind and a content: "format", "in", "out", "br" and "ph".
        self._tokens: list[Any] = []
        self._formats: dict[bytes, Any] = {}
        self._walk(element)
        lengths = Counter()
        for kind, content in self._tokens:
            if kind == "text":
                lengths[content[0]] += len(content[1])
        self._base = max(lengths, key=lengths.__getitem__, default=b"")
        self._pieces: list[tuple[str, Any]] = []
        self.text = "".join(self._tag(*token) for token in self._tokens)

    def _walk(self, element: Any) -> None:
        for child in element.iterchildren("*"):
            name = local_name(child)
            if name == "r":
                self._walk_run(child)
            elif name in _CONTAINERS and not self.depth:
                self._tokens.append(("in", child))
                self._walk(child)
                self._tokens.append(("out", None))
            elif name not in ("pPr", *_DROPPED):
                self.has_field_text |= name == "fldSimple"
                self._append("ph", child)

    def _walk_run(self, run: Any) -> None:
        form = run.find("{*}rPr")
        key = _format_key(form)
        self._formats.setdefault(key, form)
        for part in run.iterchildren("*"):
            name, kind = local_name(part), part.get(part.tag.replace("fldChar", "fldCharType"))
            self.depth += name == "fldChar" and kind == "begin"
            if name == "t" and not self.depth:
                text, last = part.text or "", (self._tokens or [("", ())])[-1]
                if last[0] == "text" and (last[1][0] == key or text == " "):
                    self._tokens[-1] = "text", (last[1][0], last[1][1] + text)
                else:
                    self._tokens.append(("text", (key, text)))
            elif name not in ("rPr", *_DROPPED):
                self.has_field_text |= name == "t" and any(map(str.isalpha, part.text or ""))
                self._append(
                    "br" if name in _BREAKS and not self.depth else "ph", (run, form, part)
                )
            self.depth -= name == "fldChar" and kind == "end" and self.depth > 0

    def _append(self, kind: str, content: Any) -> None:
        """Append a token; pieces that follow one another are one."""
        if kind == "ph" and self._tokens and self._tokens[-1][0] == "ph":
            self._tokens[-1][1].append(content)
        else:
            self._tokens.append((kind, [content]))

    def _tag(self, kind: str, content: Any) -> str:
        """Return the text of a token."""
        if kind == "out":
            return "</g>"
        if kind == "text" and content[0] == self._base:
            return html.escape(content[1], quote=False)
        self._pieces.append((kind, content))
        number = len(self._pieces)
        if kind == "text":
            return f'<g id="{number}">{html.escape(content[1], quote=False)}</g>'
        return f'<g id="{number}">' if kind == "in" else f'<{kind} id="{number}"/>'

    def fill(self, text: str) -> None:
        """Replace the content of the paragraph by another text with the same tags."""
        if text == self.text:
            return
        new: list[Any] = []
        opened: list[tuple[Any, Any]] = [(new, self._formats.get(self._base))]
        for token in re.split(f"({TAG})", text):
            into, form = opened[-1]
            number = re.search(r'id="(\d+)"', token) if token.startswith("<") else None
            if token == "</g>":
                opened.pop()
            elif number is None:
                if token:
                    into.append(self._run(html.unescape(token), form))
            else:
                kind, content = self._pieces[int(number[1]) - 1]
                if kind == "text":
                    opened.append((into, self._formats[content[0]]))
                elif kind == "in":
                    into.append(_copy_of(content))
                    opened.append((into[-1], form))
                else:
                    for piece in content:
                        into.append(_run_with(*piece) if isinstance(piece, tuple) else piece)
        for child in list(self.element):
            if local_name(child) != "pPr":
                self.element.remove(child)
        self.element.extend(new)

    def _run(self, text: str, form: Any) -> Any:
        part = self.element.makeelement(self.element.tag[:-1] + "t", {_SPACE: "preserve"})
        part.text = text
        return _run_with(self.element.makeelement(self.element.tag[:-1] + "r"), form, part)


def _run_with(run: Any, form: Any, part: Any) -> Any:
    """Return a new run like another one, with its format and one part."""
    new = _copy_of(run)
    if form is not None:
        new.append(copy.deepcopy(form))
    new.append(part)
    return new


def _copy_of(element: Any) -> Any:
    """Return a copy of an element without its content."""
    return element.makeelement(element.tag, dict(element.attrib), element.nsmap)


def _format_key(form: Any) -> bytes:
    """Return what identifies a format, without the language, which is no matter of format."""
    if form is None:
        return b""
    form = copy.deepcopy(form)
    for child in form.iterchildren("{*}lang", "{*}noProof"):
        form.remove(child)
    return required("lxml.etree", "lxml").tostring(form, with_tail=False) if len(form) else b""
