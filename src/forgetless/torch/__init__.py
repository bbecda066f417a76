"""Mechanisms against forgetting for networks that are trained on one task after another.

``import forgetless`` does not import this package; it needs torch. docs/deep.md begins with an
example. Callbacks of trainers are in ``forgetless.torch.trainers``.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError(
        "forgetless.torch needs PyTorch, which is not installed here; install the version it is"
        " tested with: python -m pip install torch==2.13.0"
    ) from error

from forgetless.torch.continual import Continual
from forgetless.torch.importance import fisher, mas
from forgetless.torch.mechanism import Mechanism
from forgetless.torch.paths import Average, Merge, StepSize, si
from forgetless.torch.proximal import Proximal
from forgetless.torch.recipes import Search, cosine, increasing, inverse, search

__all__ = [
    "Average",
    "Continual",
    "Mechanism",
    "Merge",
    "Proximal",
    "Search",
    "StepSize",
    "cosine",
    "fisher",
    "increasing",
    "inverse",
    "mas",
    "search",
    "si",
]
