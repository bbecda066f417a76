"""Writes requirements-dev.txt: everything that ``.[dev]`` needs, at the versions of constraints.txt, with hashes.

``python -m support.pins ADDRESS`` in the environment of ``make setup``, in which they are installed at these versions.
Hashes come from that package index, whose address is not written. Packages of all ``PLATFORMS`` are listed, with the
markers that select them.
"""

import itertools
import re
import sys
import tomllib
import urllib.request
from importlib import metadata
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_sdist_filename, parse_wheel_filename

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "requirements-dev.txt"
HEADER = "# By tests/support/pins.py; pip install --no-deps --require-hashes --requirement requirements-dev.txt\n"

PLATFORMS = {
    "linux": ("Linux", "posix", "x86_64"),
    "darwin": ("Darwin", "posix", "arm64"),
    "win32": ("Windows", "nt", "AMD64"),
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
WHEELS = re.compile(r"any|macosx_\w+|manylinux\w*_(x86_64|aarch64)|win_(amd64|arm64)")
LINK = re.compile(r"""href=["'](?:[^"']*/)?([^/"'#]+)#sha256=([0-9a-f]{64})""")
INTERPRETERS = {"py2", "py3", *(f"py3{minor}" for minor in range(2, 15)), *(f"cp3{minor}" for minor in range(2, 15))}


def pins():
    """The versions in constraints.txt by canonical name."""
    lines = (ROOT / "constraints.txt").read_text().split()
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def needed():
    """The names that ``.[dev]`` needs, each with the pairs (platform, Python) that need it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    places = {}
    for platform, python in itertools.product(PLATFORMS, PYTHONS):
        system, os_name, machine = PLATFORMS[platform]
        environment = default_environment() | {"python_version": python, "python_full_version": f"{python}.0"}
        environment |= {"sys_platform": platform, "platform_system": system}
        environment |= {"os_name": os_name, "platform_machine": machine}
        for name in _closure(extras, environment):
            places.setdefault(name, []).append((platform, python))
    return places


def _closure(project, environment):
    seen, waiting = set(), [("forgetless", "dev"), ("hatchling", "")]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for requirement in map(Requirement, _requirements(project, name, extra)):
            if requirement.marker is None or requirement.marker.evaluate({**environment, "extra": extra}):
                waiting += [(canonicalize_name(requirement.name), each) for each in ("", *requirement.extras)]
    return {name for name, _ in seen} - {"forgetless"}


def _requirements(project, name, extra):
    if name == "forgetless":
        return [*project["dependencies"], *project["optional-dependencies"].get(extra, ())]
    try:
        return metadata.requires(name) or []
    except metadata.PackageNotFoundError:  # of another platform: constraints.txt must name what it needs
        return []


def marker(places):
    """The marker of the pairs (platform, Python) that need a package, and perhaps of others; empty if all do."""
    if len(places) == len(PLATFORMS) * len(PYTHONS):
        return ""
    platforms, pythons = (sorted(set(values)) for values in zip(*places, strict=True))
    axes = (("sys_platform", platforms, PLATFORMS), ("python_version", pythons, PYTHONS))
    parts = [
        "(" + " or ".join(f'{name} == "{value}"' for value in chosen) + ")"
        for name, chosen, every in axes
        if len(chosen) < len(every)
    ]
    return " ; " + " and ".join(parts)


def hashes(index, name, version):
    """The hashes of the source archive and of the wheels for our platforms."""
    with urllib.request.urlopen(f"{index.rstrip('/')}/{name}/", timeout=60) as page:
        files = LINK.findall(page.read().decode())
    return sorted({digest for file, digest in files if _is_ours(file.replace("%2B", "+"), version)})


def _is_ours(file, version):
    try:
        if not file.endswith(".whl"):
            return str(parse_sdist_filename(file)[1]) == version
        _, found, _, tags = parse_wheel_filename(file)
    except (InvalidWheelFilename, ValueError):
        return False
    fits = any(tag.interpreter in INTERPRETERS and WHEELS.fullmatch(tag.platform) for tag in tags)
    return str(found) == version and fits and not any(tag.abi.endswith("t") for tag in tags)  # not free-threaded


def main():
    """Write the file."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m support.pins ADDRESS, of a package index with simple pages")
    index, versions, lines = sys.argv[1], pins(), []
    for name, places in sorted(needed().items()):
        if name not in versions:
            sys.exit(f"constraints.txt has no version of {name}, which {places[0]} needs; add it")
        digests = hashes(index, name, versions[name])
        if not digests:
            sys.exit(f"the index has no files of {name} {versions[name]}")
        parts = [f"{name}=={versions[name]}{marker(places)}", *(f"    --hash=sha256:{each}" for each in digests)]
        lines.append(" \\\n".join(parts))
    TARGET.write_text(HEADER + "\n".join(lines) + "\n")
    print(f"{TARGET.name}: {len(lines)} packages")


if __name__ == "__main__":
    main()
