"""The site, without building it: every public name has a page, every picture its script."""

import importlib
import re
import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import forgetless as fl

mpl.use("Agg")

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GALLERY = sorted((DOCS / "gallery").rglob("plot_*.py"))

PARTS = ("filters", "schedules", "orderings", "metrics", "plots", "reproduce", "sweeps", "tables")
"""Public parts with names of their own; those of ``forgetless.torch`` are read from its source, for it needs torch.

That everything listed exists, and has its page, is what ``make docs`` finds out.
"""

AUTOSUMMARY = re.compile(r"\.\. currentmodule:: (\S+)\n\n\.\. autosummary::\n   :toctree: generated\n\n((?:   \S+\n)+)")


def listed():
    """Every name that has a page of its own, whole, and all words of the pages that list them."""
    text = "".join(page.read_text() for page in sorted((DOCS / "api").glob("*.md")))
    names = {f"{module}.{name}" for module, block in AUTOSUMMARY.findall(text) for name in block.split()}
    return names, set(re.findall(r"`([\w.]+)`", text))


def public():
    """Every public name, with the module it is public in."""
    for name in fl.__all__:
        yield "forgetless", name
    for part in PARTS:
        module = importlib.import_module(f"forgetless.{part}")
        for name in getattr(module, "__all__", ()):
            yield module.__name__, name
    source = (ROOT / "src/forgetless/torch/__init__.py").read_text()
    for name in re.findall(r'^    "(\w+)",$', source.partition("__all__")[2], re.MULTILINE):
        yield "forgetless.torch", name


def test_every_public_name_is_in_the_reference():
    names, words = listed()
    assert len(names) <= 110, "one page shows few names"
    homes = {name.rpartition(".")[2] for name in names}
    for module, name in public():
        known = f"{module}.{name}" in names or name in words or f"fl.{name}" in words or f"{module}.{name}" in words
        again = name in homes and getattr(fl, name, None) is not None  # listed where it comes from
        assert known or again, f"{module}.{name} is not in docs/api"


SOME = [pytest.param(script, marks=[pytest.mark.long] if i % 4 else []) for i, script in enumerate(GALLERY)]
"""``make docs`` runs all of them."""


@pytest.mark.parametrize("script", SOME, ids=lambda script: script.stem)
def test_scripts_of_the_gallery_draw(script):
    import matplotlib.pyplot as plt

    runpy.run_path(str(script))
    assert plt.get_fignums()
    assert all(ax.has_data() for number in plt.get_fignums() for ax in plt.figure(number).axes)
    plt.close("all")


def shown(path):
    """The words of a picture, and the corners of its curves in points."""
    tag = "{http://www.w3.org/2000/svg}"
    root = ET.parse(path).getroot()
    curves = [np.array(re.findall(r"-?\d+\.?\d*", each.get("d", "")), dtype=float) for each in root.iter(f"{tag}path")]
    return [each.text for each in root.iter(f"{tag}text")], [curve for curve in curves if len(curve) > 40]


PICTURES = {"picture": 6, "unregularized": 7, "orders": 3, "sampling": 3, "stream": 4}
"""Scripts beside the page that shows their picture, and the fewest curves of it."""


@pytest.mark.parametrize(("name", "fewest"), PICTURES.items())
def test_the_command_still_makes_the_picture(name, fewest, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", str(tmp_path / "picture.svg")])
    runpy.run_path(str(DOCS / f"{name}.py"), run_name="__main__")
    (words, curves), (known, drawn) = shown(tmp_path / "picture.svg"), shown(DOCS / f"{name}.svg")
    assert words == known
    assert len(curves) == len(drawn) >= fewest
    for curve, other in zip(curves, drawn, strict=True):
        np.testing.assert_allclose(curve, other, atol=5)  # of a picture 446 points wide: other margins, no other curve
    pages = [page for page in DOCS.glob("*.md") if f"({name}.svg)" in page.read_text()]
    assert any(f"python docs/{name}.py docs/{name}.svg" in page.read_text() for page in pages)
    assert "docs/picture.svg" in (ROOT / "README.md").read_text()
