"""Mechanisms against forgetting on three streams of digits, beside doing nothing. Needs torch.

    python benchmarks/digits.py [--seeds N] [--tasks K] [--picture docs/deep.svg]

scikit-learn's 1797 digits of 8 × 8 pixels in K tasks. Permuted: the pixels of each task in another order. Rotated: by
another angle. Split: pairs of classes, one head of ten. A perceptron 64-64-10, four epochs a task, a new Adam with rate
0.002 for every task, 7 tenths of the rows. The mean accuracy on the other 3 tenths of all tasks after the last one;
nothing is tuned, so that a row is what its recipe gives at first try.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from scipy.ndimage import rotate
from sklearn.datasets import load_digits
from torch.nn import functional

import forgetless.torch as flt
from harness import table

STREAMS = ("permuted", "rotated", "split")
EPOCHS, BATCH, RATE = 4, 64, 2e-3
RECIPES = {  # functions of the number of tasks and of the steps of one
    "nothing": lambda *_: [],
    "Proximal(1/64, fisher)": lambda *_: [flt.Proximal(1 / 64, flt.fisher)],
    "Proximal(1/8, fisher)": lambda *_: [flt.Proximal(1 / 8, flt.fisher)],
    "Proximal(1, fisher)": lambda *_: [flt.Proximal(1.0, flt.fisher)],
    "Proximal(8, fisher)": lambda *_: [flt.Proximal(8.0, flt.fisher)],
    "Proximal(increasing(1/8, k), fisher)": lambda k, _: [flt.Proximal(flt.increasing(1 / 8, k), flt.fisher)],
    "Proximal(1/8, si)": lambda *_: [flt.Proximal(1 / 8, flt.si)],
    "Proximal(1/8, mas)": lambda *_: [flt.Proximal(1 / 8, flt.mas)],
    "Proximal(1/8)": lambda *_: [flt.Proximal(1 / 8)],
    "Average(steps of one task)": lambda _, steps: [flt.Average(steps)],
    "Average(all steps)": lambda *_: [flt.Average(1e9)],
    "Proximal(1/8, fisher), Average(steps/4)": lambda _, n: [flt.Proximal(1 / 8, flt.fisher), flt.Average(n / 4)],
    "Merge(1)": lambda *_: [flt.Merge(1.0)],
    "Merge(2)": lambda *_: [flt.Merge(2.0)],
    "Merge(4)": lambda *_: [flt.Merge(4.0)],
    "StepSize(cosine(k))": lambda k, _: [flt.StepSize(flt.cosine(k))],
    "StepSize(inverse(1))": lambda *_: [flt.StepSize(flt.inverse(1.0))],
}


DRAWN = (
    "nothing",
    "Average(steps of one task)",
    "Proximal(1/8, fisher)",
    "Proximal(1/8, fisher), Average(steps/4)",
)


def tasks_of(stream, seed, k):
    """Return k tasks, each a pair of training and test rows with labels."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    rows, angles = rng.permutation(len(X)), rng.permutation(k) * 180 / k
    X, y = X[rows] / 16, y[rows]
    tasks = []
    for t in range(k):
        x, labels = X, y
        if stream == "permuted":
            x = X[:, rng.permutation(64)]
        elif stream == "rotated":
            x = rotate(X.reshape(-1, 8, 8), angles[t], (1, 2), reshape=False, order=1).reshape(-1, 64)
        else:
            x, labels = X[y * k // 10 == t], y[y * k // 10 == t]
        x, labels = torch.tensor(x, dtype=torch.float32), torch.tensor(labels)
        cut = 7 * len(x) // 10
        tasks.append(((x[:cut], labels[:cut]), (x[cut:], labels[cut:])))
    return tasks


def accuracies(stream, seed, make, k):
    """Return the accuracy on the test rows of each task after every task, (k, k)."""
    tasks = tasks_of(stream, seed, k)
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    steps = EPOCHS * -(-len(tasks[0][0][0]) // BATCH)
    continual = flt.Continual(net, make(k, steps))
    found = []
    for (x, y), _ in tasks:
        optimizer = torch.optim.Adam(net.parameters(), lr=RATE)
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(x)).split(BATCH):
                optimizer.zero_grad()
                functional.cross_entropy(net(x[batch]), y[batch]).backward()
                optimizer.step()
        continual.next_task((x[:300], y[:300]))
        with continual.evaluation(), torch.no_grad():
            found.append([(net(x).argmax(1) == y).double().mean().item() for _, (x, y) in tasks])
    return 100 * np.array(found)


def draw(curves, path):
    """Write the picture: the mean accuracy over the tasks so far, by stream and recipe."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    import forgetless as fl

    style = {"svg.hashsalt": "forgetless", "svg.fonttype": "none", "savefig.facecolor": "white", "lines.linewidth": 1.8}
    style |= {f"{part}.labelsize": 11 for part in ("axes", "xtick", "ytick")}
    style |= {"legend.fontsize": 10, "axes.titlesize": 11}
    with fl.plots.publication(), mpl.rc_context(style):
        figure, axes = plt.subplots(1, 3, figsize=(6.2, 3.6), sharey=True, layout="none")
        for ax, stream in zip(axes, STREAMS, strict=True):
            for i, recipe in enumerate(DRAWN):
                means = [np.mean(curves[recipe, stream][:, t, : t + 1]) for t in range(curves[recipe, stream].shape[1])]
                t = np.arange(1, len(means) + 1)
                ax.plot(t, means, color=fl.plots.COLOURS[i], linestyle=fl.plots.STYLES[i], label=recipe)
            ax.set(title=stream, xticks=t, ylim=(0, 100))
        axes[0].set_ylabel("accuracy on tasks so far, %")
        axes[1].set_xlabel("tasks learned")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="lower center", ncols=2, frameon=False)
        figure.subplots_adjust(left=0.11, right=0.99, top=0.92, bottom=0.32, wspace=0.08)
        figure.savefig(path, format="svg", metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--tasks", type=int, default=5)
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    curves, rows = {}, []
    for name, make in RECIPES.items():
        for stream in STREAMS:
            found = [accuracies(stream, seed, make, options.tasks) for seed in range(options.seeds)]
            curves[name, stream] = np.array(found)  # (seeds, after task, of task)
        ends = np.array([curves[name, stream][:, -1].mean(1) for stream in STREAMS])
        nothing = np.array([curves["nothing", stream][:, -1].mean(1) for stream in STREAMS])
        gains, errors = (ends - nothing).mean(1), (ends - nothing).std(1, ddof=1) / options.seeds**0.5
        cells = [f"{end:.1f} ({gain:+.1f} ± {e:.1f})" for end, gain, e in zip(ends.mean(1), gains, errors, strict=True)]
        rows.append([name, *(cells if name != "nothing" else (f"{end:.1f}" for end in ends.mean(1)))])
    command = f"python benchmarks/digits.py --seeds {options.seeds} --tasks {options.tasks}"
    print(table("Digits: accuracy in percent, gain over nothing ± standard error", command, ["recipe", *STREAMS], rows))
    if options.picture:
        draw(curves, options.picture)


if __name__ == "__main__":
    main()
