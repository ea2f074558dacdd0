"""Tests for the names, commands, examples and links of `docs/`, the README and the recipe pages."""

import ast
import json
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path

import pytest

import keras_transformer as kt
from keras_transformer.commands import main, select

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
}
NOTEBOOKS = {
    path.relative_to(ROOT).as_posix(): json.loads(path.read_text("utf-8"))
    for path in sorted(DOCS.rglob("*.ipynb"))
}
RECIPES = {
    path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
    for path in sorted((ROOT / "recipes").glob("*/README.md"))
}
PAGE = TEXTS["docs/compatibility.md"]
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "| Test |" not in line]


@pytest.mark.once
def test_each_row_of_the_table_names_a_test():
    assert len(ROWS) > 30
    for row in ROWS:
        feature, *backends, tests = (cell.strip() for cell in row.strip("|").split("|"))
        assert feature and len(backends) == 3 and all(backends), row
        assert re.findall(r"`\w[\w/]*::\w+`", tests), row


@pytest.mark.once
@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(\w[\w/]*::\w+)`", PAGE))))
def test_each_named_test_exists(name):
    path, function = name.split("::")
    tree = ast.parse((ROOT / "tests" / f"{path}.py").read_text(encoding="utf-8"))
    found = [x.name for x in tree.body if isinstance(x, ast.FunctionDef)]
    assert found.count(function) == 1


# Commands

# Commands that are not scripts with options, and where they are tested.
ELSEWHERE = {
    "make": "a target",
    "pip": "extras",
    "mkdir": "export/serving_test.py",
    "tensorflow_model_server": "export/serving_test.py",
    "curl": "export/serving_test.py",
}
# Scripts and modules without a dataclass of options.
PLAIN = {
    "recipes/translation/translate_with_saved_model.py",
    "recipes/same_on_many_devices.py",
    "keras_transformer.parsing.evalb",
}


def commands():
    """Yield (page, words) for each command, without redirections or the commands piped into it."""
    for page, text in {**TEXTS, **RECIPES}.items():
        variables = {}
        for block in re.findall(
            r"^```(?:sh|bash)[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE
        ):
            block = block.replace("\\\n", " ")
            # Experiments share options in shell variables, and prepare data with other programs.
            is_experiment = page.startswith(("docs/experiments/", "recipes/"))
            if is_experiment:
                block = with_variables(block, variables)
            for line in block.splitlines():
                if is_experiment and not re.search("python recipes/|keras-transformer ", line):
                    continue
                line = re.sub(r" [<>&|]+ ?\S*$", "", line.split("echo", 1)[-1].split(" | ")[-1])
                words = shlex.split(re.sub(r" [<>][^<>]*$", "", line), comments=True)
                while words and re.fullmatch(r"[A-Z_]+=\S+", words[0]):
                    del words[0]
                if words:
                    yield page, words


def with_variables(block, variables):
    """Return a block of shell lines with variables replaced, and add its own to `variables`."""

    def keep(match):
        variables[match[1]] = " ".join(match[2].split())
        return ""

    block = re.sub(r'^(\w+)="([^"]*)"\n', keep, block, flags=re.MULTILINE)
    for name in reversed(variables):
        block = block.replace(f"${name}", variables[name])
    return block


COMMANDS = list(commands())


def options_class(words):
    """Return the options and the arguments of `keras-transformer COMMAND ...`, `python SCRIPT ...`
    or `python -m MODULE ...`."""
    if words[0] == "python" and words[1:3] == ["-m", "keras_transformer"]:
        words = ["keras-transformer", *words[3:]]
    if words[0] == "keras-transformer":
        command, used = select(words[1:])
        assert command is not None
        return command.__annotations__["options"], words[1 + used :]
    if words[1] == "-m":
        path = ROOT / words[2].replace(".", "/")
        path = path / "__main__.py" if path.is_dir() else path.with_suffix(".py")
        arguments = words[3:]
    else:
        path, arguments = ROOT / words[1], words[2:]
    names = runpy_names(path)
    return names["Options"], arguments


def runpy_names(path):
    """The names of a script, which is a module while they are used: dataclasses look there."""
    module = types.ModuleType(f"_options_of_{path.parent.name}_{path.stem}")
    sys.modules[module.__name__] = module
    module.__file__ = str(path)
    exec(compile(path.read_text("utf-8"), str(path), "exec"), vars(module))
    return vars(module)


@pytest.mark.once
@pytest.mark.parametrize(
    ("page", "words"),
    COMMANDS,
    ids=lambda x: x if isinstance(x, str) else " ".join(x)[:70],
)
def test_each_documented_command_parses(page, words, monkeypatch):
    """Each command is one that is there, with options that it has."""
    import tyro

    from keras_transformer.command_line import _expand

    monkeypatch.chdir(ROOT)
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        assert words[1] in targets
    elif words[0] == "pip":
        for extra in re.findall(r"\[(\w+)\]", words[2]):
            assert re.search(rf"^{extra} = \[", (ROOT / "pyproject.toml").read_text("utf-8"), re.M)
    elif (
        words[0] in ("python", "keras-transformer")
        and not PLAIN & {*words[1:3]}
        and words[1] != "-c"
    ):
        options, arguments = options_class(words)
        arguments = [x for argument in arguments for x in _expand(argument)]
        try:
            tyro.cli(options, args=arguments, config=(tyro.conf.OmitArgPrefixes,))
        except SystemExit:
            pytest.fail(f"{page}: {' '.join(words)}")
    else:
        assert words[0] in ELSEWHERE or PLAIN & {*words[1:3]} or words[1] == "-c"


@pytest.mark.once
def test_each_script_that_is_named_is_run_by_a_test():
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("*_test.py"))
    # Experiments also name scripts that prepared their data once.
    scripts = {
        words[1]
        for page, words in COMMANDS
        if words[0] == "python" and words[1][0] != "-" and "docs/experiments/" not in page
    }
    assert len(scripts) > 1
    for script in scripts:
        assert f'"{Path(script).name}"' in tests, script


@pytest.mark.slow
@pytest.mark.once
def test_commands_with_models_of_the_checkout(monkeypatch):
    """The README's own lines, in a shell."""
    lines = [
        line
        for line in TEXTS["README.md"].splitlines()
        if re.match(r"(echo |keras-transformer translate)", line)
        and "--model saved_models/" in line
        and "<" not in line
    ]
    assert len(lines) == 2
    answers = []
    for line in lines:
        command = f"{shlex.quote(sys.executable)} -m keras_transformer"
        line = line.replace("keras-transformer", command)
        process = subprocess.run(line, shell=True, cwd=ROOT, capture_output=True, text=True)
        assert (process.returncode, process.stderr) == (0, ""), line
        answers.append(process.stdout)
    assert answers[0] == "Ein Hund rennt durch den Schnee.\n"
    assert "attachment" in answers[1]


# Models of others

WORDS = ("tried", "built from its description")


def families():
    """Return (format, word) of each row of the guide's table that opens other libraries' files."""
    rows = []
    for row in re.findall(r"^\|(.*)\|$", TEXTS["docs/guides/convert.md"], re.MULTILINE)[2:]:
        family, _, read, _, claim = (cell.strip() for cell in row.split("|"))
        if read.startswith(("`from_preset`", "the same")):
            found = re.search(r"kt\.convert\.(\w+)", read)
            name = found[1] if found else rows[-1][0] if read == "the same" else "hf"
            rows.append((name, re.match(r"\*([a-z ]+)\*: \S", claim)[1]))
            assert re.findall(r"\*([a-z ]+)\*", claim) == [rows[-1][1]], family
    return rows


@pytest.mark.once
def test_each_family_of_models_is_tried_or_built_from_its_description():
    rows = families()
    assert {name for name, _ in rows} == {"marian", "m2m100", "fsmt", "ctranslate2", "hf"}
    assert {word for _, word in rows} == set(WORDS)


@pytest.mark.once
def test_the_help_of_convert_has_the_words_of_the_guide(capsys):
    with pytest.raises(SystemExit):
        main(["convert", "--help"])
    text = " ".join(re.sub("[│╭╮╰╯─]", " ", capsys.readouterr().out).split())
    for name in ("marian", "m2m100", "fsmt", "ctranslate2"):
        claim = re.search(rf"{name} \(([^)]*)\)", text)[1]
        found = {word for word in WORDS if word in claim}
        assert found == {word for family, word in families() if family == name}


@pytest.mark.once
def test_the_readme_names_no_address_that_was_not_tried():
    assert "hf://" not in TEXTS["README.md"]
    for word in WORDS:
        assert f"*{word}*" in " ".join(TEXTS["README.md"].split())


# Python

EXAMPLES = {
    page: re.findall(r"^```python exec=\"true\"[^\n]*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for page, text in TEXTS.items()
} | {
    page: ["".join(x["source"]) for x in notebook["cells"] if x["cell_type"] == "code"]
    for page, notebook in NOTEBOOKS.items()
}


@pytest.mark.once
@pytest.mark.parametrize("page", NOTEBOOKS)
def test_notebooks_hold_no_outputs_and_are_pages_of_the_same_code(page):
    for cell in NOTEBOOKS[page]["cells"]:
        assert not cell.get("outputs") and not cell.get("execution_count")
    blocks = runpy_names(DOCS / "hooks.py")["notebook_page"](ROOT / page)
    code = re.findall(
        r"^```python exec=\"true\"[^\n]*\n(.*?)^```", blocks, re.DOTALL | re.MULTILINE
    )
    assert [block.rstrip("\n") for block in code] == EXAMPLES[page]


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.parametrize("page", sorted(page for page, blocks in EXAMPLES.items() if blocks))
def test_examples_of_a_page_run_in_order(page, monkeypatch):
    """The build of the pages runs the blocks of a page in this order."""
    monkeypatch.chdir(ROOT)
    module = types.ModuleType("_examples_of_a_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for block in EXAMPLES[page]:
        exec(compile(block, page, "exec"), vars(module))


@pytest.mark.once
def test_documented_names_exist():
    found = set()
    for text in (*TEXTS.values(), *map(str, NOTEBOOKS.values())):
        found |= set(re.findall(r"\bkt((?:\.[A-Za-z_]\w*)+)", text))
    assert len(found) > 30
    for name in found:
        thing = kt
        for part in name[1:].split("."):
            assert hasattr(thing, part), f"kt{name}"
            thing = getattr(thing, part)


@pytest.mark.once
def test_code_in_pages_uses_existing_names():
    """What the pages take from the package is there; and each public name has its place."""
    hooks = runpy_names(DOCS / "hooks.py")
    for text in TEXTS.values():
        for name in re.findall(r"<!-- code: (\S+) -->", text):
            assert '"""' not in hooks["code"](name)
    pages = "".join(text for page, text in TEXTS.items() if page.startswith("docs/reference"))
    for name in kt.__all__:
        if isinstance(getattr(kt, name), types.ModuleType):
            assert f"<!-- reference: keras_transformer.{name} -->" in pages
            assert f"heading: kt.{name}." in hooks["reference"](f"keras_transformer.{name}")
        elif callable(getattr(kt, name)):
            assert re.search(rf"^::: keras_transformer\.{name}$", pages, re.MULTILINE), name


@pytest.mark.once
def test_a_failed_example_ends_the_build_of_the_pages():
    hook = runpy_names(DOCS / "hooks.py")["on_page_content"]
    page = types.SimpleNamespace(file=types.SimpleNamespace(src_path="index.md"))
    assert hook("<p>A <b>command</b> is found.</p>", page) == "<p>A <b>command</b> is found.</p>"
    for output in ("x: <span>command</span> not found", "Traceback (most recent <i>call</i> last)"):
        with pytest.raises(RuntimeError, match="index.md fails"):
            hook(f"<code>{output}</code>", page)


@pytest.mark.once
def test_the_site_has_all_pages():
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = re.findall(r": (\S+\.md)$", config, re.MULTILINE)
    pages = [page.removeprefix("docs/") for page in TEXTS if page.startswith("docs/")]
    pages += [page.removeprefix("docs/").replace(".ipynb", ".md") for page in NOTEBOOKS]
    assert sorted(listed) == sorted(pages)


def slug(heading):
    """Return the anchor of a heading, as MkDocs and GitHub make it."""
    return re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-")


@pytest.mark.once
def test_links_have_targets():
    for page, text in {**TEXTS, **RECIPES}.items():
        text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = link.partition("#")
            if not link.startswith("http"):
                target = (ROOT / page).parent / path if path else ROOT / page
                assert target.exists(), f"{page}: {link}"
                if anchor and target.suffix == ".md":
                    headings = re.findall(r"^#+ (.*)$", target.read_text("utf-8"), re.MULTILINE)
                    assert anchor in {slug(heading) for heading in headings}, f"{page}: {link}"


@pytest.mark.once
def test_committed_pictures_equal_the_drawn_ones(tmp_path):
    pictures = runpy_names(DOCS / "pictures.py")
    pictures["draw_architecture"](tmp_path)
    for name in pictures["PICTURES"]:
        drawn, kept = (
            re.findall(r">([^<>]+)</text>|>([^<>]+)</tspan>", (folder / f"{name}.svg").read_text())
            for folder in (tmp_path, DOCS / "images")
        )
        assert drawn and drawn == kept, f"python docs/pictures.py draws {name} anew"
