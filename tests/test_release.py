"""What a release says of itself, said the same everywhere."""

import contextlib
import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import forgetless as fl
from support import pins

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
    """All that the extra dev needs, at the tested versions, without the address of an index; torch is apart."""
    text = (ROOT / "requirements-dev.txt").read_text()
    line = re.compile(r"([\w-]+)==([\w.]+)(?: ; .*?)?((?: --hash=sha256:[0-9a-f]{64})+)")
    parts = [line.fullmatch(each).groups() for each in re.sub(r" \\\n +", " ", text).splitlines()[1:]]
    listed = {name: version for name, version, _ in parts}
    assert listed.items() <= pins.pins().items()
    (back_end,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert tuple(back_end.split("==")) in listed.items()
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"], *(each for name in extras if name != "docs" for each in extras[name])]
    needed = [Requirement(each) for each in lines if not each.startswith("forgetless[")]
    for name, version in listed.items():  # what those need that are installed here at this version
        with contextlib.suppress(metadata.PackageNotFoundError):
            needed += map(Requirement, metadata.requires(name) or () if metadata.version(name) == version else ())
    applicable = [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]
    assert {canonicalize_name(name) for name in applicable} <= listed.keys(), "run support.pins, see CONTRIBUTING.md"
    assert max(hashes.count("sha256") for name, _, hashes in parts if name == "numpy") > 12  # of all platforms
    assert "torch" not in listed
    assert not re.search(r"://|index|find-links", text)
