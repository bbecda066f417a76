"""What a worker does: one batch of cells, all schedules of it in one call of an engine."""

import os
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from forgetless._core.arrays import to_numpy
from forgetless._core.compiled import has_numba
from forgetless._core.products import one_blas_thread
from forgetless.engines.expectation import expect
from forgetless.engines.problem import Problem
from forgetless.engines.simulation import simulate
from forgetless.engines.worst_teacher import worst_case
from forgetless.errors import NoExactLawError
from forgetless.guarantees.certificate import BOUNDS, check_bound, setting_of
from forgetless.reporting.text import in_words
from forgetless.sweeps.grid import Batch, Grid, Value
from forgetless.tasks import TaskCollection


class Row(NamedTuple):
    """One number of a cell, as the store keeps it; its names are those of the columns there."""

    metric: str
    step: int
    value: float
    standard_error: float | None = None
    rounding: float | None = None


class Outcome(NamedTuple):
    """What became of one cell: its rows, or in words why there are none."""

    key: str
    rows: tuple[Row, ...]
    error: str | None
    seconds: float


Finished = list[tuple[Batch, list[Outcome]]]
"""Batches with what became of their cells, as engines hand them to the driver."""


def evaluate(sweep: Grid, batch: Batch) -> list[Outcome]:
    """Return what became of every cell of a batch.

    The numbers depend on the batch alone: neither on the process nor on what it did before.
    """
    began = time.perf_counter()
    with process_lock, _fixed_settings():
        try:
            found = _together(sweep, batch)
        except (Exception, SystemExit) as error:
            if len(batch.members) > 1:  # which of them it was, and what the others are
                return [one for member in batch.members for one in evaluate(sweep, batch._replace(members=(member,)))]
            found = [((), in_words(error))]
    each = (time.perf_counter() - began) / len(batch.members)
    return [Outcome(m.key, rows, why, each) for m, (rows, why) in zip(batch.members, found, strict=True)]


process_lock = threading.RLock()
"""Threads of a dask worker take turns: what is fixed for one batch is fixed for the whole process."""


@contextmanager
def _fixed_settings() -> Iterator[None]:
    """Inside, the choices are fixed that otherwise follow the machine or the past of the process, and with them bits.

    Set in the environment, where they are read; whoever set them already is left alone.
    """
    chosen = {"FORGETLESS_NUMBA": "always" if has_numba() else "never", "FORGETLESS_THREADS": "1"}
    ours = [name for name in chosen if name not in os.environ]
    os.environ.update({name: chosen[name] for name in ours})
    try:
        with one_blas_thread():
            yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def _together(sweep: Grid, batch: Batch) -> list[tuple[tuple[Row, ...], str | None]]:
    tasks = _tasks(sweep, batch)
    schedules = [sweep.scaled(member) for member in batch.members]
    compute = _exact if sweep.n_trials is None else _simulated
    rows = compute(sweep, batch, tasks, schedules)
    if sweep.bounds:
        for schedule, own in zip(schedules, rows, strict=True):
            own += _bounds(sweep, batch, tasks, schedule)
    return [(tuple(own), None) for own in rows]


_made: dict[tuple[Any, ...], TaskCollection] = {}
"""The collection made last: consecutive batches usually share it."""


def _tasks(sweep: Grid, batch: Batch) -> TaskCollection:
    value = sweep.axes["tasks"][batch.tasks]
    if isinstance(value.thing, TaskCollection):
        return value.thing
    arguments = sweep.arguments(value, batch.seed, batch.k)
    key = (value.digest, *sorted(arguments.items()))
    if key not in _made:
        found = value.thing(**arguments)
        if not isinstance(found, TaskCollection):
            try:
                found = TaskCollection(found)
            except TypeError:
                raise TypeError(
                    f"{value.label} must return a TaskCollection or pairs (X, y), got {type(found).__name__}"
                ) from None
        _made.clear()
        _made[key] = found
    return _made[key]


def _exact(sweep: Grid, batch: Batch, tasks: TaskCollection, schedules: list[Any]) -> list[list[Row]]:
    options = {
        "ordering": sweep.axes["ordering"][batch.ordering].thing,
        "record": sweep.record,
        "average": sweep.average,
    }
    rows: list[list[Row]] = [[] for _ in schedules]
    names = [name for name in sweep.metrics if name != "worst_case"]
    if names:
        made = expect(tasks, schedules, batch.k, metrics=names, **options)
        for name in names:
            values = to_numpy(made.values[name])
            for own, curve in zip(rows, values, strict=True):
                own += _curve(name, made.steps, curve, rounding=made.errors[name])
    if "worst_case" in sweep.metrics:
        worst = worst_case(tasks, schedules, batch.k, **options)
        for own, curve in zip(rows, np.reshape(worst.loss, (len(schedules), -1)), strict=True):
            own += _curve("worst_case", worst.steps, curve, rounding=worst.error)
    return rows


def _simulated(sweep: Grid, batch: Batch, tasks: TaskCollection, schedules: list[Any]) -> list[list[Row]]:
    assert sweep.n_trials is not None
    rows = []
    for schedule in schedules:
        trace = simulate(
            tasks,
            schedule,
            batch.k,
            ordering=sweep.axes["ordering"][batch.ordering].thing,
            n_trials=sweep.n_trials,
            seed=draws_of(sweep.axes["tasks"][batch.tasks], sweep.axes["ordering"][batch.ordering], batch),
            record=sweep.record,
            average=sweep.average,
            metrics=sweep.metrics,
            keep_weights=False,
        )
        own: list[Row] = []
        for name in sweep.metrics:
            values = to_numpy(trace.values[name])
            error = values.std(axis=0, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
            own += _curve(name, trace.steps, values.mean(axis=0), error)
        rows.append(own)
    return rows


def draws_of(tasks: Value, ordering: Value, batch: Batch) -> np.random.SeedSequence:
    """Return the source of the task orders of a simulated batch.

    It follows from the tasks, the ordering, k and the seed: all schedules meet the same orders, and nobody's orders
    change when an axis gets another value.
    """
    axes = zlib.crc32(f"{tasks.digest} {ordering.digest} {batch.k}".encode())
    return np.random.SeedSequence(batch.seed, spawn_key=(axes,))


def _curve(name: str, steps: Any, values: Any, errors: Any = None, rounding: float | None = None) -> list[Row]:
    found = [None] * len(values) if errors is None else errors.tolist()
    return [
        Row(name, step, value, error, rounding)
        for step, value, error in zip(steps.tolist(), np.asarray(values).tolist(), found, strict=True)
    ]


def _bounds(sweep: Grid, batch: Batch, tasks: TaskCollection, schedule: Any) -> list[Row]:
    """Return the least upper and the largest lower bound that hold for the last iterate, as metrics of their own."""
    law = sweep.axes["ordering"][batch.ordering].thing
    try:
        problem = Problem.of(tasks, schedule, batch.k, law, "last")
        setting = setting_of(problem, None)
        checks = [check_bound(bound, setting, None) for bound in BOUNDS if bound.quantity in sweep.metrics]
    except (MemoryError, NoExactLawError):
        return []
    rows = []
    for kind, best in (("upper", min), ("lower", max)):
        for metric in sweep.metrics:
            known = [c.value for c in checks if c.kind == kind and c.quantity == metric and c.value is not None]
            if known:
                rows.append(Row(f"{metric}.{kind}", batch.k, best(known)))
    return rows
