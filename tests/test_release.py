"""What a release says of itself, said the same everywhere."""

import re
import tomllib
from pathlib import Path

from packaging.utils import canonicalize_name

import forgetless as fl

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIREMENT = re.compile(r"([\w-]+)>=([\w.]+)")


def test_version_and_date_agree():
    changes = (ROOT / "CHANGELOG.md").read_text()
    newest = re.search(r"^## \[(\d[^]]*)] - (\d{4}-\d\d-\d\d)$", changes, re.MULTILINE)
    assert re.findall(r"^## \[(.*?)]", changes, re.MULTILINE)[:2] == ["Unreleased", fl.__version__]
    citation = (ROOT / "CITATION.cff").read_text()
    assert newest.group(1) == fl.__version__
    assert f"\nversion: {fl.__version__}\n" in citation
    assert f"\ndate-released: {newest.group(2)}\n" in citation
    assert f'version = "{fl.__version__}"' in (ROOT / "conda/meta.yaml").read_text()


def test_the_conda_recipe_needs_what_the_package_needs():
    recipe = (ROOT / "conda/meta.yaml").read_text()
    for line in PROJECT["dependencies"]:
        name, minimum = REQUIREMENT.fullmatch(line).groups()
        assert f"- {name} >={minimum}\n" in recipe


def test_the_oldest_versions_promised_are_those_tested():
    extras = PROJECT["optional-dependencies"]
    promised = [
        *PROJECT["dependencies"],
        *(line for name, lines in extras.items() if name not in ("dev", "docs") for line in lines),
    ]
    floors = {REQUIREMENT.fullmatch(line).groups() for line in promised if not line.startswith("forgetless[")}
    tested = (ROOT / "constraints-oldest.txt").read_text().split("\n\n")[0]
    assert set(re.findall(r"^([\w-]+)==([\w.]+)$", tested, re.MULTILINE)) == floors


def test_the_badges_are_true():
    readme = (ROOT / "README.md").read_text()
    badges = dict(re.findall(r"^\[!\[(\w+) ([^]]+)]", readme, re.MULTILINE))
    pythons = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert badges["Python"].split(", ") == pythons
    assert badges["licence"] == PROJECT["license"]
    assert badges["paper"].removeprefix("arXiv ") in PROJECT["urls"]["Paper"]
    for words, picture in re.findall(r"^\[!\[([^]]+)]\(https://img\.shields\.io/badge/(\S+?)\)", readme, re.MULTILINE):
        drawn = picture.replace("--", "\0").rpartition("-")[0].replace("-", " ").replace("\0", "-")
        assert drawn.replace("%20", " ").replace(" |", ",").replace(" %7C", ",") == words


def test_the_development_environment_is_pinned_with_hashes():
    """All that the extra dev names, at the tested versions, without the address of an index; torch is apart."""
    text = (ROOT / "requirements-dev.txt").read_text()
    line = re.compile(r"([\w-]+)==([\w.]+)(?: ; .*?)?(?: --hash=sha256:[0-9a-f]{64})+")
    lines = [each for each in re.sub(r" \\\n +", " ", text).splitlines() if not each.startswith("#")]
    listed = dict(line.fullmatch(each).groups() for each in lines)
    tested = dict(each.split("==") for each in (ROOT / "constraints.txt").read_text().split())
    assert listed.items() <= {(canonicalize_name(name), version) for name, version in tested.items()}
    (back_end,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert tuple(back_end.split("==")) in listed.items()
    extras = PROJECT["optional-dependencies"]
    named = [*PROJECT["dependencies"], *(each for name in extras if name != "docs" for each in extras[name])]
    assert {re.match(r"[\w-]+", each).group() for each in named} - {"forgetless"} <= listed.keys()
    assert "torch" not in listed
    assert not re.search(r"://|index|find-links", text)
