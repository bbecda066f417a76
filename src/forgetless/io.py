"""Files of models, tasks and results, in the format of safetensors.

A file holds a kind, a header of JSON values and named arrays. Kind, header, the version of the
format and that of the library are one JSON text in the metadata of safetensors, beside the SHA-256
of that text and of all arrays. Reading executes nothing, and a change of any name, number or
text raises an error.

The checksum detects damage, not forgery: whoever can write a file can write any numbers with a
valid checksum. What builds an object therefore takes its arrays out of :class:`Fields`, which
checks dtypes and shapes, and every exception on the way becomes a ``FileError``.
"""

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from forgetless._text import printable, version
from forgetless.errors import FileError

VERSION = 1
"""Of the format."""

KINDS = {
    "curves": "lab.results",
    "model": "estimators.files",
    "table-model": "tables.stream",
    "tasks": "tasks",
}
"""Module whose ``from_document`` builds the object in a document of this kind."""

Arrays = Mapping[str, NDArray[Any]]
"""Arrays of a document by name, of numbers or booleans."""


class Document(NamedTuple):
    """The content of a file, and the version of forgetless that wrote it."""

    kind: str
    header: dict[str, Any]
    arrays: Arrays
    written_by: str = ""


def load(path: str | Path) -> Any:
    """Return the object in a file that ``save`` wrote: a model, tasks or a result.

    Nothing in the file is executed, so that it may come from anybody.

    Parameters
    ----------
    path : str or Path

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
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "tasks.safetensors"
    >>> fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.0, 2.0]], [4.0])]).save(path)
    >>> fl.load(path)
    TaskCollection(n_tasks=2, n_features=2, rows=1, ranks=1, radius=2)
    """
    # A kind that is not known is one of a later version.
    document = read(Path(path))
    if document.kind not in KINDS:
        raise FileError(
            f"{path} holds {printable(document.kind, 60)!r}, which this forgetless cannot load;"
            " upgrade forgetless"
        )
    with file_errors(path):
        return import_module(f"forgetless.{KINDS[document.kind]}").from_document(document)


def write(path: str | Path, kind: str, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Write a document to a file, which is replaced atomically.

    ``header`` holds JSON values; numbers may be infinite or NaN. Arrays hold numbers or booleans.
    """
    about = {"kind": kind, "version": VERSION, "forgetless": version(), "header": dict(header)}
    text = json.dumps(about)
    # safetensors writes the memory of an array as it lies there, whatever its strides: a Fortran
    # array would come back scrambled. (np.ascontiguousarray would turn a scalar into a vector.)
    stored = {
        name: np.asarray(array, dtype=np.asarray(array).dtype.newbyteorder("<"), order="C")
        for name, array in arrays.items()
    }
    metadata = {"forgetless": text, "sha256": _digest(text, stored)}
    replace_file(path, safetensors.numpy.save(stored, metadata))


def read(path: str | Path, kind: str | None = None) -> Document:
    """Return the document in a file; FileError if it is damaged, or of another kind.

    Parameters
    ----------
    path : str or Path
    kind : str, optional
        The kind that is wanted; any if omitted.
    """
    with file_errors(path):
        # Python reads it, and not safetensors: a file larger than the memory would end the process.
        content = check_source(path).read_bytes()
        arrays = safetensors.numpy.load(content)
        # The format: eight bytes with the length of a JSON text, this text, then the arrays.
        metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get(
            "__metadata__", {}
        )
        if "forgetless" not in metadata:
            raise ValueError("it has no header of forgetless")
        text = metadata["forgetless"]
        if metadata.get("sha256") != _digest(text, arrays):
            raise ValueError("its content does not match its checksum")
        about = json.loads(text)
        if about["version"] != VERSION:
            raise FileError(
                f"{path} has version {about['version']} of the format, this forgetless reads"
                f" {VERSION}; upgrade forgetless"
            )
        document = Document(str(about["kind"]), about["header"], arrays, str(about["forgetless"]))
    if kind not in (None, document.kind):
        raise FileError(f"{path} holds {printable(document.kind, 60)!r}, not {kind!r}")
    return document


def _digest(text: str, arrays: Arrays) -> str:
    """Return the SHA-256 of a header and of names, dtypes, shapes and bytes of arrays."""
    total = hashlib.sha256(text.encode())
    # In an order that does not depend on how a dict was made.
    for name in sorted(arrays):
        array = arrays[name]
        total.update(repr((name, array.dtype.str, array.shape)).encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


@contextlib.contextmanager
def file_errors(path: str | Path) -> Iterator[None]:
    """Raise every exception as a FileError that names the file, the reason and what to do."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror or error}") from error
    except MemoryError as error:
        raise FileError(f"{path} cannot be read: it is larger than the memory") from error
    # Content from anybody can make a parser or a constructor raise almost anything.
    except Exception as error:
        reason = str(error)
        # The type says more than the message of a KeyError does.
        if not isinstance(error, ValueError):
            reason = f"{type(error).__name__}: {error}"
        raise FileError(
            f"{path} is damaged or not a forgetless file: {printable(reason, 300)}; restore a copy,"
            " or save the object again"
        ) from error


class Fields:
    """Arrays of a file that are taken out one by one; ValueError where dtype, shape or range is not
    as required.

    Examples
    --------
    >>> import numpy as np
    >>> from forgetless.io import Fields
    >>> fields = Fields({"rows": np.array([3, -1])})
    >>> fields.array("rows", "i", (None,), low=0)
    Traceback (most recent call last):
        ...
    ValueError: rows is below 0
    """

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = dict(arrays)

    def array(
        self,
        name: str,
        kinds: str,
        shape: tuple[int | None, ...] | None = None,
        *,
        low: float | None = None,
        high: float | None = None,
        finite: bool = True,
    ) -> NDArray[Any]:
        """Return an array that has what is required of it, and take it out.

        Parameters
        ----------
        name : str
        kinds : str
            Allowed kinds of dtypes, as NumPy names them: "f", "iu", "b".
        shape : tuple, optional
            None allows any length of an axis, or any shape at all.
        low, high : float, optional
            The smallest and the largest number that is allowed.
        finite : bool, default True
            Whether NaN and infinity are refused.
        """
        if name not in self._arrays:
            raise ValueError(f"{name} is missing")
        array = self._arrays.pop(name)
        if array.dtype.kind not in kinds:
            raise ValueError(f"{name} has the dtype {array.dtype}")
        if shape is not None:
            same = [want in (None, n) for want, n in zip(shape, array.shape, strict=False)]
            if len(shape) != array.ndim or not all(same):
                raise ValueError(f"{name} has the shape {array.shape}, not {shape}")
        if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{name} is not finite")
        if low is not None and (array < low).any():
            raise ValueError(f"{name} is below {low}")
        if high is not None and (array > high).any():
            raise ValueError(f"{name} is above {high}")
        return array

    def end(self) -> None:
        """Raise ValueError if an array was not taken out."""
        if self._arrays:
            raise ValueError(f"{min(self._arrays)} does not belong there")


def replace_file(path: str | Path, content: bytes | memoryview) -> None:
    """Replace the content of a file atomically: it has the old content or the new one, also after a
    kill or a loss of power. Links are followed, and the mode of the file stays.
    """
    target = check_target(path)
    temporary = target.with_name(f".{target.name}.{os.urandom(6).hex()}.part")
    try:
        with open(temporary, "xb") as file:
            # Before a byte is written, which may be private.
            if target.exists():
                shutil.copymode(target, temporary)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        # A full disk names no file.
        error.filename = str(target)
        raise
    finally:
        # It is there after an error only.
        temporary.unlink(missing_ok=True)
    # The new name is on the disk when its folder is. Some systems cannot open or sync folders.
    with contextlib.suppress(OSError):
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def check_target(path: str | Path) -> Path:
    """Return the file that a path stands for; an OSError where it cannot be replaced."""
    target = Path(os.path.realpath(path))
    # What is still a link leads back to itself.
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise FileExistsError(
            f"{target} is a folder, device, pipe or broken link; give the name of a file"
        )
    if target.exists() and not (target.stat().st_mode & 0o222 and os.access(target, os.W_OK)):
        raise PermissionError(f"{target} is read-only; allow writing, or give another name")
    check_folder(target.parent)
    if not target.parent.exists():
        raise FileNotFoundError(f"there is no folder {target.parent}; create it first")
    return target


def check_folder(folder: Path) -> None:
    """Raise an OSError if no file can be created in a folder, or in its nearest parent that
    exists.
    """
    # Folders on the way that are not there yet are made by whoever writes.
    nearest = next(place for place in [folder, *folder.parents] if place.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(f"{nearest} is a file; give a folder")
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise PermissionError(
            f"no file can be created in the folder {nearest}; allow writing, or give another folder"
        )


def check_source(path: str | Path) -> Path:
    """Return the path of a regular file; FileNotFoundError for anything else."""
    path = Path(path)
    if path.is_file():
        return path
    if path.is_symlink() or path.exists():
        raise FileNotFoundError(f"{path} is a folder, device, pipe or broken link, not a file")
    raise FileNotFoundError(f"there is no file {path}")
