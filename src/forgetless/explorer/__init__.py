"""The explorer: one static page in which schedules are drawn and their exact loss follows."""

from forgetless.explorer.write import explore

__all__ = ["explore"]
