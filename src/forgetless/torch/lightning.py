"""``Continual`` as a callback of Lightning: one task for every ``trainer.fit``."""

from contextlib import ExitStack
from typing import Any

try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    try:
        from pytorch_lightning.callbacks import Callback
    except ImportError as error:
        raise ImportError(
            "forgetless.torch.lightning needs Lightning, which is not installed here: python -m pip"
            " install lightning==2.6.6"
        ) from error

from forgetless.torch.trainers import Follower


class ContinualCallback(Follower, Callback):  # type: ignore[misc]
    """Train a module on one task after another, each by a ``fit`` of its own with this same
    callback.

    Lightning creates a new optimizer for every ``fit``, which the callback follows. Its state is in
    Lightning's checkpoints, so that ``fit(ckpt_path=…)`` resumes. Validation and tests use averaged
    weights.

    Parameters
    ----------
    importance : callable, optional
        ``importance(module, train_dataloader)`` at the end of a task, with ``start=True`` also
        before the first, such as ``lambda module, loader: flt.fisher(module, loader,
        n_samples=500)``.
    **options
        Of :class:`forgetless.torch.Continual`: ``proximal``, ``step_size``, ``average``,
        ``n_tasks`` and others.

    Attributes
    ----------
    continual : Continual or None
        From the first task on.

    Examples
    --------
    >>> from forgetless.torch.lightning import ContinualCallback
    >>> callback = ContinualCallback(proximal=0.1, average="moving")

    Then ``Trainer(callbacks=[callback], …).fit(module, loader)`` for every task.
    """

    _evaluation = ExitStack()  # empty: replaced where an evaluation begins

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Follow the optimizer of this task."""
        if len(trainer.optimizers) != 1:
            raise ValueError(
                "ContinualCallback needs a module with one optimizer, got"
                f" {len(trainer.optimizers)}"
            )
        self.begin_task(pl_module, trainer.optimizers[0], trainer.train_dataloader)

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Close the task."""
        self.end_task(pl_module, trainer.train_dataloader)

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Switch to averaged weights; the checkpoint of an evaluation is not one to resume from."""
        if trainer.state.fn != "fit":
            self._saved = None
        if self.continual is not None:
            self._evaluation = ExitStack()
            self._evaluation.enter_context(self.continual.averaged_weights())

    def on_validation_end(self, trainer: Any, pl_module: Any, *_: Any) -> None:
        """Switch back to the weights of training."""
        self._evaluation.close()

    on_test_start, on_test_end = on_validation_start, on_validation_end
    on_predict_start, on_predict_end = on_validation_start, on_validation_end
    on_exception = on_validation_end  # of an evaluation, perhaps
