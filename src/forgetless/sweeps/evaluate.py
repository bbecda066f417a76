"""Evaluation of a batch of cells, with all of its schedules in one call of an engine."""

import os
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.compiled import has_numba
from forgetless._core.text import error_text
from forgetless._core.threads import one_blas_thread
from forgetless.engines.expectation import expect, worst_case
from forgetless.engines.problem import Problem
from forgetless.engines.simulation import simulate
from forgetless.errors import NoExactLawError
from forgetless.guarantees.comparison import BOUNDS, setting_of
from forgetless.guarantees.results import check_bound
from forgetless.sweeps.grid import Batch, Grid, Value
from forgetless.tasks import TaskCollection


class Row(NamedTuple):
    """One number of a cell; the names are those of the columns of the store."""

    metric: str
    step: int
    value: float
    standard_error: float | None = None
    rounding: float | None = None


class Outcome(NamedTuple):
    """Rows of one cell, or the error why there are none."""

    key: str
    rows: tuple[Row, ...]
    error: str | None
    seconds: float


Finished = list[tuple[Batch, list[Outcome]]]
"""Batches with the outcomes of their cells."""


def evaluate(sweep: Grid, batch: Batch) -> list[Outcome]:
    """Return the outcomes of all cells of a batch.

    The numbers depend on the batch alone: neither on the process nor on its history.
    """
    start = time.perf_counter()
    with process_lock, _fixed_settings():
        try:
            rows, message = _evaluate(sweep, batch), None
        except (Exception, SystemExit) as error:
            if len(batch.members) > 1:  # isolates the cell that fails
                alone = [batch._replace(members=(member,)) for member in batch.members]
                return [outcome for part in alone for outcome in evaluate(sweep, part)]
            rows, message = [[]], error_text(error)
    seconds = (time.perf_counter() - start) / len(batch.members)
    return [
        Outcome(member.key, tuple(cell_rows), message, seconds)
        for member, cell_rows in zip(batch.members, rows, strict=True)
    ]


process_lock = threading.RLock()
"""Threads of a dask worker take turns, since the settings of a batch hold for the whole process."""


@contextmanager
def _fixed_settings() -> Iterator[None]:
    """Fix the choices that otherwise depend on the machine or the history of the process, and with
    them the last bits.

    They are read from the environment; variables that are already set stay as they are.
    """
    defaults = {"FORGETLESS_NUMBA": "always" if has_numba() else "never", "FORGETLESS_THREADS": "1"}
    added = {name: value for name, value in defaults.items() if name not in os.environ}
    os.environ.update(added)
    try:
        with one_blas_thread():
            yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _evaluate(sweep: Grid, batch: Batch) -> list[list[Row]]:
    tasks = _tasks(sweep, batch)
    schedules = [sweep.scaled(member) for member in batch.members]
    compute = _exact if sweep.n_trials is None else _simulated
    rows = compute(sweep, batch, tasks, schedules)
    if sweep.bounds:
        for schedule, cell_rows in zip(schedules, rows, strict=True):
            cell_rows += _bounds(sweep, batch, tasks, schedule)
    return rows


_last_tasks: dict[tuple[Any, ...], TaskCollection] = {}
"""The last collection that a function returned: consecutive batches usually share it."""


def _tasks(sweep: Grid, batch: Batch) -> TaskCollection:
    value = sweep.axes["tasks"][batch.tasks]
    if isinstance(value.thing, TaskCollection):
        return value.thing
    arguments = sweep.arguments(value, batch.seed, batch.k)
    key = (value.digest, *sorted(arguments.items()))
    if key not in _last_tasks:
        tasks = value.thing(**arguments)
        if not isinstance(tasks, TaskCollection):
            try:
                tasks = TaskCollection(tasks)
            except TypeError:
                raise TypeError(
                    f"{value.label} must return a TaskCollection or pairs (X, y), got"
                    f" {type(tasks).__name__}"
                ) from None
        _last_tasks.clear()
        _last_tasks[key] = tasks
    return _last_tasks[key]


def _exact(
    sweep: Grid, batch: Batch, tasks: TaskCollection, schedules: list[Any]
) -> list[list[Row]]:
    options = {
        "ordering": sweep.axes["ordering"][batch.ordering].thing,
        "record": sweep.record,
        "average": sweep.average,
    }
    rows: list[list[Row]] = [[] for _ in schedules]
    names = [name for name in sweep.metrics if name != "worst_case"]
    if names:
        expectation = expect(tasks, schedules, batch.k, metrics=names, **options)
        for name in names:
            for cell_rows, curve in zip(rows, expectation.values[name], strict=True):
                cell_rows += _curve(
                    name, expectation.steps, curve, rounding=expectation.errors[name]
                )
    if "worst_case" in sweep.metrics:
        worst = worst_case(tasks, schedules, batch.k, **options)
        for cell_rows, curve in zip(
            rows, np.reshape(worst.loss, (len(schedules), -1)), strict=True
        ):
            cell_rows += _curve("worst_case", worst.steps, curve, rounding=worst.error)
    return rows


def _simulated(
    sweep: Grid, batch: Batch, tasks: TaskCollection, schedules: list[Any]
) -> list[list[Row]]:
    assert sweep.n_trials is not None
    task_axis, ordering = sweep.axes["tasks"][batch.tasks], sweep.axes["ordering"][batch.ordering]
    rows = []
    for schedule in schedules:
        trace = simulate(
            tasks,
            schedule,
            batch.k,
            ordering=ordering.thing,
            n_trials=sweep.n_trials,
            seed=seed_of(task_axis, ordering, batch),
            record=sweep.record,
            average=sweep.average,
            metrics=sweep.metrics,
            keep_weights=False,
        )
        cell_rows: list[Row] = []
        for name in sweep.metrics:
            values = trace.values[name]
            error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
            cell_rows += _curve(name, trace.steps, values.mean(axis=0), error)
        rows.append(cell_rows)
    return rows


def seed_of(tasks: Value, ordering: Value, batch: Batch) -> np.random.SeedSequence:
    """Return the seed of the task orders of a simulated batch.

    It depends on the tasks, the ordering, k and the seed: all schedules have the same orders, which
    do not change when an axis gets another value.
    """
    axes = zlib.crc32(f"{tasks.digest} {ordering.digest} {batch.k}".encode())
    return np.random.SeedSequence(batch.seed, spawn_key=(axes,))


def _curve(
    name: str, steps: Any, values: Any, errors: Any = None, rounding: float | None = None
) -> list[Row]:
    standard_errors = [None] * len(values) if errors is None else errors.tolist()
    return [
        Row(name, step, value, error, rounding)
        for step, value, error in zip(
            steps.tolist(), np.asarray(values).tolist(), standard_errors, strict=True
        )
    ]


def _bounds(sweep: Grid, batch: Batch, tasks: TaskCollection, schedule: Any) -> list[Row]:
    """Return the least upper and the largest lower bound that hold for the last iterate, as metrics
    of their own.
    """
    ordering = sweep.axes["ordering"][batch.ordering].thing
    try:
        problem = Problem.of(tasks, schedule, batch.k, ordering, "last")
        setting = setting_of(problem, None)
        checks = [
            check_bound(bound, setting, None) for bound in BOUNDS if bound.quantity in sweep.metrics
        ]
    except (MemoryError, NoExactLawError):
        return []
    rows = []
    for kind, best in (("upper", min), ("lower", max)):
        for metric in sweep.metrics:
            values = [
                c.value
                for c in checks
                if c.kind == kind and c.quantity == metric and c.value is not None
            ]
            if values:
                rows.append(Row(f"{metric}.{kind}", batch.k, best(values)))
    return rows
