"""The explorer: a page in which a schedule is drawn by hand and its exact expected loss follows."""

from forgetless.explorer.page import Explorer, explore

__all__ = ["Explorer", "explore"]
