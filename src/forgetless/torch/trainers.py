"""``Continual`` as a callback of trainers: of Lightning, and of transformers and trl.

One ``fit`` or ``train`` is one task. Lightning evaluates averaged weights by itself; with a Trainer
of transformers evaluate inside ``with continual.evaluation():``. ``LightningCallback`` and
``TransformersCallback`` are made from the hooks below and the base class of the library when they
are first imported: nobody needs both libraries, and importing this module needs neither.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from forgetless.torch.continual import Continual


class _Lightning:
    """Close a task at the end of every ``fit``: importances are computed on rows of its loader.

    ``continual = Continual(module, [...])``, and then ``Trainer(callbacks=[LightningCallback(
    continual)], …).fit(module, loader)`` for every task. Validation, tests and predictions use the
    averaged weights if ``Average`` or ``Merge`` is among the mechanisms. The state is in
    Lightning's checkpoints: ``fit(ckpt_path=…)`` resumes, ``test(ckpt_path=…)`` uses the averages
    of the checkpoint.
    """

    def __init__(self, continual: Continual) -> None:
        self.continual = continual
        # The state of a checkpoint waits here: Lightning gives it before it loads the weights.
        self._loaded: Any = None
        self._evaluation = ExitStack()

    def on_train_start(self, *_: Any) -> None:
        """Resume, now that the weights of the checkpoint are there."""
        if self._loaded is not None:
            self.continual.load_state_dict(self._loaded)
            self._loaded = None

    def on_train_end(self, trainer: Any, *_: Any) -> None:
        """Close the task."""
        self.continual.next_task(trainer.train_dataloader)

    def on_validation_start(self, trainer: Any, *_: Any) -> None:
        """Show averaged weights, of a checkpoint those that it has."""
        if self._loaded is not None:
            # The weights of a checkpoint belong to its averages; the own ones come back afterwards.
            # Tensors that are made in the inference mode of an evaluation could not learn later.
            learning = torch.inference_mode(False)
            load = learning(self.continual.load_state_dict)
            self._evaluation.callback(load, learning(self.continual.state_dict)())
            load(self._loaded)
        if trainer.state.fn != "fit":
            # The checkpoint of an evaluation is not one to resume from.
            self._loaded = None
        self._evaluation.enter_context(self.continual.evaluation())

    def on_validation_end(self, *_: Any) -> None:
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


class _Transformers:
    """Close a task at the end of every ``train``: importances are computed on rows of its loader.

    ``continual = Continual(model, [...], pretrained=data)``, where the data stand for what the
    model has learned before, and then ``Trainer(model=model,
    callbacks=[TransformersCallback(continual)], …).train()`` for every task; of trl likewise.
    Adapters of peft are regularized alone, since only they are trained. Every checkpoint gets a
    file ``continual.pt``, from which ``train(resume_from_checkpoint=…)`` resumes. Evaluate in
    ``with continual.evaluation():``.
    """

    def __init__(self, continual: Continual) -> None:
        self.continual = continual

    def on_train_begin(self, args: Any, state: Any, *_: Any, **kwargs: Any) -> None:
        """Resume a task that was stopped."""
        if state.global_step == 0:
            return
        file = _file(args, state)
        if not file.exists():
            raise FileNotFoundError(
                f"training resumes at step {state.global_step} without {file}, the state of earlier"
                " tasks; copy continual.pt of the checkpoint there"
            )
        # Tensors and numbers only: a file from elsewhere runs no code.
        self.continual.load_state_dict(torch.load(file, weights_only=True))

    def on_train_end(self, *_: Any, **kwargs: Any) -> None:
        """Close the task."""
        self.continual.next_task(kwargs.get("train_dataloader"))

    def on_save(self, args: Any, state: Any, *_: Any, **kwargs: Any) -> None:
        """Write the state into the folder of the checkpoint."""
        file = _file(args, state)
        # Of several processes one writes.
        if args.should_save and file.parent.is_dir():
            torch.save(self.continual.state_dict(), file)


def _file(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}" / "continual.pt"


def __getattr__(name: str) -> Any:
    """Return a callback, made on the base class of its library."""
    bases: Any
    if name == "LightningCallback":
        from lightning.pytorch.callbacks import Callback

        bases = (_Lightning, Callback)
    elif name == "TransformersCallback":
        from transformers import TrainerCallback

        bases = (_Transformers, TrainerCallback)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # One class for all who ask, under the name that pickle looks for.
    globals()[name] = made = type(name, bases, {"__module__": __name__})
    return made
