"""Hooks of the site: code of the package, formulas, references.

- `<!-- code: module:Name.method -->` becomes that piece of code, without its docstring.
- `$$ ... $$` becomes MathML, which browsers draw themselves.
- `<!-- reference: module -->` becomes the documentation of each name of a public namespace.
- A notebook becomes a page: the build runs its cells like the examples of other pages.
- An example that fails ends the build: without this, its error would be the text of the page.
"""

import ast
import functools
import importlib
import inspect
import json
import re
import sys
import textwrap
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]
# Keras's own, of each array that JAX or PyTorch gives.
warnings.filterwarnings("ignore", "__array__ implementation", DeprecationWarning)


def on_files(files, config):
    """Add a page for each notebook. The notebook itself is copied, to be downloaded."""
    from mkdocs.structure.files import File

    for uri in [file.src_uri for file in files if file.src_uri.endswith(".ipynb")]:
        content = notebook_page(Path(config.docs_dir, uri))
        files.append(File.generated(config, uri.replace(".ipynb", ".md"), content=content))
    return files


def notebook_page(path):
    """Return a notebook as Markdown, whose blocks of code run in one session."""
    title, *cells = json.loads(path.read_text("utf-8"))["cells"]
    download = f'<a href="../{path.name}" download>Download this notebook</a>'
    blocks = ["".join(title["source"]), download]
    for cell in cells:
        block = "".join(cell["source"])
        if cell["cell_type"] == "code":
            result = 'result="text" ' if "print(" in block else ""
            options = f'exec="true" source="above" {result}session="{path.stem}"'
            block = f"```python {options}\n{block}\n```"
        blocks.append(block)
    return "\n\n".join(blocks)


def on_page_markdown(markdown, **_):
    # Links to notebooks lead to their pages here, and to the files elsewhere.
    markdown = re.sub(r"(\]\((?:[\w./]*/)?notebooks/\w+)\.ipynb\)", r"\1.md)", markdown)
    markdown = re.sub(r"<!-- code: (\S+) -->", lambda match: code(match[1]), markdown)
    markdown = re.sub(r"<!-- reference: (\S+) -->", lambda match: reference(match[1]), markdown)
    return re.sub(r"^\$\$\n(.*?)\n\$\$$", formula, markdown, flags=re.DOTALL | re.MULTILINE)


def on_page_content(html, page, **_):
    text = re.sub(r"<[^>]+>", "", html)
    if found := re.search(r"Traceback \(most recent call last\)|command not found", text):
        raise RuntimeError(
            f"An example of {page.file.src_path} fails: {text[found.start() :][:500]}"
        )
    return html


def code(name):
    """A fenced block of a function or class of the package, by `module:Name.method`."""
    module, _, path = name.partition(":")
    thing = importlib.import_module(module)
    for part in path.split("."):
        thing = inspect.getattr_static(thing, part)
    source = textwrap.dedent(inspect.getsource(getattr(thing, "__func__", thing)))
    (node,) = ast.parse(source).body
    lines = source.splitlines()
    if ast.get_docstring(node) is not None:
        docstring = node.body[0]
        del lines[docstring.lineno - 1 : docstring.end_lineno]
        while len(lines) > docstring.lineno - 1 and not lines[docstring.lineno - 1].strip():
            del lines[docstring.lineno - 1]
    title = f"{module.replace('.', '/')}.py"
    return f'```python title="{title}"\n' + "\n".join(lines) + "\n```"


def formula(match):
    from latex2mathml.converter import convert

    mathml = convert(match[1].strip(), display="block")
    return f'<div class="formula">{mathml}</div>'


def reference(module):
    """Return a heading and the docstring of each name of a namespace, in the order of its table."""
    # By attribute: `keras_transformer.constraints` is not a module of that path.
    package, *names = module.split(".")
    namespace = functools.reduce(getattr, names, importlib.import_module(package))
    short = module.replace("keras_transformer", "kt")
    blocks = []
    for name in namespace.__all__:
        thing = getattr(namespace, name)
        # Readers see the name that they write, not the module that defines it.
        heading = f"    options: {{ heading: {short}.{name}, toc_label: {name} }}"
        blocks.append(f"::: {thing.__module__}.{thing.__name__}\n{heading}")
    return "\n\n".join(blocks)
