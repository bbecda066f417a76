"""The optional compiled modules: found where numba is installed, done without where it is not."""

import importlib
import importlib.util
import warnings
from typing import Any


def has_numba() -> bool:
    """Return whether numba is installed; it may still fail to import."""
    return importlib.util.find_spec("numba") is not None


def compiled(name: str) -> Any | None:
    """Return a compiled module of this package, or None; a numba that is installed but broken is warned of."""
    if not has_numba():
        return None
    try:
        return importlib.import_module(f"forgetless.{name}")
    except ImportError as error:
        problem = f"numba cannot be imported ({error}); using the slower array backend"
        warnings.warn(problem, RuntimeWarning, stacklevel=3)
        return None
