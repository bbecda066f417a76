"""A sweep's batches on a CUDA device against NumPy on the same machine's processor, for several sizes of tasks.

Prints the time of one batch of 32 schedules, the ratio and the largest relative difference. Needs torch with CUDA.
"""

import functools
import tempfile
import time

import numpy as np

import forgetless as fl
from harness import ratio, table

SIZES = [(10, 10, 2), (50, 20, 2), (200, 40, 4), (500, 60, 4), (1000, 60, 4)]
"""Features, tasks, rows of a task."""


def gauss(seed, d, M, rank, device):
    """Random tasks, as tensors on a device or as NumPy arrays."""
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(d)
    pairs = [(X := rng.standard_normal((rank, d)) / np.sqrt(d), X @ w) for _ in range(M)]
    if device is None:
        return pairs
    import torch

    return [(torch.as_tensor(X, device=device), torch.as_tensor(y, device=device)) for X, y in pairs]


def swept(size, device, folder, k=128):
    """Return the seconds of one of 3 batches of 32 schedules in this process, after another, and the losses."""
    d, M, rank = size
    tasks = functools.partial(gauss, d=d, M=M, rank=rank, device=device)
    scales = np.geomspace(0.01, 10, 32)
    sweep = fl.sweeps.Sweep({"gauss": tasks}, "increasing", k, scales=scales, seeds=range(4))
    first = fl.sweeps.Sweep({"gauss": tasks}, "increasing", k, scales=scales, seeds=[0])
    path = f"{folder}/{d}-{device}.db"
    first.run(path, n_workers=0)
    began = time.perf_counter()
    made = sweep.run(path, n_workers=0)
    return (time.perf_counter() - began) / 3, np.array(made.columns["average_loss"])


def main():
    import torch

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            (host, want), (card, found) = swept(size, None, folder), swept(size, "cuda", folder)
            gap = float(np.max(np.abs(found - want) / want))
            cells = [f"{1e3 * each:.1f} ms" for each in (host, card)]
            rows.append([f"d = {size[0]}, M = {size[1]}, r = {size[2]}", *cells, ratio(host / card), f"{gap:.0e}"])
    head = ["tasks", "NumPy, a batch", "CUDA, a batch", "faster", "difference"]
    title = f"Batches of 32 schedules, k = 128, {torch.cuda.get_device_name()}"
    print(table(title, "python benchmarks/sweeps_gpu.py", head, rows))


if __name__ == "__main__":
    main()
