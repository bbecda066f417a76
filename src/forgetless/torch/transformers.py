"""``Continual`` as a callback of the Trainer of transformers: one task for every
``trainer.train``.
"""

from pathlib import Path
from typing import Any

import torch

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError(
        "forgetless.torch.transformers needs transformers, which is not installed here: python -m"
        " pip install transformers==5.22.2 accelerate==1.15.0"
    ) from error

from forgetless.torch.trainers import Follower

FILE = "continual.pt"
"""Beside the weights in the folder of every checkpoint."""


class ContinualCallback(Follower, TrainerCallback):  # type: ignore[misc]
    """Fine-tune a model on one task after another, each by a ``train`` of its own with this same
    callback.

    For ``Trainer`` and those built on it, such as trl's; adapters (LoRA of peft) are regularized
    alone, since only they are trained. Every checkpoint gets a file ``continual.pt``;
    ``train(resume_from_checkpoint=…)`` reads it.

    Parameters
    ----------
    importance : callable, optional
        ``importance(model, train_dataloader)`` at the end of a task, with ``start=True`` also
        before the first, such as ``lambda model, loader: flt.fisher(model, loader,
        labels="sampled", n_samples=64)``.
    **options
        Of :class:`forgetless.torch.Continual`: ``proximal``, ``step_size``, ``average``,
        ``n_tasks`` and others. ``start=True`` counts the pretrained model as the first task.

    Attributes
    ----------
    continual : Continual or None
        From the first task on; evaluate in ``with callback.continual.averaged_weights():``.

    Examples
    --------
    >>> from forgetless.torch.transformers import ContinualCallback
    >>> callback = ContinualCallback(proximal=0.1, average="merge", start=True)

    Then ``Trainer(model=model, train_dataset=task, callbacks=[callback], …).train()`` for every
    task.
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Follow the optimizer of this task; of one that is resumed, read the state beside its
        checkpoint.
        """
        file = Path(args.output_dir) / f"checkpoint-{state.global_step}" / FILE
        if state.global_step > 0 and file.exists():
            self.load_state_dict(torch.load(file, weights_only=True))
        elif state.global_step > 0 and self._saved is None:
            raise FileNotFoundError(
                f"training resumes at step {state.global_step} without {file}; give this callback"
                " the state of earlier tasks first: callback.load_state_dict(torch.load(…)) with"
                f" the {FILE} of the checkpoint"
            )
        self.begin_task(kwargs["model"], kwargs["optimizer"], kwargs.get("train_dataloader"))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Close the task."""
        self.end_task(kwargs["model"], kwargs.get("train_dataloader"))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the state beside the checkpoint."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        if args.should_save and folder.is_dir():
            torch.save(self.state_dict(), folder / FILE)
