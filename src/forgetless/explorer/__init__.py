"""The explorer: an interactive schedule editor that shows the exact expected loss."""

from forgetless.explorer.view import Explorer, explore

__all__ = ["Explorer", "explore"]
