"""What a file is: its kind and version, whether it is whole, and whether rows of somebody's data are in it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forgetless._base.archive import from_json, read_arrays
from forgetless._base.files import check_source
from forgetless._base.words import printable
from forgetless.certificates import search
from forgetless.certificates.collection import WorstCollection, read_plain
from forgetless.datasets.files import read_archive
from forgetless.errors import FileError
from forgetless.streams import files as models


@dataclass(frozen=True)
class FileReport:
    """What ``describe_file`` found; prints as a few lines.

    Attributes
    ----------
    name : str
    kind : str
        "model", "checkpoint", "worst collection", "tasks", or "" for anything else.
    version : int or None
        Of the format.
    n_bytes : int
    hash : str
        "ok", or "none" where this kind of file, or this version of it, has none.
    rows : int
        How many rows of the user's data can be read in the file.
    facts : tuple of str
        Sentences about the contents.
    problem : str
        Why the file is refused; empty if it is not.
    """

    name: str
    kind: str
    n_bytes: int
    version: int | None = None
    hash: str = "none"
    rows: int = 0
    facts: tuple[str, ...] = field(default=())
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether the file can be used."""
        return not self.problem

    def __repr__(self) -> str:
        if self.problem:
            return f"{self.name}: refused\n  {self.problem}"
        version = "" if self.version is None else f" (version {self.version})"
        held = f"holds {self.rows} rows of data; it is as private as they are" if self.rows else "holds no rows of data"
        lines = [f"{self.name}: {self.kind}{version}, {self.n_bytes:,} bytes, hash {self.hash}", *self.facts, held]
        return "\n  ".join(lines)


def describe_file(path: str | Path) -> FileReport:
    """Return what a file is, without running anything in it; it may come from anybody.

    Models, checkpoints, worst collections and ``.npz`` archives of tasks are read with all checks that using them
    makes; what is wrong is told in ``problem``.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    FileReport

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import forgetless as fl
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> fl.ContinualRidge(alpha=1.0).partial_fit([[1.0, 2.0]], [2.0]).save(path, state="predict")
    >>> report = fl.describe_file(path)
    >>> report.kind, report.version, report.hash, report.rows, report.ok
    ('model', 5, 'ok', 0, True)
    """
    path = check_source(path)
    size = path.stat().st_size
    try:
        with open(path, "rb") as file:
            start = file.read(2)
        if start != b"PK" and start[:1] != b"{":
            raise FileError(f"{path.name} is neither an archive of arrays nor JSON: no file that forgetless writes")
        kind, found = _archive(path) if start == b"PK" else _worst_collection(path)
    except FileError as error:
        return FileReport(path.name, "", size, problem=printable(str(error), 1000))
    return FileReport(path.name, kind, size, **found)


def _archive(path: Path) -> tuple[str, dict[str, Any]]:
    arrays = read_arrays(path, "NumPy archive", kinds="biufUSmM", compressed=True)
    try:
        header = from_json(arrays["header"].tobytes()) if "header" in arrays else None
    except ValueError:
        header = None
    format = header.get("format") if isinstance(header, dict) else None
    if format == models.FORMAT:
        return "model", _model(path)
    if format == search.FORMAT:
        _, descent = search.read_checkpoint(path)
        facts = (f"search of {len(descent.value)} starts after {int(descent.rounds)} rounds",)
        return "checkpoint", {"version": search.VERSION, "hash": "ok", "facts": facts}
    if {"X", "y", "groups"} <= set(arrays):
        X, _, groups = read_archive(path)
        facts = (f"{X.shape[0]} rows, {X.shape[1]} features, {len(set(groups.tolist()))} tasks",)
        return "tasks", {"rows": len(X), "facts": facts}
    raise FileError(f"{path.name} is an archive of arrays, but none of forgetless: no header, and not X, y and groups")


def _model(path: Path) -> dict[str, Any]:
    header, arrays = models.read(path)
    model = models.load_any(path)
    rows = models.held_rows(arrays)
    what = f"{header['class']} of {model.n_features_in_} features, {model.n_tasks_seen_} tasks learned"
    use = "it goes on learning" if header.get("state", "learn") == "learn" else "weights only: it predicts"
    facts = [f"{what}; {use}"]
    if rows:
        facts.append(f"{rows} held-out rows, kept because of holdout={model.holdout}; state='predict' leaves them out")
    replayed = len(read_arrays(path, "model").get("state.advisor.gram", ()))
    if replayed:
        facts.append("written by an older forgetless with rows of the last tasks; save it again to leave them out")
    noted = [name for name, value in header["parameters"].items() if models.is_note(value)]
    if noted:
        facts.append(f"{', '.join(map(printable, noted))} could not be stored and must be given to load")
    return {"version": header["version"], "hash": "ok", "rows": rows + replayed, "facts": tuple(facts)}


def _worst_collection(path: Path) -> tuple[str, dict[str, Any]]:
    found = WorstCollection.load(path)
    version = read_plain(path)["version"]
    facts = (f"{len(found.counts)} different tasks, k = {found.k}, k·loss/(R²D²) = {found.value:.6g}",)
    return "worst collection", {"version": version, "hash": "ok" if version > 1 else "none", "facts": facts}
