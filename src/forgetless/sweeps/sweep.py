"""Sweeps: many runs over named axes, on all processors or a cluster, into a durable store."""

import functools
import importlib
import inspect
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forgetless._core.text import error_text, printable
from forgetless.errors import FileError
from forgetless.io.atomic import check_source
from forgetless.reporting.progress import Progress
from forgetless.reporting.table import Table
from forgetless.sweeps import report
from forgetless.sweeps.grid import AXES, Grid
from forgetless.sweeps.run import choose_engine, run
from forgetless.sweeps.store import Store
from forgetless.tables.task_files import read_tasks

AnyPath = str | os.PathLike[str]


class Sweep(Grid):
    """Every combination of tasks, schedules, scales, numbers of steps, orderings and seeds.

    Parameters
    ----------
    tasks : dict from name to TaskCollection or function, or one of these
        A function that returns the tasks may take ``seed`` and ``k``; all other arguments must be
        bound, e.g. by ``functools.partial``. It is identified by its source, its arguments and the
        globals that it uses.
    schedules : dict from name to schedule, filter or name of a schedule, or a list or one of these
    k : int or list of int
        Numbers of steps.
    scales : list of float, optional
        Each multiplies the strengths of every schedule: λ by it, step sizes by its inverse. Steps
        that solve each task exactly have no strength and come once.
    orderings : dict, list or one Ordering, or their names, default ``WithReplacement()``
    seeds : list of int, default (0,)
        Given to functions that make tasks, and the source of the orders of simulated runs: all
        schedules have the same orders, and no number changes when an axis gets another value. Left
        out if nothing depends on it.
    metrics : names, default ``("average_loss",)``
        Some of ``average_loss``, ``seen_loss``, ``forgetting``, ``drift``, ``next_loss`` and, for
        exact sweeps, ``worst_case``.
    n_trials : int, optional
        Simulate so many runs of every cell, for a mean and its standard error. By default all cells
        are exact.
    average : float, optional
        Measure averages of the iterates, as in :func:`forgetless.expect`.
    record : "last", "log", "all" or list of steps, default "last"
        Where metrics are recorded on the way to k.
    bounds : bool, default False
        Keep beside every loss the least upper and the largest lower bound that hold for it.

    Examples
    --------
    >>> import tempfile
    >>> import forgetless as fl
    >>> tasks = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.8, 0.6]], [1.4])])
    >>> sweep = fl.sweeps.Sweep(tasks, {"none": fl.Projection(), "up": "increasing"}, k=[4, 16],
    ...     scales=[0.1, 1])
    >>> sweep
    Sweep(6 cells: 2 schedule, 2 scale, 2 k)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = sweep.run(f"{folder}/results.db", n_workers=0)
    >>> print(table.text())
    tasks  schedule  scale  ordering           k  seed  average_loss
    tasks  none          –  with-replacement   4  –           0.0258
    tasks  none          –  with-replacement  16  –         0.002385
    tasks  up          0.1  with-replacement   4  –          0.02174
    tasks  up          0.1  with-replacement  16  –         0.005315
    tasks  up            1  with-replacement   4  –           0.2681
    tasks  up            1  with-replacement  16  –          0.03873
    """

    def run(
        self,
        store: AnyPath,
        client: Any = None,
        *,
        n_workers: int | None = None,
        retry: bool = False,
        time_limit: float | None = None,
        progress: Progress | bool | None = None,
    ) -> Table:
        """Compute the cells that the store lacks, and return the table of all.

        Cells are committed as they finish: after Ctrl-C, a crash or a loss of power, the same call
        resumes. Cells that fail are recorded with their error and do not stop the rest. ValueError
        before the start if some cells cannot work, such as those of a schedule of 4 coefficients at
        k = 16.

        Parameters
        ----------
        store : path
            One SQLite file, created if it does not exist. Only one process at a time writes to it.
        client : dask.distributed.Client, optional
            Compute on a dask cluster (``pip install 'forgetless[cluster]'``).
        n_workers : int, optional
            Processes on this machine, by default as many as processors; 0 computes in this process.
        retry : bool, default False
            Compute cells again that failed in earlier runs.
        time_limit : float, optional
            Seconds that a cell may take; then its worker process is ended and the cell recorded as
            failed. A batch of m cells, which differ in the schedule only, may take m times as long
            before it is split. On a cluster, too, this ends a worker process.
        progress : bool or callable, optional
            True shows a bar, False none, and by default there is one on a terminal; a callable is
            called as ``progress(done, total, "cells")`` after every commit.

        Returns
        -------
        Table
            As from :meth:`table`.
        """
        self.check_cells()
        run(self, store, choose_engine(self, client, n_workers, time_limit), retry, progress)
        return self.table(store)

    def table(self, store: AnyPath) -> Table:
        """Return the results of this sweep: a row per cell and recorded step, a column per axis and
        metric.
        """
        axes = dict(self._cells())
        with Store(store) as opened:
            # With the labels of this sweep, which may differ from those of the store.
            rows = [(*axes[row[-1]], *row[len(AXES) :]) for row in opened.rows() if row[-1] in axes]
            n_failed = len(axes.keys() & opened.failures().keys())
            n_missing = len(axes.keys() - opened.finished())
        return report.wide(rows, self.axes, report.lacking(n_missing, n_failed))

    def _cells(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the keys of all cells, with their values on ``AXES``."""
        for batch in self.batches:
            for member in batch.members:
                yield (
                    member.key,
                    (
                        batch.tasks,
                        member.schedule,
                        member.scale,
                        batch.ordering,
                        batch.k,
                        batch.seed,
                    ),
                )

    def failures(self, store: AnyPath) -> Table:
        """Return the cells that failed, with their errors."""
        with Store(store) as opened:
            errors = opened.failures()
        rows = [(*axes, errors[key]) for key, axes in self._cells() if key in errors]
        names = (*AXES, "error")
        return Table(
            "Failed cells", {name: [row[i] for row in rows] for i, name in enumerate(names)}
        )

    def summary(self, store: AnyPath, y: str | None = None) -> Table:
        """Return a table for a paper: means over seeds at every k, the slope of log loss in log k,
        bounds.

        See :func:`forgetless.sweeps.report.summary`.
        """
        return report.summary(self.table(store), y or self.metrics[0])

    def plot(
        self,
        store: AnyPath,
        x: str = "k",
        y: str | None = None,
        hue: str = "schedule",
        *,
        where: Mapping[str, Any] | None = None,
        ax: Any = None,
    ) -> Any:
        """Draw a metric against an axis, one line for each value of another; return the axes.

        Parameters
        ----------
        store : path
        x : {"k", "scale", "seed"}, default "k"
        y : str, optional
            A metric, by default the first of the sweep.
        hue : str, default "schedule"
            The axis whose values are the lines.
        where : dict, optional
            Values of axes to which the figure is limited, such as ``{"tasks": "mine"}``.
        ax : matplotlib axes, optional
            For a figure of one panel.

        Returns
        -------
        axes, or a list of them
            A panel for every combination of the axes that are neither ``x`` nor ``hue``. Points are
            means over seeds with bars of one standard error; of several scales the best is taken;
            bounds are thin lines.
        """
        from forgetless.plots import results as plots

        table, y = self.table(store), y or self.metrics[0]
        for name in where or {}:
            report.check_column(table, name, AXES)
        return plots.plot_lines(report.panels(table.where(**(where or {})), x, y, hue), x, y, ax)


NAMES = tuple(inspect.signature(Sweep).parameters)


def load_sweep(path: AnyPath) -> Sweep:
    """Return the sweep that a TOML file describes.

    ``schedules`` and ``orderings`` are named as on the command line. ``[tasks.NAME]`` has ``file``
    (and ``task``, ``target``, ``loss``, ``intercept`` as in ``tables.read_tasks``), or ``function =
    "module:name"`` and its arguments; modules are looked for beside the file too, and running the
    sweep runs them. ``scales = {from = 0.01, to = 10, count = 20}`` is a geometric grid, ``seeds =
    {count = 20}`` is 0..19.

    Parameters
    ----------
    path : path

    Returns
    -------
    Sweep
    """
    path = check_source(Path(path))
    try:
        options = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{path.name} is not TOML: {error}") from None
    unknown = [name for name in options if name not in NAMES]
    if unknown:
        raise ValueError(
            f"{path.name}: a sweep has no axis or setting {unknown[0]!r}; it has {', '.join(NAMES)}"
        )
    missing = [name for name in ("tasks", "schedules", "k") if name not in options]
    if missing:
        raise ValueError(f"{path.name} must give {missing[0]}")
    if not isinstance(options["tasks"], Mapping):
        raise ValueError(
            f"{path.name}: tasks must be a table with a name for each, such as [tasks.mine]"
        )
    options["tasks"] = {name: _tasks(path, name, table) for name, table in options["tasks"].items()}
    if isinstance(options.get("scales"), Mapping):
        low, high, count = _numbers(path, "scales", options["scales"], ("from", "to", "count"))
        options["scales"] = np.geomspace(low, high, count).tolist()
    if isinstance(options.get("seeds"), Mapping):
        options["seeds"] = range(_numbers(path, "seeds", options["seeds"], ("count",))[0])
    return Sweep(**options)


def _tasks(path: Path, name: str, table: Any) -> Any:
    if not isinstance(table, Mapping) or ("file" in table) == ("function" in table):
        raise ValueError(f"{path.name}: tasks {name!r} must have either file or function")
    options = dict(table)
    if "file" in options:
        file = path.parent / options.pop("file")
        unknown = set(options) - {"task", "target", "loss", "intercept"}
        if unknown:
            raise ValueError(
                f"{path.name}: tasks {name!r} of a file have no option {min(unknown)!r}"
            )
        return read_tasks(file, **options)
    module, colon, function = str(options.pop("function")).partition(":")
    if not colon:
        raise ValueError(
            f"{path.name}: function of tasks {name!r} must be 'module:name', got {module!r}"
        )
    if str(path.parent.resolve()) not in sys.path:
        sys.path.append(str(path.parent.resolve()))
    try:
        tasks = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{path.name}: tasks {name!r} cannot be found: {printable(str(error))}"
        ) from None
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"{path.name}: tasks {name!r}: {module} cannot be imported: {error_text(error)}"
        ) from None
    return functools.partial(tasks, **options) if options else tasks


def _numbers(path: Path, name: str, table: Mapping[str, Any], parts: tuple[str, ...]) -> list[Any]:
    positive = all(isinstance(each, int | float) and 0 < each < np.inf for each in table.values())
    if (
        set(table) != set(parts)
        or not positive
        or any(isinstance(each, bool) for each in table.values())
    ):
        raise ValueError(
            f"{path.name}: {name} must be a list, or have positive {', '.join(parts)}; got"
            f" {dict(table)}"
        )
    if not isinstance(table["count"], int):
        raise ValueError(
            f"{path.name}: count of {name} must be a whole number, got {table['count']}"
        )
    return [table[part] for part in parts]
