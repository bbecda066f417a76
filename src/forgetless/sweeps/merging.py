"""Merging of stores: cells of several drivers in one file."""

import os
from pathlib import Path
from typing import Any

from forgetless.errors import StoreError
from forgetless.sweeps.format import cell_digest
from forgetless.sweeps.store import Store


def merge(target: str | os.PathLike[str], *sources: str | os.PathLike[str]) -> int:
    """Copy the cells of other stores into one; return how many were new.

    All must be of the same settings, and mean the same by every name. A cell that failed in one
    store and not in another is taken from the other.

    Parameters
    ----------
    target : path
        A store; created if it does not exist.
    sources : paths
    """
    count = 0
    with Store(target, write=True) as store:
        for source in sources:
            if Path(source).resolve() == store.path.resolve():
                raise StoreError(f"{source} cannot be merged into itself")
            with Store(source) as other, store.errors():
                settings, last = other.last_sweep()["settings"], store.last_run()
                if last is not None and last[-1]["settings"] != settings:
                    raise StoreError(
                        f"{other.path} holds a sweep with other settings than {store.path}; merge"
                        " neither"
                    )
                with store.transaction():
                    _merge_axes(store, other)
                    runs = _merge_runs(store, other)
                    count += _merge_cells(store, other, runs)
                    store.seal(_later(store, other, runs))
    return count


def _merge_axes(store: Store, other: Store) -> None:
    """Add the values of the axes of another store; StoreError if labels and contents do not
    agree.
    """
    digests = {
        (name, label): digest
        for name, label, digest in store.database.execute("SELECT * FROM axis")
    }
    labels = {(name, digest): label for (name, label), digest in digests.items()}
    for name, label, digest in other.database.execute("SELECT * FROM axis"):
        if digests.get((name, label), digest) != digest:
            raise StoreError(
                f"{other.path} means another {name} by {label!r} than {store.path}; merge neither"
            )
        if labels.get((name, digest), label) != label:
            raise StoreError(
                f"{other.path} calls {label!r} the {name} that {store.path} calls"
                f" {labels[name, digest]!r}; rename one"
            )
        store.database.execute("INSERT OR IGNORE INTO axis VALUES (?,?,?)", (name, label, digest))


def _merge_runs(store: Store, other: Store) -> dict[int, int]:
    """Add the runs of another store; return their numbers in this one by those in the other."""
    present = {
        tuple(facts): number
        for number, *facts in store.database.execute(
            "SELECT id, started, total, sweep, provenance FROM run"
        )
    }
    numbers: dict[int, int] = {}
    for number, *facts in other.database.execute("SELECT * FROM run"):
        started, ended, total, sweep, environment = facts
        existing = present.get((started, total, sweep, environment))
        if existing is None:
            numbers[number] = int(
                store.database.execute("INSERT INTO run VALUES (NULL,?,?,?,?,?)", facts).lastrowid
                or 0
            )
        else:  # from an earlier merge, perhaps before the run ended
            numbers[number] = existing
            store.database.execute(
                "UPDATE run SET ended = ifnull(ended, ?) WHERE id = ?", (ended, existing)
            )
    return numbers


def _later(store: Store, other: Store, runs: dict[int, int]) -> int:
    """Return the number of the run of both stores that started last."""
    here, there = store.last_run(), other.last_run()
    assert there is not None
    return runs[there[0]] if here is None or there[1] > here[1] else here[0]


def _merge_cells(store: Store, other: Store, runs: dict[int, int]) -> int:
    """Add the cells that are new, or that failed here and not there; return their number."""
    succeeded, present = store.finished(failed_since=None), store.finished()
    results: dict[str, list[tuple[Any, ...]]] = {}
    for row in other.database.execute("SELECT * FROM result ORDER BY cell, metric, step"):
        results.setdefault(row[0], []).append(row)
    cells = []
    for *cell, _ in other.database.execute("SELECT * FROM cell"):
        if cell[0] not in (present if cell[8] is not None else succeeded):
            cell[-1] = runs[cell[-1]]
            cells.append((*cell, cell_digest(cell, [row[1:] for row in results.get(cell[0], ())])))
    store.replace(cells, [row for cell in cells for row in results.get(cell[0], ())])
    return len(cells)
