"""Tasks in the row blocks of dask arrays, which are recognised without importing dask.

A graph of dask has a task for every step from the reading of a file to a sum, and a scheduler takes
a millisecond or two for each: with eight of them as long as the sum itself. Steps that only one
block needs are therefore done where and when the block is used.
"""

import contextlib
import math
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import numpy as np

from forgetless._validate import Floats, check_memory, check_unmasked

_SHARED = -1


class Block:
    """Some rows of a task, (X, y, weight), each part not yet computed, in memory, or None.

    Parameters
    ----------
    parts : sequence
        The three of them.
    nodes : mapping, optional
        The part of the graph that only this block needs; None if its parts are to be tasks of their
        own.
    needs : sequence of dask.delayed.Delayed
        What these nodes need of the rest of the graph.
    """

    def __init__(
        self,
        parts: Sequence[Any],
        nodes: Mapping[Hashable, Any] | None = None,
        needs: Sequence[Any] = (),
    ):
        self._parts, self._nodes, self._needs = list(parts), nodes, list(needs)

    def then(self, do: Callable[..., Any], *more: Any) -> Any:
        """Return do(X, y, weight, *more), not yet computed."""
        import dask

        if self._nodes is None:
            return dask.delayed(do, pure=False)(*self._parts, *more)
        call = _BlockCall(do, self._nodes, self._parts, [each.key for each in self._needs])
        return dask.delayed(call, pure=False)(self._needs, *more)


class _BlockCall:
    """A call on a worker: computes the parts of a block, then a function of them."""

    def __init__(
        self,
        do: Callable[..., Any],
        nodes: Mapping[Hashable, Any],
        parts: Sequence[Any],
        names: Sequence[Hashable],
    ) -> None:
        self.__name__ = do.__name__  # what dashboards show
        self._do, self._nodes, self._names = do, dict(nodes), list(names)
        self._local = [None if _is_delayed(part) else part for part in parts]
        self._keys = [part.key if _is_delayed(part) else None for part in parts]

    def __call__(self, needs: Sequence[Any], *more: Any) -> Any:
        import dask

        inputs = {name: (_Constant(value),) for name, value in zip(self._names, needs, strict=True)}
        computed = iter(
            dask.get({**self._nodes, **inputs}, [key for key in self._keys if key is not None])
        )
        parts = [
            part if key is None else next(computed)
            for part, key in zip(self._local, self._keys, strict=True)
        ]
        return self._do(*parts, *more)


class _Constant:
    """A value as a task of a graph, in which a tuple or a string could be taken for something
    else.
    """

    def __init__(self, value: Any) -> None:
        self._value = value

    def __call__(self) -> Any:
        return self._value


def _blocks_with_own_work(
    graph: Mapping[Hashable, Any], parts: Sequence[Sequence[Any]]
) -> list[Block]:
    """Return blocks from the parts of each and the graph that computes them."""
    from dask.core import get_dependencies
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    layer = f"rows-{uuid4().hex}"
    whole_graph = HighLevelGraph.from_collections(layer, graph)
    roots = [[part.key for part in each if _is_delayed(part)] for each in parts]
    owned = _owned(graph, roots, lambda key: get_dependencies(graph, key))
    blocks = []
    for each, keys in zip(parts, owned, strict=True):
        needs = {need for key in keys for need in get_dependencies(graph, key)} - keys
        exclusive = bool(keys) and all(part.key in keys for part in each if _is_delayed(part))
        # not where a task holds on to a result on the cluster
        if exclusive and needs <= graph.keys():
            nodes = {key: graph[key] for key in keys}
            blocks.append(
                Block(
                    each,
                    nodes,
                    [Delayed(need, whole_graph, layer=layer) for need in sorted(needs, key=str)],
                )
            )
        else:
            blocks.append(Block(each))
    return blocks


def _owned(
    graph: Mapping[Hashable, Any],
    roots: Sequence[Sequence[Hashable]],
    needs: Callable[[Hashable], Any],
) -> list[set[Hashable]]:
    """Return the keys that only one block needs, for every block; results that are on the cluster
    are shared.
    """
    owner: dict[Hashable, int] = {}
    for i, keys in enumerate(roots):
        waiting = list(keys)
        while waiting:
            key = waiting.pop()
            before = owner.get(key)
            if key not in graph or before in (i, _SHARED):
                continue
            # Whoever shares a key shares all that it needs: those were seen with it, by the block
            # that came first.
            owner[key] = i if before is None and not _is_result(graph[key]) else _SHARED
            waiting.extend(needs(key))
    owned: list[set[Hashable]] = [set() for _ in roots]
    for key, i in owner.items():
        if i != _SHARED:
            owned[i].add(key)
    return owned


def _is_delayed(part: Any) -> bool:
    return type(part).__module__ == "dask.delayed"


def _is_result(node: Any) -> bool:
    return type(node).__module__.split(".")[0] == "distributed"


_FAN = 8
"""Parts that are added up at a time, on the way from all blocks to one sum."""


def is_remote(X: Any) -> bool:
    """Return whether X is a dask collection; dask is not imported for those who have none."""
    return type(X).__module__.split(".")[0] in ("dask", "dask_expr")


def blocks_of(X: Any, y: Any, weight: Any = None) -> list[Block]:
    """Return the row blocks of X with their targets and weights, which are dask arrays or lie in
    memory.
    """
    import dask

    for name, values in (("X", X), ("y", y), ("sample_weight", weight)):
        _check_kind(name, values)
    if y is None or np.ndim(y) == 0:
        raise ValueError(f"y must have shape (n,) or (n, c), one value per row of X, got {y!r}")
    if X.ndim != 2:
        raise ValueError(f"X must have shape (n, d), got {X.shape}")
    if math.isnan(X.shape[1]):
        raise ValueError("X has an unknown number of columns; call X.compute_chunk_sizes() first")
    if np.ndim(weight) > 1:
        raise ValueError(
            f"sample_weight must have one value per row, shape (n,), got {weight.shape}"
        )
    X = _whole_rows(X)
    rows = X.chunks[0]
    y, weight = _aligned("y", y, rows), _aligned("sample_weight", weight, rows)
    named = {"X": X, "y": y, "sample_weight": weight}
    remote = {name: values for name, values in named.items() if is_remote(values)}
    # dask would repeat common work, such as reading a file, for each
    if not _have_common_work(list(remote.values())):
        named |= {name: dask.optimize(values)[0] for name, values in remote.items()}
    graph = {
        key: node for name in remote for key, node in dict(named[name].__dask_graph__()).items()
    }
    parts = [_in_blocks(name, values, rows) for name, values in named.items()]
    return _blocks_with_own_work(graph, list(zip(*parts, strict=True)))


def _check_kind(name: str, values: Any) -> None:
    """Raise unless the values are an array of real numbers; the content of blocks is not
    checked.
    """
    if is_remote(values):
        if type(values).__name__ != "Array":  # delayed objects have every attribute
            kind = type(values).__name__
            raise TypeError(
                f"{name} is a dask {kind}; give a dask array, e.g."
                " frame.to_dask_array(lengths=True)"
            )
        if isinstance(values._meta, np.ma.MaskedArray):
            raise TypeError(
                f"{name} has masked blocks, whose missing values would count as numbers; fill or"
                " drop them"
            )
    check_unmasked(name, values)
    dtype = getattr(values, "dtype", None)
    if dtype is not None and dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers, got dtype {dtype}; convert it first")


def _have_common_work(arrays: list[Any]) -> bool:
    """Return whether some arrays come from the same computations in part."""
    layers = [
        set(getattr(array.__dask_graph__(), "layers", array.__dask_graph__())) for array in arrays
    ]
    return sum(map(len, layers)) > len(set().union(*layers))


def _whole_rows(array: Any) -> Any:
    return array if array.ndim == 1 or array.numblocks[1] == 1 else array.rechunk({1: -1})


def _aligned(name: str, values: Any, rows: Sequence[Any]) -> Any:
    """Return targets or weights with the blocks of X, as far as their lengths are known; numbers as
    they are.
    """
    if values is None or np.ndim(values) == 0:
        return values
    lengths_known = not any(math.isnan(n) for n in rows)
    if not is_remote(values):
        values = np.asarray(values)
        if not lengths_known:
            raise ValueError(
                f"the blocks of X have unknown lengths; give {name} as a dask array of the same"
                " blocks"
            )
    if lengths_known and math.isnan(values.shape[0]):
        raise ValueError(
            f"the blocks of {name} have unknown lengths; call {name}.compute_chunk_sizes() first"
        )
    if lengths_known and values.shape[0] != sum(rows):
        raise ValueError(
            f"{name} must have one value per row of X, got {values.shape[0]} for {sum(rows)} rows"
        )
    if not is_remote(values):
        return values
    return _whole_rows(
        values.rechunk({0: rows}) if lengths_known and values.chunks[0] != rows else values
    )


def _in_blocks(name: str, values: Any, rows: Sequence[Any]) -> list[Any]:
    """Return the part of every block, not yet computed where it is not here."""
    if values is None or np.ndim(values) == 0:
        return [values] * len(rows)
    if not is_remote(values):
        return np.split(values, np.cumsum(rows)[:-1])
    delayed = list(values.to_delayed(optimize_graph=False).ravel())
    if len(delayed) != len(rows):
        raise ValueError(
            f"{name} must have the blocks of X, got {len(delayed)} for {len(rows)}; rechunk one of"
            " them"
        )
    return delayed


def summed(parts: Sequence[Any], add: Callable[[list[Any]], Any]) -> Any:
    """Return the delayed sum of delayed values: a tree, so that no worker gets all of them."""
    import dask

    adding = dask.delayed(add, pure=False)
    level = list(parts)
    while len(level) > 1:
        level = [adding(level[i : i + _FAN]) for i in range(0, len(level), _FAN)]
    return level[0]


class _WorkerWatch:
    """Detects that a dask cluster has no workers, in which case it would wait for ever without a
    message.

    The time for which workers may be absent is the setting ``forgetless.worker-timeout`` of dask,
    by default 5 minutes.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._absent_since: float | None = None

    def check(self) -> None:
        """Raise TimeoutError if there have been no workers for too long; called from time to
        time.
        """
        import dask

        workers: Any = ()
        with contextlib.suppress(OSError, TimeoutError):  # the scheduler is gone
            workers = self._client.nthreads()
        if workers:
            self._absent_since = None
            return
        now = time.monotonic()
        self._absent_since = self._absent_since or now
        limit = dask.utils.parse_timedelta(dask.config.get("forgetless.worker-timeout", "5m"))
        if now - self._absent_since >= limit:
            raise TimeoutError(
                f"the dask cluster at {self._client.scheduler.address} has had no workers for"
                f" {limit:g} seconds; start some and run again, or wait longer by"
                ' dask.config.set({"forgetless.worker-timeout": "1h"})'
            )


def computed(*delayed: Any) -> tuple[Any, ...]:
    """Return the values of delayed objects; TimeoutError if the cluster that computes them has lost
    all workers.
    """
    import dask

    client: Any = getattr(dask.base.get_scheduler(), "__self__", None)
    if type(client).__module__.split(".")[0] != "distributed" or client.asynchronous:
        return tuple(dask.compute(*delayed))
    from distributed import wait

    futures, watch = client.compute(list(delayed)), _WorkerWatch(client)
    try:
        while True:
            try:
                wait(futures, timeout=_INTERVAL)
                return tuple(client.gather(futures))
            except TimeoutError:
                watch.check()
    except BaseException:
        client.cancel(futures)
        raise


_INTERVAL = 1.0
"""Seconds of waiting for a cluster after which its workers are looked for."""


def dense(X: Any) -> Floats:
    """Return rows, perhaps sparse, as a dense matrix of floats; ValueError where some are not
    finite.
    """
    rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    if not np.isfinite(rows).all():
        raise ValueError(
            "X or y contains NaN or infinity; only finite values are allowed, so drop or impute"
            " them"
        )
    return rows


def triangle(X: Any, y: Any) -> Floats:
    """Return the triangular factor of [X y], which determines the loss of a task."""
    right = dense(y)
    return stacked_triangles([np.concatenate([dense(X), right.reshape(len(right), -1)], axis=1)])


def _triangle(X: Any, y: Any, _: None) -> Floats:
    return triangle(X, y)


def stacked_triangles(parts: list[Any]) -> Floats:
    """Return the triangular factor of stacked triangular factors."""
    return np.asarray(np.linalg.qr(np.concatenate(parts), mode="r"))


def equal_task(X: Any, y: Any) -> tuple[Floats, Floats]:
    """Return a task of at most d + c rows with the same loss as one in dask arrays, for all
    weights.

    QᵀX and Qᵀy for an orthogonal Q, by triangular factors of the blocks: as accurate as a
    factorisation of all rows.
    """
    y = y if hasattr(y, "shape") else np.asarray(y)
    blocks, d = blocks_of(X, y), int(X.shape[1])
    columns = int(y.shape[1]) if y.ndim > 1 else 1
    hint = "only tasks of few features can be held here"
    check_memory(2.0 * _FAN * (d + columns) ** 2, f"a task of {d} features as one triangle", hint)
    (total,) = computed(summed([block.then(_triangle) for block in blocks], stacked_triangles))
    R = np.asarray(total)
    return np.ascontiguousarray(R[:, :d]), np.ascontiguousarray(R[:, d:] if y.ndim > 1 else R[:, d])
