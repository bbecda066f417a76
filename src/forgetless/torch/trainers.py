"""The part that callbacks of trainers share: a ``Continual`` that follows a new optimizer at every
task.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from forgetless.torch.continual import Continual

Importance = Callable[[Any, Any], Mapping[str, Any]]


class Follower:
    """Create a ``Continual`` at the first task, follow the optimizer of every later one, and close
    tasks.

    Trainers create the optimizer inside ``fit`` or ``train``, so that options are stored until
    there is one. ``continual`` is None before the first task. With ``start=True`` the importance of
    the pretrained weights is that on the data of the first task.
    """

    def __init__(self, importance: Importance | None = None, **options: Any) -> None:
        super().__init__()
        self.importance, self.options = importance, options
        self.continual: Continual | None = None
        self._saved: Mapping[str, Any] | None = None

    def begin_task(self, model: Any, optimizer: Any, loader: Any) -> None:
        """Follow the optimizer of a task that begins, or of one that is resumed."""
        if self.continual is None:
            pretrained = self._saved is None and self.options.get("start") is True
            start = (
                {"start": self.importance(model, loader)} if pretrained and self.importance else {}
            )
            self.continual = Continual(model, optimizer, **self.options | start)
        else:
            self.continual.grow(model, optimizer)
        if self._saved is not None:
            self.continual.load_state_dict(self._saved)
            self._saved = None

    def end_task(self, model: Any, loader: Any) -> None:
        """Close a task."""
        assert self.continual is not None
        self.continual.next_task(
            None if self.importance is None else partial(self.importance, model, loader)
        )
        self.continual.remove()  # a trainer may hold the optimizer, and the next one be another

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the ``Continual`` for checkpoints; empty before the first task."""
        return dict(self._saved or {}) if self.continual is None else self.continual.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume at the next task, when model and optimizer are there."""
        self._saved = state or None
