"""Every example in the README and the docs runs, and prints what it says."""

import ast
import doctest
import re
from pathlib import Path

import pytest

import forgetless as fl
from forgetless.cli import cli
from forgetless.schedules.named import MAKERS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MARKS = {"deep.md": [pytest.mark.torch], "index.md": [pytest.mark.long], "which-lambda.md": [pytest.mark.long]}
RUNNABLE = [pytest.param(page, marks=MARKS.get(page.name, [])) for page in PAGES]


NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")


def numbers(text):
    """Every number in a text, with half a unit of its last digit; commas between digits are not decimal points."""
    found = []
    for word in NUMBER.findall(text):
        mantissa, _, exponent = word.partition("e")
        digits = len(mantissa.partition(".")[2])
        found.append((float(word), 0.5001 * 10.0 ** (int(exponent or 0) - digits)))
    return found


def check_printed(said, printed, where):
    """Whatever numbers are said to be printed are printed, in that order, to every digit shown."""
    left = iter([value for value, _ in numbers(printed)])
    for value, half in numbers(said):
        assert any(abs(each - value) <= half for each in left), f"{where}: {value} is not printed"


def statements(block):
    """Every statement of a block, and of a print what its comment says: one that begins with a number."""
    lines = block.splitlines()
    for statement in ast.parse(block).body:
        end = statement.end_lineno
        comment = lines[end - 1].rpartition("  # ")[2] if "  # " in lines[end - 1] else ""
        prints = ast.unparse(statement).startswith("print(") and re.match(r"[\[(]?-?\d", comment)
        yield ast.Module([statement], []), comment if prints else ""


FENCE = re.compile(r"^```(python|pycon)\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_pages_run_top_to_bottom_and_print_what_they_say(page, capsys, tmp_path, monkeypatch):
    """All code of a page in its order, as a reader would type it; ``pycon`` is a session, ``python`` a program.

    Of a program the numbers in comments and in the text block that follows are compared with what is printed.
    """
    namespace, text = {"__name__": "docs"}, page.read_text()
    monkeypatch.chdir(tmp_path)  # pages write files as a reader would
    for fence in FENCE.finditer(text):
        kind, block, shown = fence.groups()
        where = f"{page.name}, line {text[: fence.start()].count(chr(10)) + 1}"
        if kind == "pycon":
            session = doctest.DocTestParser().get_doctest(block, namespace, where, str(page), 0)
            session.globs = namespace  # its own copy would not be known to what follows
            failed = doctest.DocTestRunner().run(session, out=lambda _: None, clear_globs=False).failed
            assert failed == 0, f"{where}: prints something else than\n{block}"
        else:
            check_printed(shown or "", _run(block, namespace, where, capsys), where)


def _run(block, namespace, where, capsys):
    printed = ""
    for statement, said in statements(block):
        exec(compile(statement, where, "exec"), namespace)
        out = capsys.readouterr().out
        check_printed(said, out, where)
        printed += out
    return printed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        made = target.removeprefix("auto_gallery/")  # by make docs, from the scripts of the gallery
        assert (page.parent / target).exists() or (made != target and (page.parent / "gallery").is_dir()), target


def test_the_laboratory_lists_every_schedule_and_metric():
    page = (ROOT / "docs/laboratory.md").read_text()
    for name in (*MAKERS, *fl.metrics.NAMED):
        assert re.search(rf"`{name}\b", page), name


TEXTS = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))]
SCRIPTS = ("docs/gallery/**/*.py", "examples/*.py", "papers/*.py", "src/**/*.py")
for pattern in ("docs/*/*.md", "research/**/*.md", *SCRIPTS):
    TEXTS += sorted(ROOT.glob(pattern))


def exists(dotted):
    """Return whether a name below ``fl`` exists; attributes of instances cannot be looked up, and count as there."""
    found = fl
    for name in dotted.split("."):
        if isinstance(found, type):
            return True
        found = getattr(found, name, None)
        if found is None:
            return False
    return True


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_targets_commands_and_paths_exist(page):
    text = page.read_text()
    for name in re.findall(r"(?<![\w.])fl\.((?!torch)\w+(?:\.\w+)*)", text):
        assert exists(name), f"fl.{name}"
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in re.findall(r"(?:`|^ {4,}|&& )make ([a-z-]+)", text, re.MULTILINE):
        assert target in targets, f"make {target}"
    if page.suffix == ".md":
        for command in re.findall(r"(?:`|^ {4})forgetless ([a-z]+)", text, re.MULTILINE):
            assert command in cli.list_commands(None), f"forgetless {command}"
    for path in re.findall(r"(?<![\w/.-])(\w\w+(?:/\w+)+\.(?:py|js|json)\b)", text):
        places = (ROOT, ROOT / "src", ROOT / "src/forgetless", ROOT / "tests")
        assert any((place / path).exists() for place in places), path
