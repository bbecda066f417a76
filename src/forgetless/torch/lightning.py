"""``Continual`` as a callback of Lightning: one task for every ``trainer.fit``."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from lightning.pytorch.callbacks import Callback

from forgetless.torch.continual import Continual


class ContinualCallback(Callback):  # type: ignore[misc]
    """Close a task at the end of every ``fit``, with its loader as the data of importances.

    ``continual = Continual(module, [...])``, and then ``Trainer(callbacks=[ContinualCallback(
    continual)], …).fit(module, loader)`` for every task. Validation, tests and predictions use the
    weights of ``Average`` or ``Merge``; the state is in Lightning's checkpoints, so that
    ``fit(ckpt_path=…)`` resumes.
    """

    def __init__(self, continual: Continual) -> None:
        self.continual = continual
        self._loaded: Mapping[str, Any] | None = None
        self._evaluation = ExitStack()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Resume, now that the weights of the checkpoint are there."""
        if self._loaded is not None:
            self.continual.load_state_dict(self._loaded)
            self._loaded = None

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Close the task."""
        self.continual.next_task(trainer.train_dataloader)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Show averaged weights; the checkpoint of an evaluation is not one to resume from."""
        if trainer.state.fn != "fit":
            self._loaded = None
        self._evaluation.enter_context(self.continual.evaluation())

    def on_validation_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Go back to the weights of training."""
        self._evaluation.close()

    on_test_start = on_predict_start = on_validation_start
    on_test_end = on_predict_end = on_exception = on_validation_end

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return self.continual.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Keep the state of a checkpoint until training starts."""
        self._loaded = state
