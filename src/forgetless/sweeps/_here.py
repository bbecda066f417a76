"""Batches in this process, one after the other: for debuggers and small sweeps."""

from collections.abc import Generator, Sequence

from forgetless.sweeps.evaluate import Finished, evaluate
from forgetless.sweeps.grid import Batch, Grid


class Here:
    """An engine without other processes."""

    def __init__(self, sweep: Grid) -> None:
        self._sweep = sweep

    def run(self, batches: Sequence[Batch]) -> Generator[Finished]:
        """Yield finished batches one by one."""
        for batch in batches:
            yield [(batch, evaluate(self._sweep, batch))]
