"""What one pass over a task on a cluster costs: a model, measured on one and two workers, simulated up to 1000.

``python benchmarks/scale.py [--blocks N]``. The model has four constants that are measured here, each by itself: the
time that NumPy takes for a block, the scheduler's time for a task, bytes a second between two processes, and the time
of a round trip. What it says of one and two workers is printed beside what those took.
"""

import argparse
import heapq
import statistics
import time
from dataclasses import dataclass, replace

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

import forgetless as fl
from forgetless._core.dask_arrays import FAN
from generated import block
from harness import table

COMMAND = "python benchmarks/scale.py"

TASKS = 3
"""Tasks that dask makes of a block in a pass, at most: the pass itself, what stays there, what is summed."""


@dataclass(frozen=True)
class Costs:
    """The constants of the model: seconds for a block, for a task, for a round trip; bytes a second."""

    block: float
    task: float
    trip: float
    bandwidth: float


def simulated(n_blocks, n_workers, payload, broadcast, costs):
    """Return the seconds of one pass: blocks on workers, fed by one scheduler, and a tree of sums of ``payload`` bytes.

    ``broadcast`` bytes go to every worker first, from worker to worker, so that it takes log₂ of their number.
    """
    scheduler = costs.trip + broadcast / costs.bandwidth * np.ceil(np.log2(n_workers + 1))
    free = [0.0] * n_workers
    ready = []
    for _ in range(n_blocks):
        scheduler += TASKS * costs.task
        end = max(scheduler, heapq.heappop(free)) + costs.block
        heapq.heappush(free, end)
        ready.append(end)
    move = payload / costs.bandwidth + costs.trip
    while len(ready) > 1:
        groups = [ready[i : i + FAN] for i in range(0, len(ready), FAN)]
        # Parts on the same worker do not travel; of FAN parts on W workers all but 1 in W do.
        away = 1 - 1 / n_workers
        ready = [max(group) + (len(group) - 1) * move * away for group in groups]
    return ready[0] + payload / costs.bandwidth + costs.trip


def echo(value):
    return value


def measured(client):
    """Return the scheduler's time for a task, the time of a round trip, and bytes a second, each measured alone."""
    n = 2000
    began = time.perf_counter()
    client.gather(client.map(echo, range(n), pure=False))
    task = (time.perf_counter() - began) / n
    trips = []
    for i in range(50):
        began = time.perf_counter()
        client.submit(echo, i, pure=False).result()
        trips.append(time.perf_counter() - began)
    data = np.zeros(4_000_000)
    moves = []
    for _ in range(5):
        began = time.perf_counter()
        client.submit(np.ones, data.size, pure=False).result()
        moves.append(time.perf_counter() - began)
    trip = statistics.median(trips)
    return task, trip, data.nbytes / max(statistics.median(moves) - trip, 1e-6)


class Gram:
    """A task of few features: Gram matrices are added up in one pass."""

    name, d, rows = "200 features, one pass, XᵀX", 200, 20_000
    alpha = 1.0

    def payload(self):
        """Bytes of a partial sum, and of what goes to every worker."""
        return 8 * self.d * self.d, 8 * self.d

    def one(self, X, y, w):
        """Do what NumPy does with a block."""
        return X.T @ X, X.T @ (y - X @ w)


class Passes(Gram):
    """A task of many features: a pass for the beginning, and one for every step of Golub & Kahan."""

    name, d, rows = "4000 features, Golub–Kahan", 4000, 1000
    alpha = 1e5

    def payload(self):
        return 8 * self.d, 8 * self.d

    def one(self, X, y, w):
        return X.T @ (X @ w - y)


def make(i, d, rows):
    """Return rows of a large task, all the same numbers in another shape."""
    X, y = block(i)
    return X.reshape(rows, d), y[:rows]


def arrays(kind, n):
    """Return a task whose blocks lie in the memory of the workers."""
    parts = [dask.delayed(make, nout=2)(i, kind.d, kind.rows) for i in range(n)]
    X = da.concatenate([da.from_delayed(p[0], (kind.rows, kind.d), float) for p in parts])
    y = da.concatenate([da.from_delayed(p[1], (kind.rows,), float) for p in parts])
    X, y = dask.persist(X, y)
    wait([X, y])
    return X, y


def compare(kind, n_blocks):
    """Return rows of a table: the model beside what one and two workers took, and the model's constants."""
    w = np.ones(kind.d)
    rows = make(0, kind.d, kind.rows)
    kind.one(*rows, w)
    began = time.perf_counter()
    for _ in range(8):
        kind.one(*rows, w)
    alone = (time.perf_counter() - began) / 8
    rows, costs = [], None
    for workers in (1, 2):
        options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
        with LocalCluster(**options) as cluster, Client(cluster) as client:
            costs = Costs(alone, *measured(client))
            X, y = arrays(kind, n_blocks)
            model = fl.ContinualRidge(alpha=kind.alpha)
            model.partial_fit(*arrays(kind, 2))
            began = time.perf_counter()
            passes = 1 + _passes(model, X, y)
            took = time.perf_counter() - began
        said = passes * simulated(n_blocks, workers, *kind.payload(), costs)
        rows.append([kind.name, workers, passes, f"{took:.1f} s", f"{said:.1f} s", f"{took / said:.2f}"])
    return rows, costs


def _passes(model, X, y):
    """Learn a task; return how many Golub–Kahan passes it took."""
    from forgetless.solvers.remote import RemoteRows

    count, real = [0], RemoteRows.turn

    def counted(self, *words):
        count[0] += 1
        return real(self, *words)

    RemoteRows.turn = counted
    try:
        model.partial_fit(X, y)
    finally:
        RemoteRows.turn = real
    return count[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=60)
    n = parser.parse_args().blocks
    rows, constants = [], {}
    for kind in (Gram(), Passes()):
        more, constants[kind] = compare(kind, n)
        rows += more
    head = ["task", "workers", "passes", "took", "model", "ratio"]
    print(table(f"One task of {n} blocks of 32 MB", COMMAND, head, rows), "\n")
    rows = []
    for kind, costs in constants.items():
        rows.append(
            [
                kind.name,
                *(f"{1e3 * each:.2g} ms" for each in (costs.block, costs.task, costs.trip)),
                f"{costs.bandwidth / 1e9:.2g} GB/s",
            ]
        )
    print(table("The constants", COMMAND, ["", "a block", "a task", "a round trip", "between processes"], rows), "\n")
    rows = []
    for kind, costs in constants.items():
        for size, count in ((1, 100_000), (32, 3_125)):
            larger = replace(costs, block=size * costs.block)
            times = [simulated(count, workers, *kind.payload(), larger) for workers in (1, 10, 100, 1000)]
            rows.append(
                [kind.name, f"{size * 32} MB", *(f"{each:,.3g} s" for each in times), f"{times[0] / times[-1]:.0f}×"]
            )
    head = ["", "blocks", "1 worker", "10", "100", "1000", "faster"]
    print(table("One pass over 3.2 TB, simulated", COMMAND, head, rows))


if __name__ == "__main__":
    main()
