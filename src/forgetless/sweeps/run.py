"""The driver of a sweep: hands out what the store lacks, commits what comes back, and believes the store alone."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, Protocol

from forgetless._core import validate
from forgetless._core.compiled import n_threads
from forgetless._core.extras import needs
from forgetless.errors import StoreError
from forgetless.reporting.progress import Progress
from forgetless.sweeps._here import Here
from forgetless.sweeps._local import Local
from forgetless.sweeps._progress import told
from forgetless.sweeps.evaluate import Finished
from forgetless.sweeps.grid import Batch, Grid
from forgetless.sweeps.store import Store


class Engine(Protocol):
    """Where batches are computed. All are tried; which were is read from the store."""

    def run(self, batches: Sequence[Batch]) -> Generator[Finished]:
        """Yield lists of (batch, outcomes) as they come."""


def run(
    sweep: Grid,
    path: str | os.PathLike[str],
    client: Any = None,
    n_workers: int | None = None,
    retry: bool = False,
    progress: Progress | bool | None = None,
) -> None:
    """Compute all cells of a sweep that a store lacks; see :meth:`forgetless.sweeps.Sweep.run`."""
    if n_workers is not None:
        n_workers = validate.integer("n_workers", n_workers, 0, "0 computes in this process")
    if client is not None:
        if n_workers is not None:
            raise ValueError(
                f"n_workers={n_workers} is for this machine and client= for a cluster, which has workers of its own; "
                "give one of the two"
            )
        _check_client(client)
    payload = b"" if n_workers == 0 and client is None else packed(sweep)
    with Store(path, write=True) as store:
        number = store.begin(sweep, _name(client, n_workers))
        since = number if retry else 0
        there = sweep.keys & store.finished(since)
        with told(progress, len(there), len(sweep)) as tell:
            while len(there) < len(sweep):
                before = len(there)
                engine = _engine(sweep, payload, client, n_workers, tell.note)
                # Closed whatever happens, also where a traceback keeps what it came through: workers must not stay.
                with closing(engine.run(_missing(sweep, there))) as coming:
                    for finished in coming:
                        store.add(number, finished)
                        tell.more(sum(len(outcomes) for _, outcomes in finished))
                # What is there decides, not what the engine said.
                there = sweep.keys & store.finished(since)
                if len(there) == before:
                    missing = f"{len(sweep) - before} of {len(sweep)} cells"
                    raise StoreError(f"{missing} are missing in {store.path} and none of them could be computed")
        store.end(number)


def _check_client(client: Any) -> None:
    with needs("client=", "dask", "cluster"):
        from forgetless.sweeps.cluster import check_client
    check_client(client)


def _missing(sweep: Grid, there: set[str] | frozenset[str]) -> list[Batch]:
    """Return the batches of the sweep with those of their cells that are not there."""
    found = []
    for batch in sweep.batches:
        members = tuple(member for member in batch.members if member.key not in there)
        if members:
            found.append(batch._replace(members=members))
    return found


def _name(client: Any, n_workers: int | None) -> str:
    return f"dask {client.scheduler.address}" if client is not None else f"{_processes(n_workers)} processes"


def _processes(n_workers: int | None) -> int:
    return n_threads() if n_workers is None else n_workers


def _engine(sweep: Grid, payload: bytes, client: Any, n_workers: int | None, note: Callable[[str], None]) -> Engine:
    if client is not None:
        from forgetless.sweeps.cluster import Dask

        return Dask(payload, client, note)
    return Here(sweep) if n_workers == 0 else Local(payload, _processes(n_workers))


def packed(sweep: Grid) -> bytes:
    """Return the sweep as other processes read it; TypeError names what cannot be sent to them."""
    # It takes functions of scripts and notebooks too, and comes with scikit-learn's joblib: needed by it, or inside it.
    try:
        import cloudpickle
    except ImportError:
        from joblib.externals import cloudpickle
    try:
        return bytes(cloudpickle.dumps(Grid.of(sweep)))
    except Exception as whole:
        for axis, values in sweep.axes.items():
            for value in values.values():
                try:
                    cloudpickle.dumps(value.thing)
                except Exception as error:
                    raise TypeError(
                        f"{axis} {value.label!r} cannot be sent to worker processes ({error}); make it of plain "
                        "functions and arrays, or use n_workers=0"
                    ) from None
        raise TypeError(f"the sweep cannot be sent to worker processes ({whole}); use n_workers=0") from None
