"""Accuracy on permuted digits with Adam: no anchor beside anchors of several scales. Needs torch.

    python benchmarks/permuted_digits.py [--seeds N] [--tasks K] [--epochs N] [--hidden N] [--lr γ]

scikit-learn's 8 × 8 digits in K random orders of the pixels, each order a task that is learned once; the mean accuracy
on held-out rows of all tasks after the last. One knob, the scale of ``schedules.increasing``, is shown at several
values; nothing is tuned.
"""

import argparse

import numpy as np
import torch
from sklearn.datasets import load_digits

import forgetless as fl
import forgetless.torch as flt
from harness import table

N_TRAIN = 1297
SCALES = (1 / 64, 1 / 16, 1 / 4, 1.0)


def permuted(seed, n_tasks):
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(X))
    X, y = torch.tensor(X[rows] / 16.0, dtype=torch.float32), torch.tensor(y[rows])
    orders = [rng.permutation(X.shape[1]) for _ in range(n_tasks)]
    return [((X[:N_TRAIN, p], y[:N_TRAIN]), (X[N_TRAIN:, p], y[N_TRAIN:])) for p in orders]


def accuracy(seed, options, importance, schedule, n_tasks):
    torch.manual_seed(seed)
    tasks = permuted(seed, options.tasks)
    net = torch.nn.Sequential(torch.nn.Linear(64, options.hidden), torch.nn.ReLU(), torch.nn.Linear(options.hidden, 10))
    optimizer = torch.optim.Adam(net.parameters(), lr=options.lr)
    anchor, relative = flt.Anchor(net, optimizer, schedule, n_tasks), flt.Relative()
    for (x, y), _ in tasks:
        for _ in range(options.epochs):
            for batch in torch.randperm(len(x)).split(64):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(net(x[batch]), y[batch]).backward()
                optimizer.step()
        anchor.next_task(relative(flt.fisher(net, [(x[:500], y[:500])])) if importance else None)
    with torch.no_grad():
        return 100 * np.mean([(net(x).argmax(1) == y).float().mean().item() for _, (x, y) in tasks])


def main():
    parser = argparse.ArgumentParser()
    for name, kind, default in (("seeds", int, 5), ("tasks", int, 10), ("epochs", int, 10), ("hidden", int, 64)):
        parser.add_argument(f"--{name}", type=kind, default=default)
    parser.add_argument("--lr", type=float, default=1e-3)
    options = parser.parse_args()
    contestants = {"no anchor": (False, 0.0, None)}
    for importance, name in ((False, "L2"), (True, "Fisher, relative")):
        for scale in SCALES:
            contestants[f"{name}, scale {scale:.3g}"] = (
                importance,
                fl.schedules.increasing(scale=scale),
                options.tasks,
            )
    unknown = (True, fl.schedules.increasing(scale=flt.DEFAULT_SCALE), None)
    contestants[f"Fisher, relative, scale {flt.DEFAULT_SCALE:.3g}, n_tasks=None"] = unknown
    scores = {
        name: np.array([accuracy(seed, options, *contestant) for seed in range(options.seeds)])
        for name, contestant in contestants.items()
    }
    rows = []
    for name, values in scores.items():
        gain = values - scores["no anchor"]
        error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
        rows.append([name, f"{values.mean():.1f}", f"{gain.mean():+.1f} ± {error:.1f}"])
    command = f"python benchmarks/permuted_digits.py --tasks {options.tasks} --epochs {options.epochs}"
    command += f" --hidden {options.hidden} --lr {options.lr:g}"
    print(table("Permuted digits, Adam", command, ["anchor", "accuracy, %", "gain ± standard error"], rows))


if __name__ == "__main__":
    main()
