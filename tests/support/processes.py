"""Processes that tests start."""

import signal


def listening():
    """Call before a program starts that is to be interrupted: the background jobs of a shell ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
