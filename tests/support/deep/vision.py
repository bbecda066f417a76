"""Avalanche beside a torch for the processor, where torchvision was built for CUDA."""

import importlib
import sys
import warnings

import torch


def ready():
    """Import Avalanche, whatever it and its fifty packages warn of; return what must live as long as it is used.

    A torchvision for CUDA lacks two operators here, which only detection uses; they are declared.
    """
    library = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            importlib.import_module("torchvision")
        except RuntimeError:
            for name in [name for name in sys.modules if name.startswith("torchvision")]:
                del sys.modules[name]
            library = torch.library.Library("torchvision", "FRAGMENT")
            for operator in ("nms", "qnms"):
                library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        importlib.import_module("avalanche.training.supervised")
    return library
