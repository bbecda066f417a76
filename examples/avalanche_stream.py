"""``Continual`` as a plugin of Avalanche: five experiences of one model, beside plain fine-tuning.

Needs Avalanche (``pip install avalanche-lib==0.6.0``), which is not part of this package's
requirements. The plugin follows models that grow and optimizers that are replaced.
"""

from functools import partial

import torch
from avalanche.benchmarks import benchmark_from_datasets
from avalanche.benchmarks.utils import as_classification_dataset
from avalanche.training.plugins import SupervisedPlugin
from avalanche.training.supervised import Naive
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import forgetless.torch as flt

K = 5


class ContinualPlugin(SupervisedPlugin):
    """Close a task after every experience, with its data for the importances."""

    def __init__(self, continual):
        super().__init__()
        self.continual = continual

    def after_training_exp(self, strategy, **kwargs):
        """Close the task."""
        data = strategy.adapted_dataset
        collate = getattr(data, "collate_fn", None)
        self.continual.next_task(DataLoader(data, strategy.train_mb_size, collate_fn=collate))


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


def accuracy(data, mechanisms):
    """Return the mean accuracy on all experiences after training on one after another."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 4))
    continual = flt.Continual(model, mechanisms)
    sets = [as_classification_dataset(Labelled(x, y)) for x, y in data]
    strategy = Naive(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        train_mb_size=50,
        train_epochs=5,
        plugins=[ContinualPlugin(continual)],
        evaluator=None,
    )
    for experience in benchmark_from_datasets(train=sets).train_stream:
        strategy.train(experience)
    with continual.evaluation(), torch.no_grad():
        return sum((model(x).argmax(1) == y).float().mean().item() for x, y in data) / K


if __name__ == "__main__":
    print(flt.search(partial(accuracy, experiences())))
