"""The version of the package, for files that say what made them."""

from importlib import import_module


def version() -> str:
    """Return it; asked for when it is needed, since the package itself imports what asks."""
    return str(import_module("forgetless").__version__)
