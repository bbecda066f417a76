"""The installation: version and optional packages."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module


def version() -> str:
    """Return it; asked for when it is needed, since the package itself imports what asks."""
    return str(import_module("forgetless").__version__)


def how(extra: str) -> str:
    """Return how to install an extra of this package, from a checkout as from an index.

    Examples
    --------
    >>> from forgetless._core.environment import how
    >>> how("plot")
    "pip install '.[plot]' in a checkout of forgetless, or pip install 'forgetless[plot]'"
    """
    return (
        f"pip install '.[{extra}]' in a checkout of forgetless, or pip install"
        f" 'forgetless[{extra}]'"
    )


@contextmanager
def needs(what: str, package: str, extra: str) -> Iterator[None]:
    """Say what to install where an import inside fails."""
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"{what} needs {package} ({error}); install it with: {how(extra)}"
        ) from error
