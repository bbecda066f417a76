"""Increasing regularization in Avalanche: five experiences of one model, compared with plain
fine-tuning.

Needs Avalanche (``pip install avalanche-lib==0.6.0``), which is not part of this package's
requirements.
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
    """Tensors with the labels in ``targets``, as Avalanche requires."""

    @property
    def targets(self):
        """The labels, as a list."""
        return self.tensors[1].tolist()


def experiences():
    """Return K data sets with the same classes, each with another rotation of the features."""
    g = torch.Generator().manual_seed(0)
    centers = 2 * torch.randn(4, 10, generator=g)
    datasets = []
    for _ in range(K):
        rotation, _ = torch.linalg.qr(torch.eye(10) + 0.25 * torch.randn(10, 10, generator=g))
        y = torch.randint(4, (400,), generator=g)
        x = (centers[y] + torch.randn(400, 10, generator=g)) @ rotation
        datasets.append((x, y))
    return datasets


def accuracy(plugins, data):
    """Return the mean accuracy on all experiences after training on one after another."""
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
        return (
            torch.stack([(model(x).argmax(1) == y).float().mean() for x, y in data]).mean().item()
        )


if __name__ == "__main__":
    data = experiences()
    print(f"fine-tuning: {accuracy([], data):.3f}")
    for scale in (0.01, 0.1, 1.0):
        plugin = flt.AvalanchePlugin(fl.schedules.increasing(scale=scale), n_experiences=K)
        print(f"increasing regularization, scale {scale}: {accuracy([plugin], data):.3f}")
