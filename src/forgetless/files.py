"""What a file is: its kind and version, whether it is whole, and whether rows of somebody's data are in it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from forgetless.advice import results as advice
from forgetless.engines import stored as stored_results
from forgetless.engines.results import Expectation, Trace
from forgetless.errors import FileError
from forgetless.estimators import files as models
from forgetless.guarantees import results as certificates
from forgetless.guarantees import search
from forgetless.guarantees.collection import WorstCollection, read_plain
from forgetless.io import task_files
from forgetless.io.archive import from_json, read_arrays, read_json, refusing
from forgetless.io.atomic import check_source
from forgetless.reporting.text import printable
from forgetless.tasks import TaskCollection


@dataclass(frozen=True)
class FileReport:
    """What ``describe_file`` found; prints as a few lines.

    Attributes
    ----------
    name : str
    kind : str
        "model", "checkpoint", "worst collection", "tasks", "trace", "expectation", "certificate", "advice", or "" for
        anything else.
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

    Models, results, certificates, advice, checkpoints, worst collections and ``.npz`` archives of tasks are read with
    all checks that using them makes; what is wrong is told in ``problem``.

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
    ('model', 6, 'ok', 0, True)
    """
    path = check_source(path)
    size = path.stat().st_size
    try:
        with open(path, "rb") as file:
            start = file.read(2)
        if start != b"PK" and start[:1] != b"{":
            raise FileError(f"{path.name} is neither an archive of arrays nor JSON: no file that forgetless writes")
        kind, found = _archive(path) if start == b"PK" else _json(path)
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
        facts: tuple[str, ...] = (f"search of {len(descent.value)} starts after {int(descent.rounds)} rounds",)
        return "checkpoint", {"version": search.VERSION, "hash": "ok", "facts": facts}
    if format == task_files.FORMAT:
        stored, pairs = task_files.read(path)
        rows = sum(len(X) for X, _ in pairs)
        facts = (f"{len(pairs)} tasks, {rows} rows, {pairs[0][0].shape[1]} features", *_origin(stored))
        return "tasks", {"version": stored["version"], "hash": "ok", "rows": rows, "facts": facts}
    if format == stored_results.FORMAT:
        kind = str(header.get("kind")) if isinstance(header, dict) else ""
        stored, fields = stored_results.read(kind if kind in RESULTS else "Trace", path)
        facts = (_of_curves(fields), *_origin(stored))
        return kind.lower(), {"version": stored["version"], "hash": "ok", "facts": facts}
    if {"X", "y", "groups"} <= set(arrays):
        from forgetless.tables.task_files import read_archive

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


RESULTS: dict[str, Any] = {"Trace": Trace, "Expectation": Expectation}
"""Results in archives, by the name that stands in them."""

RECORDS: dict[str, Any] = {certificates.FORMAT: certificates.BoundComparison, advice.FORMAT: advice.Advice}
"""Results in JSON, by their format."""


def load_result(path: str | Path) -> Any:
    """Return the trace, expectation, certificate, advice or tasks in a file; FileError for anything else."""
    path = check_source(path)
    kind = describe_file(path).kind
    kinds = {each.__name__.lower(): each for each in (*RESULTS.values(), *RECORDS.values())}
    if kind not in (*kinds, "tasks"):
        raise FileError(f"{path.name} holds no result")
    return TaskCollection.load(path) if kind == "tasks" else kinds[kind].load(path)


def _of_curves(fields: dict[str, Any]) -> str:
    steps, values = fields["steps"], fields["values"]
    several = f"{len(fields['labels'])} schedules, " if fields["labels"] else ""
    kept = "" if fields.get("weights") is None else ", with weights"
    return f"{several}{len(steps)} steps in {steps[0]}..{steps[-1]}: {', '.join(values)}{kept}"


def _origin(header: dict[str, Any]) -> list[str]:
    """Return what a header says of where its file comes from: words of a stranger, made printable."""
    made, facts = header.get("provenance"), []
    if isinstance(made, dict) and made:
        call = f"{made['call']} of " if "call" in made else ""
        facts.append(printable(f"made by {call}forgetless {made.get('forgetless')} on {made.get('made')}", 200))
    if header.get("note"):
        facts.append(printable(f"note: {header['note']}", 500))
    return facts


def _json(path: Path) -> tuple[str, dict[str, Any]]:
    with refusing(path, "JSON"):
        plain = read_json(path)
    kind = RECORDS.get(str(plain.get("format"))) if isinstance(plain, dict) else None
    if kind is None:
        return _worst_collection(path)
    found = kind.load(path)
    first = f"k = {found.k}" + (f", best {printable(found.options[0].title, 100)}" if hasattr(found, "options") else "")
    facts = (first, *_origin(plain))
    return kind.__name__.lower(), {"version": plain["version"], "hash": "ok", "facts": facts}


def _worst_collection(path: Path) -> tuple[str, dict[str, Any]]:
    found = WorstCollection.load(path)
    version = read_plain(path)["version"]
    facts = (f"{len(found.counts)} different tasks, k = {found.k}, k·loss/(R²D²) = {found.value:.6g}",)
    return "worst collection", {"version": version, "hash": "ok" if version > 1 else "none", "facts": facts}
