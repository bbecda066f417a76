"""An increasing pull in Avalanche: five experiences of one model, beside plain fine-tuning.

Needs Avalanche (``pip install avalanche-lib==0.6.0``), which is not part of this package's requirements.
"""

import torch
from avalanche.benchmarks import benchmark_from_datasets
from avalanche.benchmarks.utils import as_classification_dataset
from avalanche.training.supervised import Naive
from torch import nn
from torch.utils.data import TensorDataset

import forgetless as fl
import forgetless.torch as flt

K = 5


class Labelled(TensorDataset):
    """Tensors with the labels where Avalanche looks for them."""

    @property
    def targets(self):
        """The labels, as a list."""
        return self.tensors[1].tolist()


def experiences():
    """Return K data sets: the same classes, seen through another rotation each time."""
    g = torch.Generator().manual_seed(0)
    centers = 2 * torch.randn(4, 10, generator=g)
    made = []
    for _ in range(K):
        turn, _ = torch.linalg.qr(torch.eye(10) + 0.25 * torch.randn(10, 10, generator=g))
        y = torch.randint(4, (400,), generator=g)
        x = (centers[y] + torch.randn(400, 10, generator=g)) @ turn
        made.append((x, y))
    return made


def accuracy(plugins, data):
    """Train on one experience after another; return the mean accuracy on all of them after the last."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 4))
    sets = [as_classification_dataset(Labelled(x, y)) for x, y in data]
    stream = benchmark_from_datasets(train=sets).train_stream
    strategy = Naive(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        train_mb_size=50,
        train_epochs=5,
        plugins=plugins,
        evaluator=None,
    )
    for experience in stream:
        strategy.train(experience)
    with torch.no_grad():
        return torch.stack([(model(x).argmax(1) == y).float().mean() for x, y in data]).mean().item()


if __name__ == "__main__":
    data = experiences()
    print(f"fine-tuning: {accuracy([], data):.3f}")
    for scale in (0.01, 0.1, 1.0):
        plugin = flt.AvalanchePlugin(fl.schedules.increasing(scale=scale), n_experiences=K)
        print(f"increasing pull, scale {scale}: {accuracy([plugin], data):.3f}")
