"""Compiled functions whose cache on disk carries digests, so that damaged code is noticed and never run.

numba keeps compiled code as pickled objects beside the module and trusts what it finds there. Only modules that need
numba import this one.
"""

import contextlib
import hashlib
import importlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from numba import njit

# A numba that keeps its cache another way has no such class: then its cache is used as it is.
_CacheFile: Any = getattr(importlib.import_module("numba.core.caching"), "IndexDataCacheFile", type("Nothing", (), {}))

_DIGEST = 32

_SEALED = ".sealed.nb"


class _SealedFile(_CacheFile):  # type: ignore[misc]
    """Cache files that end in a digest, which numba's pickles do not read; a cache that fails is no cache."""

    @contextlib.contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(content.getvalue() + hashlib.sha256(content.getvalue()).digest())

    def save(self, key: Any, data: Any) -> None:
        with contextlib.suppress(OSError):
            super().save(key, data)

    def load(self, key: Any) -> Any:
        with contextlib.suppress(OSError):
            return super().load(key)
        return None


def jit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return ``numba.njit`` with a sealed cache; ``options`` are numba's."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = njit(cache=True, **options)(function)
        file = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
        if isinstance(file, _CacheFile) and hasattr(file, "_index_path"):
            file.__class__ = _SealedFile
            # Names of their own: what was written without a digest is left alone.
            file._index_path = file._index_path.removesuffix(".nbi") + f"{_SEALED}i"
            file._data_name_pattern = file._data_name_pattern.removesuffix(".nbc") + f"{_SEALED}c"
        return dispatcher

    return compiled


def damaged_cache(module: Any) -> list[Path]:
    """Return the cache files of a module of compiled functions that do not match their digests."""
    caches: Iterator[Any] = (getattr(value, "_cache", None) for value in vars(module).values())
    folders = {Path(cache.cache_path) for cache in caches if isinstance(getattr(cache, "cache_path", None), str)}
    stem = module.__name__.rpartition(".")[2]
    return [path for folder in folders for path in sorted(folder.glob(f"{stem}.*{_SEALED}[ic]")) if not _intact(path)]


def _intact(path: Path) -> bool:
    try:
        content = path.read_bytes()
    except OSError:  # removed meanwhile, or not ours to read: numba does without
        return True
    return hashlib.sha256(content[:-_DIGEST]).digest() == content[-_DIGEST:]
