"""Every example in the README and the docs runs, and prints what it says."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    namespace = {"__name__": "docs"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sessions_print_what_they_say(page):
    assert doctest.testfile(str(page), module_relative=False).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_number_in_the_readme(capsys):
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL).group(1)
    exec(compile(block, "README.md", "exec"), {})
    steps, loss = capsys.readouterr().out.splitlines()[0].split()
    said = re.search(r"# (\d+), ([\d.]+)$", block, flags=re.MULTILINE)
    assert int(steps) == int(said.group(1))
    assert float(loss) == pytest.approx(float(said.group(2)), abs=5e-4)
