"""``Continual`` as a callback of the Trainer of transformers, and of those built on it (trl)."""

from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback

from forgetless.torch.continual import Continual


class ContinualCallback(TrainerCallback):  # type: ignore[misc]
    """Close a task at the end of every ``train``, with its loader as the data of importances.

    ``continual = Continual(model, [...], pretrained=data)``, and then ``Trainer(model=model,
    callbacks=[ContinualCallback(continual)], …).train()`` for every task. Adapters of peft are
    regularized alone, since only they are trained. Every checkpoint gets a file ``continual.pt``,
    from which ``train(resume_from_checkpoint=…)`` resumes. Evaluate in ``with
    continual.evaluation():``.
    """

    def __init__(self, continual: Continual) -> None:
        self.continual = continual

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Resume a task that was stopped."""
        if state.global_step == 0:
            return
        file = _file(args, state)
        if not file.exists():
            raise FileNotFoundError(
                f"training resumes at step {state.global_step} without {file}, the state of earlier"
                " tasks; copy continual.pt of the checkpoint there"
            )
        self.continual.load_state_dict(torch.load(file, weights_only=True))

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Close the task."""
        self.continual.next_task(kwargs.get("train_dataloader"))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Write the state into the folder of the checkpoint."""
        file = _file(args, state)
        if args.should_save and file.parent.is_dir():
            torch.save(self.continual.state_dict(), file)


def _file(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}" / "continual.pt"
