"""Sweeps from TOML files: the axes and settings of :class:`Sweep` as tables and lists."""

import functools
import importlib
import inspect
import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forgetless.errors import FileError
from forgetless.io.atomic import check_source
from forgetless.reporting.text import error_text, printable
from forgetless.sweeps.sweep import Sweep
from forgetless.tables.task_files import read_tasks

NAMES = tuple(inspect.signature(Sweep).parameters)


def load_sweep(path: str | os.PathLike[str]) -> Sweep:
    """Return the sweep that a TOML file describes.

    ``schedules`` and ``orderings`` are named as on the command line. ``[tasks.NAME]`` has ``file`` (and ``task``,
    ``target``, ``loss``, ``intercept`` as in ``tables.read_tasks``), or ``function = "module:name"`` and
    its arguments; modules are looked for beside the file too, and running the sweep runs them.
    ``scales = {from = 0.01, to = 10, count = 20}`` is a geometric grid, ``seeds = {count = 20}`` is 0..19.

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
        raise ValueError(f"{path.name}: a sweep has no axis or setting {unknown[0]!r}; it has {', '.join(NAMES)}")
    missing = [name for name in ("tasks", "schedules", "k") if name not in options]
    if missing:
        raise ValueError(f"{path.name} must give {missing[0]}")
    if not isinstance(options["tasks"], Mapping):
        raise ValueError(f"{path.name}: tasks must be a table with a name for each, such as [tasks.mine]")
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
            raise ValueError(f"{path.name}: tasks {name!r} of a file have no option {min(unknown)!r}")
        return read_tasks(file, **options)
    module, colon, function = str(options.pop("function")).partition(":")
    if not colon:
        raise ValueError(f"{path.name}: function of tasks {name!r} must be 'module:name', got {module!r}")
    if str(path.parent.resolve()) not in sys.path:
        sys.path.append(str(path.parent.resolve()))
    try:
        tasks = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{path.name}: tasks {name!r} cannot be found: {printable(str(error))}") from None
    except (Exception, SystemExit) as error:
        raise ValueError(f"{path.name}: tasks {name!r}: {module} cannot be imported: {error_text(error)}") from None
    return functools.partial(tasks, **options) if options else tasks


def _numbers(path: Path, name: str, table: Mapping[str, Any], parts: tuple[str, ...]) -> list[Any]:
    positive = all(isinstance(each, int | float) and 0 < each < np.inf for each in table.values())
    if set(table) != set(parts) or not positive or any(isinstance(each, bool) for each in table.values()):
        raise ValueError(f"{path.name}: {name} must be a list, or have positive {', '.join(parts)}; got {dict(table)}")
    if not isinstance(table["count"], int):
        raise ValueError(f"{path.name}: count of {name} must be a whole number, got {table['count']}")
    return [table[part] for part in parts]
