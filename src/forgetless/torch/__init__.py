"""Schedules for deep networks: proximal regularization towards earlier weights, importances, step
budgets.

``import forgetless`` does not import this package; it needs torch.
"""

from importlib import import_module
from typing import Any

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "forgetless.torch needs PyTorch, which is not installed here; install the version it is"
        " tested with: python -m pip install torch==2.13.0"
    ) from error

from forgetless.torch.advice import DEFAULT_SCALE, MechanismAdvice, advise
from forgetless.torch.anchor import Anchor
from forgetless.torch.continual import Continual
from forgetless.torch.importance import Relative, fisher, mas, mean_over_processes
from forgetless.torch.linear import Linearized, linearize
from forgetless.torch.models import FrozenStatistics, freeze_statistics
from forgetless.torch.path_integral import PathIntegral
from forgetless.torch.schedules import step_budgets

__all__ = [
    "DEFAULT_SCALE",
    "Anchor",
    "Continual",
    "FrozenStatistics",
    "Linearized",
    "MechanismAdvice",
    "PathIntegral",
    "Relative",
    "advise",
    "fisher",
    "freeze_statistics",
    "linearize",
    "mas",
    "mean_over_processes",
    "step_budgets",
]


def __getattr__(name: str) -> Any:
    """Import callbacks and plugins of trainers on first access: these bring many packages."""
    if name == "AvalanchePlugin":
        from forgetless.torch.avalanche import AvalanchePlugin

        return AvalanchePlugin
    if name in ("lightning", "transformers"):
        return import_module(f"forgetless.torch.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
