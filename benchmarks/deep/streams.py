"""Streams of tasks: what a task is, and all tasks of all seeds as tensors."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from deep.data import Pool

UPPER, OTHER = (0, 2, 3, 4, 6), (1, 5, 7, 8, 9)
"""Fashion-MNIST's classes: worn on the upper body, or not."""


@dataclass(frozen=True)
class Spec:
    """One stream: its data, tasks, order, network, loss and optimizer."""

    data: str  # fashion, mnist, features, flights
    tasks: str  # permuted, rotated, domain, classes, angle, groups
    n_tasks: int
    k: int
    order: str = "once"  # once, random (with replacement)
    outputs: int = 10
    network: str = "mlp"  # mlp, conv
    loss: str = "ce"  # ce, mse
    optimizer: str = "sgd"  # sgd, adam
    lr: float = 0.05

    @property
    def regression(self) -> bool:
        """Whether targets are numbers, and the score R²."""
        return self.outputs == 1


STREAMS = {
    "permuted": Spec("fashion", "permuted", 50, 50),
    "permuted-repeat": Spec("fashion", "permuted", 20, 60, "random"),
    "rotated": Spec("fashion", "rotated", 30, 30),
    "split-domain": Spec("fashion", "domain", 25, 25, outputs=2),
    "split-class": Spec("fashion", "classes", 5, 25, "random"),
    "rotated-conv": Spec("fashion", "rotated", 30, 30, network="conv"),
    "rotated-adam": Spec("fashion", "rotated", 30, 30, optimizer="adam", lr=1e-3),
    "split-class-conv-adam": Spec("fashion", "classes", 5, 25, "random", network="conv", optimizer="adam", lr=1e-3),
    "angle": Spec("fashion", "angle", 10, 40, "random", outputs=1, loss="mse", lr=0.01),
    "mnist-rotated": Spec("mnist", "rotated", 30, 30),
    "mnist-split-mse": Spec("mnist", "classes", 5, 25, "random", loss="mse", lr=0.01),
    "carriers": Spec("flights", "groups", 14, 42, "random", outputs=1, loss="mse"),
    # The lengths that are usual in the literature.
    "rotated-10": Spec("fashion", "rotated", 10, 10),
    "permuted-10": Spec("mnist", "permuted", 10, 10),
    "split-class-once": Spec("mnist", "classes", 5, 5),
    # Features of a pretrained network.
    "features-once": Spec("features", "classes", 5, 5),
    "features-class": Spec("features", "classes", 5, 25, "random"),
}


@dataclass(frozen=True)
class Stream:
    """Tasks of all seeds: ``x[part]`` (S, M, n, d), ``y[part]`` (S, M, n), and the task of each step, (S, k)."""

    spec: Spec
    seeds: tuple[int, ...]
    x: dict[str, Any]
    y: dict[str, Any]
    order: Any

    @property
    def device(self) -> Any:
        """Where the tensors are."""
        return self.order.device


def make(spec: Spec, seeds: list[int], pool: Pool, n: int, n_eval: int, device: str) -> Stream:
    """Return the stream of these seeds, n training and n_eval validation and test rows a task.

    A seed gives the same tasks whatever other seeds there are.
    """
    rngs = [np.random.default_rng([seed, 7]) for seed in seeds]
    plans = [_plan(spec, pool, rng) for rng in rngs]
    orders = [
        rng.permutation(spec.n_tasks)[: spec.k] if spec.order == "once" else rng.integers(spec.n_tasks, size=spec.k)
        for rng in rngs
    ]
    x, y = {}, {}
    for part, size in (("train", n), ("val", n_eval), ("test", n_eval)):
        made = [_rows(pool.parts[part], plan, rng, size, device) for plan, rng in zip(plans, rngs, strict=True)]
        x[part], y[part] = (torch.stack(column) for column in zip(*made, strict=True))
    return Stream(spec, tuple(seeds), x, y, torch.from_numpy(np.stack(orders)).to(device))


def _plan(spec: Spec, pool: Pool, rng: np.random.Generator) -> list[dict[str, Any]]:
    M = range(spec.n_tasks)
    if spec.tasks == "permuted":
        return [{"permutation": rng.permutation(pool.n_features)} for _ in M]
    if spec.tasks == "rotated":
        return [{"degrees": 180.0 * m / spec.n_tasks} for m in M]
    if spec.tasks == "domain":
        return [{"classes": [UPPER[m % 5], OTHER[m // 5 % 5]], "binary": True} for m in M]
    if spec.tasks == "classes":
        return [{"classes": pair} for pair in rng.permutation(10).reshape(-1, 2)[: spec.n_tasks]]
    if spec.tasks == "angle":
        return [{"classes": [m], "within": 60.0} for m in M]
    return [{"group": m} for m in M]


def _rows(part: tuple[Any, ...], plan: list[dict[str, Any]], rng: np.random.Generator, size: int, device: str) -> Any:
    rows, labels = part[:2]
    xs, ys = [], []
    for task in plan:
        allowed = np.arange(len(labels))
        if "classes" in task:
            allowed = np.flatnonzero(np.isin(labels, task["classes"]))
        if "group" in task:
            allowed = np.flatnonzero(part[2] == task["group"])
        index = rng.choice(allowed, size, replace=len(allowed) < size)
        x, y = torch.from_numpy(rows[index]).to(device), labels[index]
        y = y if y.dtype.kind == "f" else y.astype(np.int64)
        if "permutation" in task:
            x = x[:, torch.from_numpy(task["permutation"]).to(device)]
        if "degrees" in task:
            x = _rotated(x, np.full(size, task["degrees"]))
        if "binary" in task:
            y = np.isin(y, UPPER).astype(np.int64)
        if "within" in task:  # the target is the angle, of unit variance
            degrees = rng.uniform(-task["within"], task["within"], size)
            x, y = _rotated(x, degrees), (degrees / task["within"] * math.sqrt(3)).astype(np.float32)
        xs.append(x)
        ys.append(torch.from_numpy(y).to(device))
    return torch.stack(xs), torch.stack(ys)


def _rotated(x: Any, degrees: Any) -> Any:
    angle = torch.from_numpy(np.deg2rad(degrees)).to(x.device, torch.float32)
    zero, side = torch.zeros_like(angle), math.isqrt(x.shape[1])
    turn = torch.stack([angle.cos(), -angle.sin(), zero, angle.sin(), angle.cos(), zero], 1).view(-1, 2, 3)
    images = x.view(-1, 1, side, side).float()
    grid = functional.affine_grid(turn, list(images.shape), align_corners=False)
    turned = functional.grid_sample(images, grid, align_corners=False)
    return turned.round().clamp(0, 255).byte().view(x.shape)
