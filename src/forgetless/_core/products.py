"""Matrix products that leave no threads behind.

The threads of a BLAS go on spinning for some 20 ms after a product, in case another follows, and take a processor from
whatever comes next. Products here use threads that stop at once: BLAS with a single one, on parts of the rows.
"""

import functools
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np

from forgetless._core.arrays import Array, Floats
from forgetless._core.compiled import n_threads, spread

_LARGE = 2e7
"""Operations from which on a product is divided: handing a part over costs 50 µs."""


def product(A: Array, B: Array) -> Array:
    """Return A @ B of two matrices, by quiet threads where they are NumPy's."""
    if type(A) is not np.ndarray or type(B) is not np.ndarray:
        return A @ B
    rows, inner = A.shape
    found: Floats = np.empty((rows, B.shape[1]), dtype=np.result_type(A, B))
    threads = n_threads() if 2.0 * rows * inner * B.shape[1] > _LARGE else 1

    def part(first: int, last: int) -> None:
        np.matmul(A[first:last], B, out=found[first:last])

    with one_blas_thread():
        spread(part, rows, max(1, -(-rows // threads)), threads if rows > 1 else 1)
    return found


def quiet_products(n_entries: int) -> AbstractContextManager[None]:
    """Return what keeps BLAS to one thread for a matrix of middling size, one of many: threads gain nothing there."""
    return one_blas_thread() if 2**14 <= n_entries <= 2**18 else nullcontext()


def for_task(shape: tuple[int, ...]) -> AbstractContextManager[None]:
    """Return what keeps BLAS to one thread while a task (n, d) is learned, unless its Gram matrix takes long.

    Waking threads for some hundred microseconds of work costs more than they do, on a busy machine a hundred times as
    much; for a few microseconds of work they are not woken.
    """
    n, d = shape
    return one_blas_thread() if 5e4 <= float(n) * d * min(n, d) <= _WORTH_THREADS else nullcontext()


_WORTH_THREADS = 1e9
"""Products of numbers in a Gram matrix, some 0.1 s of work, from which on threads gain more than they cost."""


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Inside, products of NumPy use a single thread each.

    The limit is the whole process's, so one thread at a time sets it and takes it back; for others that come meanwhile
    it holds as long as that one is inside. Two that set it each would leave the process with a single thread.
    """
    controller = _controller()
    if controller is None or not _limiting.acquire(blocking=False):
        yield
        return
    try:
        with controller.limit(limits=1, user_api="blas"):
            yield
    finally:
        _limiting.release()


_limiting = threading.Lock()


@functools.cache
def _controller() -> Any | None:
    try:
        from threadpoolctl import ThreadpoolController  # comes with scikit-learn
    except ImportError:
        return None
    return ThreadpoolController()
