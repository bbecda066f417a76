"""Files of every kind: one function reads them."""

from importlib import import_module
from pathlib import Path
from typing import Any

from forgetless._core.text import printable
from forgetless.errors import FileError
from forgetless.io.document import Document, file_errors, read

KINDS = {
    "advice": ("advice.results", "from_document"),
    "bound-comparison": ("guarantees.results", "from_document"),
    "expectation": ("engines.results", "from_document"),
    "model": ("estimators.files", "from_document"),
    "pipeline": ("tables.pipeline", "from_document"),
    "tasks": ("tasks.collection", "from_document"),
    "trace": ("engines.results", "from_document"),
}
"""Module and function that build the object in a document of this kind; the function raises
ValueError."""


def load(path: str | Path, *, mmap: bool = False) -> Any:
    """Return the object in a file: a model, tasks, or a result of any kind.

    Nothing in the file is executed, and every value is validated, so that the file may come from
    anybody.

    Parameters
    ----------
    path : str or Path
        A file that ``save`` wrote.
    mmap : bool, default False
        Whether arrays are read-only views of the file instead of copies in memory, for tasks that
        are larger.

    Returns
    -------
    object of the class that was saved

    Raises
    ------
    FileError
        If the file cannot be read, is damaged or is not one of forgetless; the message names it and
        the reason.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import forgetless as fl
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tasks.fl"
    >>> fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 2.0]], [4.0])]).save(path)
    >>> fl.load(path)
    TaskCollection(n_tasks=2, n_features=2, rows=1, ranks=1, radius=2)
    """
    return build(read(path, mmap=mmap), Path(path))


def build(document: Document, path: Path) -> Any:
    """Return the object in a document that was read from ``path``; FileError if there is none."""
    if document.kind not in KINDS:
        raise FileError(
            f"{path} holds {printable(document.kind, 60)!r}, which this forgetless cannot load;"
            " upgrade it"
        )
    module, function = KINDS[document.kind]
    construct = getattr(import_module(f"forgetless.{module}"), function)
    with file_errors(path):
        return construct(document)
