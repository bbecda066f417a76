"""One batched grid of exact expectations on a CUDA device through torch, against NumPy on the same machine's processor.

Prints the times, the ratio and the largest relative difference of the results. Needs torch with CUDA.
"""

import time

import numpy as np

import forgetless as fl
from harness import machine, ratio, table


def collection(convert, d=200, M=40, r=4):
    rng = np.random.default_rng(0)
    w = rng.standard_normal(d)
    pairs = [(X := rng.standard_normal((r, d)), X @ w) for _ in range(M)]
    return fl.TaskCollection([(convert(X), convert(y)) for X, y in pairs])


def timed(call, synchronize, repeats=3):
    call()
    best = []
    for _ in range(repeats):
        synchronize()
        begin = time.perf_counter()
        result = call()
        synchronize()
        best.append(time.perf_counter() - begin)
    return sorted(best)[len(best) // 2], result


def main() -> None:
    import torch

    if not torch.cuda.is_available():
        print("no CUDA device on this machine: nothing measured")
        return
    device = torch.cuda.get_device_name(0)
    here, there = collection(np.asarray), collection(lambda x: torch.asarray(x, device="cuda"))
    rows = []
    for n_schedules, k in [(1, 50), (64, 50), (512, 50)]:
        schedules = [fl.schedules.increasing(scale) for scale in np.geomspace(0.01, 10, n_schedules)]
        cpu, expected = timed(lambda s=schedules, k=k: fl.expect(here, s, k).average_loss, lambda: None)
        gpu, found = timed(lambda s=schedules, k=k: fl.expect(there, s, k).average_loss, torch.cuda.synchronize)
        assert found.is_cuda
        error = float(np.max(np.abs(found.cpu().numpy() / expected - 1)))
        assert error < 1e-9, error
        flops = 4.0 * 160 * 160**2 * n_schedules * k / gpu * 1e-9
        rows.append([n_schedules, k, f"{cpu:.3f} s", f"{gpu:.3f} s", ratio(cpu / gpu), f"{flops:,.0f}", f"{error:.0e}"])
    header = ["schedules", "k", "NumPy", "torch CUDA", "faster", "GFLOP/s on the GPU", "largest relative difference"]
    title = f"A grid of schedules on a GPU: d=200, M=40, r=4, {device}"
    print(table(title, "python benchmarks/gpu.py", header, rows))
    print(machine())


if __name__ == "__main__":
    main()
