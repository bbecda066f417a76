"""What to install where something is missing: one sentence, the same everywhere."""

from collections.abc import Iterator
from contextlib import contextmanager


def how(extra: str) -> str:
    """Return how to install an extra of this package, from a checkout as from an index.

    Examples
    --------
    >>> from forgetless._core.extras import how
    >>> how("cli")
    "pip install '.[cli]' in a checkout of forgetless, or pip install 'forgetless[cli]'"
    """
    return f"pip install '.[{extra}]' in a checkout of forgetless, or pip install 'forgetless[{extra}]'"


@contextmanager
def needs(what: str, package: str, extra: str) -> Iterator[None]:
    """Say what to install where an import inside fails."""
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{what} needs {package} ({error}); install it with: {how(extra)}") from error
