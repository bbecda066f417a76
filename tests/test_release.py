"""What a release says of itself, said the same everywhere."""

import re
import tomllib
from pathlib import Path

import forgetless as fl

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENT = re.compile(r"([\w-]+)>=([\w.]+)")


def test_version_and_date_agree():
    newest = re.search(r"^## \[(\d[^]]*)] - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    citation = (ROOT / "CITATION.cff").read_text()
    assert newest.group(1) == fl.__version__
    assert f"\nversion: {fl.__version__}\n" in citation
    assert f"\ndate-released: {newest.group(2)}\n" in citation


def test_changes_to_come_are_above_the_newest_release():
    headings = re.findall(r"^## \[(.*?)]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["Unreleased", fl.__version__]


def test_the_oldest_versions_promised_are_those_tested():
    extras = PROJECT["optional-dependencies"]
    promised = [*PROJECT["dependencies"], *(line for name, lines in extras.items() if name != "dev" for line in lines)]
    floors = {REQUIREMENT.fullmatch(line).groups() for line in promised if not line.startswith("forgetless[")}
    tested = (ROOT / "constraints-oldest.txt").read_text().split("\n\n")[0]
    assert set(re.findall(r"^([\w-]+)==([\w.]+)$", tested, re.MULTILINE)) == floors
