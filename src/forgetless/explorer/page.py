"""The page: one self-contained file of small parts, which loads nothing and sends nothing."""

from pathlib import Path

ASSETS = Path(__file__).with_name("assets")

ENGINE = (
    "engine/spectrum.js",
    "engine/problem.js",
    "engine/moments.js",
    "engine/draws.js",
    "engine/one_order.js",
    "engine/engine.js",
)
"""The exact engine, which needs nothing else."""


def read(*names: str) -> str:
    """Return assets one after the other."""
    return "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in names)
