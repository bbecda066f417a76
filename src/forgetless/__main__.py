"""``python -m forgetless`` is the command ``forgetless``."""

from forgetless._entry import run

run()
