"""Kernels of a pull recorded once as a CUDA graph and launched together: ten launches take longer than the work."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

LARGE = 2**23
"""Elements from which on launching is cheap beside the work, so that nothing is recorded: a recording keeps the memory
of everything it makes, here twice that of the weights."""


class Number:
    """A number on the device, written only where it changes."""

    def __init__(self, like: Any) -> None:
        self.tensor = torch.empty((), device=like.device, dtype=like.dtype)
        self._value: float | None = None

    def set(self, value: Any) -> None:
        """Take a number, or a tensor of one element; from device to device nothing waits."""
        if isinstance(value, torch.Tensor):
            self.tensor.copy_(value.reshape(()), non_blocking=True)
            self._value = None
        elif value != self._value:
            self.tensor.fill_(value)
            self._value = value


class Recording:
    """A function of tensors that stay where they are, to be run again and again.

    Parameters
    ----------
    work : callable
        Launches kernels that read and write ``tensors``, and returns nothing.
    tensors : sequence of tensors
        All that it reads or writes and that others may move; ``fits`` says whether they lie where they did.
    constants : tuple
        Numbers that it has inside.
    """

    def __init__(self, work: Callable[[], None], tensors: Sequence[Any], constants: tuple[float, ...]) -> None:
        self._constants = constants
        self._places = [each.data_ptr() for each in tensors]
        self._kept = [each.untyped_storage() for each in tensors]  # the graph knows addresses, so they stay taken
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
        """Whether these are the numbers of the recording, and the tensors lie where its tensors did."""
        return constants == self._constants and [each.data_ptr() for each in tensors] == self._places

    def run(self) -> None:
        """Launch everything, on the current stream."""
        self._graph.replay()
