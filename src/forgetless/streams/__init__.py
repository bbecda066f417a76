"""Tasks that arrive one after the other: estimators, their files, runs and reports."""

from forgetless.datasets.grouped import ORDERS
from forgetless.streams.run import StreamRun, follow, run_stream

__all__ = ["ORDERS", "StreamRun", "follow", "run_stream"]
