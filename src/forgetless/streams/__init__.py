"""Tasks that arrive one after the other: estimators, their files, runs and reports."""

from forgetless.streams.run import ORDERS, StreamRun, run_stream

__all__ = ["ORDERS", "StreamRun", "run_stream"]
