"""Row blocks whose way from the reading of a file to a sum is one task of a cluster.

A graph of dask has a task for every step on that way, and a scheduler takes a millisecond or two for each: with eight
of them as long as the sum itself. Steps that only one block needs are done where and when the block is used.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any
from uuid import uuid4

_SHARED = -1


class Block:
    """Some rows of a task, (X, y, weight), each part not yet computed, in memory, or None.

    Parameters
    ----------
    parts : sequence
        The three of them.
    nodes : mapping, optional
        The part of the graph that only this block needs; None if its parts are to be tasks of their own.
    needs : sequence of dask.delayed.Delayed
        What these nodes need of the rest of the graph.
    """

    def __init__(self, parts: Sequence[Any], nodes: Mapping[Hashable, Any] | None = None, needs: Sequence[Any] = ()):
        self._parts, self._nodes, self._needs = list(parts), nodes, list(needs)

    def then(self, do: Callable[..., Any], *more: Any) -> Any:
        """Return do(X, y, weight, *more), not yet computed."""
        import dask

        if self._nodes is None:
            return dask.delayed(do, pure=False)(*self._parts, *more)
        whole = _Whole(do, self._nodes, self._parts, [each.key for each in self._needs])
        return dask.delayed(whole, pure=False)(self._needs, *more)


class _Whole:
    """On a worker: makes the parts of a block and does something with them."""

    def __init__(
        self,
        do: Callable[..., Any],
        nodes: Mapping[Hashable, Any],
        parts: Sequence[Any],
        names: Sequence[Hashable],
    ) -> None:
        self.__name__ = do.__name__  # what dashboards show
        self._do, self._nodes, self._names = do, dict(nodes), list(names)
        self._here = [None if _is_delayed(part) else part for part in parts]
        self._keys = [part.key if _is_delayed(part) else None for part in parts]

    def __call__(self, needs: Sequence[Any], *more: Any) -> Any:
        import dask

        given = {name: (_Given(value),) for name, value in zip(self._names, needs, strict=True)}
        made = iter(dask.get({**self._nodes, **given}, [key for key in self._keys if key is not None]))
        parts = [own if key is None else next(made) for own, key in zip(self._here, self._keys, strict=True)]
        return self._do(*parts, *more)


class _Given:
    """A value as a task of a graph, in which a tuple or a string could be taken for something else."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __call__(self) -> Any:
        return self._value


def blocks_with_own_work(graph: Mapping[Hashable, Any], parts: Sequence[Sequence[Any]]) -> list[Block]:
    """Return blocks, given the parts of each and the graph that makes them."""
    from dask.core import get_dependencies
    from dask.delayed import Delayed
    from dask.highlevelgraph import HighLevelGraph

    layer = f"rows-{uuid4().hex}"
    whole_graph = HighLevelGraph.from_collections(layer, graph)
    roots = [[part.key for part in each if _is_delayed(part)] for each in parts]
    owned = _owned(graph, roots, lambda key: get_dependencies(graph, key))
    found = []
    for each, keys in zip(parts, owned, strict=True):
        needs = {need for key in keys for need in get_dependencies(graph, key)} - keys
        whole = bool(keys) and all(part.key in keys for part in each if _is_delayed(part))
        if whole and needs <= graph.keys():  # not where a task holds on to a result on the cluster
            nodes = {key: graph[key] for key in keys}
            found.append(
                Block(each, nodes, [Delayed(need, whole_graph, layer=layer) for need in sorted(needs, key=str)])
            )
        else:
            found.append(Block(each))
    return found


def _owned(
    graph: Mapping[Hashable, Any], roots: Sequence[Sequence[Hashable]], needs: Callable[[Hashable], Any]
) -> list[set[Hashable]]:
    """Return the keys that only one block needs, for every block; results that are on the cluster are nobody's."""
    owner: dict[Hashable, int] = {}
    for i, keys in enumerate(roots):
        waiting = list(keys)
        while waiting:
            key = waiting.pop()
            before = owner.get(key)
            if key not in graph or before in (i, _SHARED):
                continue
            # Whoever shares a key shares all that it needs: those were seen with it, by the block that came first.
            owner[key] = i if before is None and not _is_result(graph[key]) else _SHARED
            waiting.extend(needs(key))
    found: list[set[Hashable]] = [set() for _ in roots]
    for key, i in owner.items():
        if i != _SHARED:
            found[i].add(key)
    return found


def _is_delayed(part: Any) -> bool:
    return type(part).__module__ == "dask.delayed"


def _is_result(node: Any) -> bool:
    return type(node).__module__.split(".")[0] == "distributed"
