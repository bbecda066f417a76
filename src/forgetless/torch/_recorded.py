"""Proximal steps recorded as CUDA graphs: ten kernel launches take longer than the work itself."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

LARGE = 2**23
"""Elements from which on launches are cheap beside the work, so that nothing is recorded: a recording holds the memory
of its intermediate results, here twice that of the weights."""


class Number:
    """A number on the device, written only when it changes."""

    def __init__(self, like: Any) -> None:
        self.tensor = torch.empty((), device=like.device, dtype=like.dtype)
        self._value: float | None = None

    def set(self, value: Any) -> None:
        """Take a number, or a tensor of one element; without synchronising the device."""
        if isinstance(value, torch.Tensor):
            self.tensor.copy_(value.reshape(()), non_blocking=True)
            self._value = None
        elif value != self._value:
            self.tensor.fill_(value)
            self._value = value


class Recording:
    """A recorded function of tensors at fixed addresses.

    Parameters
    ----------
    work : callable
        Launches kernels that read and write ``tensors``, and returns nothing.
    tensors : sequence of tensors
        All tensors that it reads or writes and that may be reallocated; ``fits`` compares their addresses.
    constants : tuple
        Numbers that the recording contains.
    """

    def __init__(self, work: Callable[[], None], tensors: Sequence[Any], constants: tuple[float, ...]) -> None:
        self._constants = constants
        self._places = [each.data_ptr() for each in tensors]
        self._storages = [
            each.untyped_storage() for each in tensors
        ]  # the graph refers to addresses, so the memory must not be freed
        device = tensors[0].device
        self._graph = torch.cuda.CUDAGraph()
        stream, now = torch.cuda.Stream(device), torch.cuda.current_stream(device)
        stream.wait_stream(now)
        with torch.cuda.stream(stream):
            # Other threads, such as those that pin memory, may use the device meanwhile.
            self._graph.capture_begin(capture_error_mode="thread_local")
            try:
                work()
            finally:
                self._graph.capture_end()
        now.wait_stream(stream)

    def fits(self, tensors: Sequence[Any], constants: tuple[float, ...]) -> bool:
        """Whether constants and addresses are those of the recording."""
        return constants == self._constants and [each.data_ptr() for each in tensors] == self._places

    def run(self) -> None:
        """Launch everything, on the current stream."""
        self._graph.replay()
