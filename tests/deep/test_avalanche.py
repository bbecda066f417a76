"""The plugin of Avalanche trains as the plain loop does, bit for bit, and follows models that grow."""

import runpy
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import forgetless.torch as flt
from support.deep import vision

LIBRARY = vision.ready()

from avalanche.benchmarks import benchmark_from_datasets, with_classes_timeline  # noqa: E402
from avalanche.benchmarks.utils import as_classification_dataset  # noqa: E402
from avalanche.models import IncrementalClassifier  # noqa: E402
from avalanche.training.supervised import Naive  # noqa: E402

# What Avalanche and its dependencies warn of.
pytestmark = pytest.mark.filterwarnings("ignore")

LAMBDAS = [0.1, 0.3, 0.2, 0.4]
OPTIMIZERS = {
    "sgd": lambda net: torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
    "adam": lambda net: torch.optim.Adam(net.parameters(), lr=0.01),
}


class Labelled(TensorDataset):
    @property
    def targets(self):
        return self.tensors[1].tolist()


def tasks(classes=lambda t: range(3)):
    g = torch.Generator().manual_seed(0)
    made = []
    for t in range(4):
        x, w = torch.randn(60, 6, generator=g), torch.randn(6, len(classes(t)), generator=g)
        made.append((x, torch.tensor(list(classes(t)))[(x @ w).argmax(-1)]))
    return made


def fresh():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def avalanche(net, optimizer, data, plugin, epochs=5):
    sets = [as_classification_dataset(Labelled(x, y)) for x, y in data]
    strategy = Naive(
        model=net,
        optimizer=optimizer,
        criterion=nn.CrossEntropyLoss(),
        train_mb_size=20,
        train_epochs=epochs,
        plugins=[plugin],
        evaluator=None,
    )
    for experience in with_classes_timeline(benchmark_from_datasets(train=sets)).train_stream:
        strategy.train(experience, shuffle=False)
    return strategy


@pytest.mark.parametrize("importance", [None, "fisher", "mas", "si", "own"])
@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_bit_identical_to_a_plain_loop(make, importance):
    data, net = tasks(), fresh()
    given = (lambda strategy: flt.fisher(strategy.model, data[0][0])) if importance == "own" else importance
    plugin = flt.AvalanchePlugin(LAMBDAS, 4, importance=given, n_samples=None if importance == "own" else 30)
    avalanche(net, make(net), data, plugin)
    assert plugin.continual.task == 5

    plain = fresh()
    optimizer = make(plain)
    anchor = flt.Anchor(plain, optimizer, LAMBDAS, 4)
    for x, y in data:
        path = flt.PathIntegral(plain, optimizer) if importance == "si" else None
        for _ in range(5):
            for i in range(0, 60, 20):
                optimizer.zero_grad()
                functional.cross_entropy(plain(x[i : i + 20]), y[i : i + 20]).backward()
                optimizer.step()
        weights = None
        if importance in ("fisher", "mas"):
            of = flt.fisher if importance == "fisher" else flt.mas
            weights = of(plain, [(x[:20], y[:20]), (x[20:40], y[20:40])], n_samples=30)
        elif importance == "own":
            weights = flt.fisher(plain, data[0][0])
        elif path:
            path.remove()
            weights = path.importance()
        anchor.next_task(weights)
    for a, b in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("average", ["mean", ("moving", 7), ("merge", 0.5)])
def test_other_mechanisms_are_those_of_a_plain_loop(average):
    options = {"step_size": "inverse", "average": average}
    data, net = tasks(), fresh()
    plugin = flt.AvalanchePlugin(**options)
    avalanche(net, OPTIMIZERS["adam"](net), data, plugin, epochs=1)
    plain = fresh()
    optimizer = OPTIMIZERS["adam"](plain)
    continual = flt.Continual(plain, optimizer, **options)
    for x, y in data:
        for i in range(0, 60, 20):
            optimizer.zero_grad()
            functional.cross_entropy(plain(x[i : i + 20]), y[i : i + 20]).backward()
            optimizer.step()
        continual.next_task()
    with continual.averaged_weights(), plugin.continual.averaged_weights():
        for a, b in zip(net.parameters(), plain.parameters(), strict=True):
            assert torch.equal(a, b)


def test_a_pretrained_model_has_the_importance_of_the_first_data():
    net, data = fresh(), tasks()
    plugin = flt.AvalanchePlugin(0.5, importance="fisher", start=True)
    first = flt.fisher(net, data[0][0])
    avalanche(net, OPTIMIZERS["sgd"](net), data[:1], plugin)
    expected = {name: (first[name] + last) / 2 for name, last in flt.fisher(net, data[0][0]).items()}
    torch.testing.assert_close(plugin.continual.state_dict()["anchor"]["omega"], expected)
    with pytest.raises(ValueError, match="'si' has no path before the first experience"):
        flt.AvalanchePlugin(0.5, importance="si", start=True)


def test_a_path_is_used_once(monkeypatch):
    """An experience that could not be closed can be closed again, and never by other importances."""
    net, plugin, last = fresh(), flt.AvalanchePlugin(0.5, importance="si"), []
    monkeypatch.setattr(plugin, "end_task", lambda model, strategy: last.append(strategy))
    avalanche(net, OPTIMIZERS["sgd"](net), tasks()[:1], plugin)
    monkeypatch.undo()
    original = flt.PathIntegral.importance
    monkeypatch.setattr(flt.PathIntegral, "importance", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plugin.after_training_exp(last[0])
    monkeypatch.setattr(flt.PathIntegral, "importance", original)
    plugin.after_training_exp(last[0])
    assert plugin.continual.task == 2
    with pytest.raises(RuntimeError, match="was used up"):
        plugin._weights(last[0])


class Growing(nn.Module):
    """A head with a unit for every class met so far."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.body, self.head = nn.Linear(6, 8), IncrementalClassifier(8, initial_out_features=2, masking=False)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_models_that_grow_are_followed(make):
    data = tasks(lambda t: range(2 + 2 * t))
    net, before = Growing(), []

    class Watch(flt.AvalanchePlugin):
        def after_training_exp(self, strategy, **kwargs):
            before.append({name: p.detach().clone() for name, p in strategy.model.named_parameters()})
            super().after_training_exp(strategy, **kwargs)

    plugin = Watch(1e6, 4)
    strategy = avalanche(net, make(net), data, plugin, epochs=20)
    assert strategy.model.head.classifier.out_features == 8
    first, last = before[0], before[-1]
    for name, old in first.items():  # old entries are held, new ones are free
        new = last[name]
        held = new[tuple(slice(0, n) for n in old.shape)]
        assert torch.allclose(held, old, atol=1e-3), name
    assert not torch.allclose(last["head.classifier.weight"][6:], before[-2]["head.classifier.weight"][:2], atol=1e-3)


def test_past_the_horizon_and_wrong_words():
    net = fresh()
    with pytest.raises(ValueError, match="task 3 is beyond the horizon of 2 tasks"):
        avalanche(net, OPTIMIZERS["sgd"](net), tasks(), flt.AvalanchePlugin(1.0, 2))
    with pytest.raises(ValueError, match="importance must be one of"):
        flt.AvalanchePlugin(1.0, 2, importance="ewc")


def test_the_example_runs(capsys):
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "avalanche_stream.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    plain, *pulled = [float(line.split()[-1]) for line in lines if line.split()[-1][:2] in ("0.", "1.")]
    assert len(pulled) == 3
    assert max(pulled) > plain
