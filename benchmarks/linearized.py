"""When does the linearized network predict the network? Widths and schedules.

    python benchmarks/linearized.py [FOLDER WITH FASHION-MNIST]

Tasks: an upper-body class against another one, ±1, 40 images of 14 × 14 pixels each, 8 tasks, 24 steps in a random
order. A network of one hidden layer, in the parametrisation in which wide ones become linear, learns each task by 60
full-batch gradient steps; its linearization at the start learns the same sequence by the filter of those steps.
"""

import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import forgetless as fl
from deep.data import load
from deep.streams import OTHER, UPPER
from harness import table

M, K, ROWS, STEPS = 8, 24, 40, 60


class Wide(nn.Module):
    """gelu(x Wᵀ/√d + b/10) a/√h with standard normal W and a."""

    def __init__(self, width: int, inputs: int = 196) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.W = nn.Parameter(torch.randn(width, inputs, generator=g).double())
        self.b = nn.Parameter(torch.zeros(width).double())
        self.a = nn.Parameter(torch.randn(width, generator=g).double())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return one number a row."""
        width, inputs = self.W.shape
        return functional.gelu(x @ self.W.T / math.sqrt(inputs) + 0.1 * self.b) @ self.a / math.sqrt(width)


def jacobian(net: Wide, x: torch.Tensor) -> np.ndarray:
    """Return J, the derivatives of the outputs by all parameters."""
    params = {name: p.detach() for name, p in net.named_parameters()}
    parts = torch.func.jacrev(lambda params: torch.func.functional_call(net, params, (x,)))(params)
    return torch.cat([part.flatten(1) for part in parts.values()], 1).numpy()


def outputs_of(net: Wide, x: torch.Tensor) -> np.ndarray:
    return net(x).detach().numpy()


def departure(start: Wide, net: Wide, x: torch.Tensor) -> float:
    """Return ‖f − f₀ − Ju‖/‖f − f₀‖, u the change of the weights: 0 where the outputs changed as predicted."""
    vectors = [nn.utils.parameters_to_vector(each.parameters()).detach().numpy() for each in (start, net)]
    change = outputs_of(net, x) - outputs_of(start, x)
    return float(np.linalg.norm(change - jacobian(start, x) @ (vectors[1] - vectors[0])) / np.linalg.norm(change))


def pairs(folder: Path | None, rows: int, n_tasks: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    images, labels = load("fashion", folder).parts["train"]
    X = images.reshape(-1, 14, 2, 14, 2).mean((2, 4)).reshape(-1, 196) / 255.0
    X = X - X.mean(0)
    X = X / np.linalg.norm(X, axis=1, keepdims=True) * math.sqrt(196)
    rng, made = np.random.default_rng(0), []
    for m in rng.permutation(25)[:n_tasks]:
        pair = [UPPER[m % 5], OTHER[m // 5]]
        index = rng.choice(np.flatnonzero(np.isin(labels, pair)), rows, replace=False)
        made.append((torch.from_numpy(X[index]), torch.from_numpy(np.where(np.isin(labels[index], UPPER), 1.0, -1.0))))
    return made


def trained(width: int, tasks: list, order: np.ndarray, sizes: np.ndarray) -> tuple[Wide, Wide]:
    """Return the network after the first task and after all, by literal gradient steps of ½‖f − y‖²."""
    net = Wide(width)
    first = net
    for t, m in enumerate(order):
        x, y = tasks[m]
        for _ in range(STEPS):
            gradients = torch.autograd.grad(0.5 * (net(x) - y).square().sum(), list(net.parameters()))
            with torch.no_grad():
                for p, g in zip(net.parameters(), gradients, strict=True):
                    p -= sizes[t] * g
        if t == 0:
            first = Wide(width)
            first.load_state_dict(net.state_dict())
    return first, net


def compare(tasks: list, widths: tuple[int, ...]) -> str:
    order, rows = np.random.default_rng(1).integers(M, size=K), []
    for width in widths:
        begin = Wide(width)
        J = [jacobian(begin, x) for x, _ in tasks]
        start = [outputs_of(begin, x) for x, _ in tasks]
        collection = fl.TaskCollection([(j, y.numpy() - f) for j, (_, y), f in zip(J, tasks, start, strict=True)])
        square = collection.radius**2
        decay = np.arange(K + 1, 1, -1) / (K + 1)
        choices = {
            "60 steps of 0.9/R²": np.full(K, 0.9 / square),
            "60 steps of 0.1/R²": np.full(K, 0.1 / square),
            "decreasing from 0.1/R²": 0.1 * decay / square,
            "decreasing from 1/260R²": decay / (13 / 3) / STEPS / square,
        }
        for label, sizes in choices.items():
            filter = fl.GradientDescent(np.full(K, STEPS), sizes)
            trace = fl.simulate(collection, filter, K, ordering=fl.FixedOrder(order), record="all", metrics="weights")
            u = trace.weights[0, -1]
            first, net = trained(width, tasks, order, sizes)
            outputs = [net(x).detach().numpy() for x, _ in tasks]
            predicted = [f + j @ u for f, j in zip(start, J, strict=True)]
            targets = [y.numpy() for _, y in tasks]
            real, linearized = (
                float(np.mean([0.5 * np.mean((o - y) ** 2) for o, y in zip(found, targets, strict=True)]))
                for found in (outputs, predicted)
            )
            apart = np.linalg.norm(np.concatenate(outputs) - np.concatenate(predicted))
            way = np.linalg.norm(np.concatenate(predicted) - np.concatenate(start))
            rows.append(
                [width, label, f"{real:.4f}", f"{linearized:.4f}", f"{100 * abs(linearized / real - 1):.1f} %",
                 f"{100 * apart / way:.0f} %", f"{100 * departure(begin, first, tasks[order[0]][0]):.0f} %"]
            )  # fmt: skip
    header = ["width", "schedule", "network", "linearized", "losses differ", "outputs differ", "departure, task 1"]
    title = "½ mean squared error over all tasks after the last step"
    return table(title, "python benchmarks/linearized.py", header, rows)


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    print(compare(pairs(folder, ROWS, M), (8, 32, 128, 512, 2048)))
