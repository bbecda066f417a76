"""The plugin of the example trains in Avalanche as a plain loop does, bit for bit."""

import runpy
from functools import partial
from pathlib import Path

import pytest
import torch

import forgetless.torch as flt
from support.deep import vision

LIBRARY = vision.ready()
EXAMPLE = Path(__file__).parents[2] / "examples" / "avalanche_stream.py"

from avalanche.benchmarks import benchmark_from_datasets  # noqa: E402
from avalanche.benchmarks.utils import as_classification_dataset  # noqa: E402
from avalanche.training.supervised import Naive  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # what Avalanche and its dependencies warn of


@pytest.mark.parametrize("importance", [None, flt.si, partial(flt.fisher, max_samples=40)])
def test_the_plugin_is_a_plain_loop(importance):
    names = runpy.run_path(str(EXAMPLE))
    data, ends = names["experiences"](), []
    for avalanche in (True, False):
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(10, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
        continual = flt.Continual(net, [flt.Proximal(0.5, importance), flt.Average(9)])
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        if avalanche:
            sets = [as_classification_dataset(names["Labelled"](x, y)) for x, y in data]
            options = {"train_mb_size": 50, "train_epochs": 1, "evaluator": None}
            strategy = Naive(model=net, optimizer=optimizer, plugins=[names["ContinualPlugin"](continual)], **options)
            for experience in benchmark_from_datasets(train=sets).train_stream:
                strategy.train(experience, shuffle=False)
        for x, y in () if avalanche else data:
            for rows in torch.arange(400).split(50):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
                optimizer.step()
            continual.next_task([(x[rows], y[rows]) for rows in torch.arange(400).split(50)])
        assert continual.task == 6
        with continual.evaluation():
            ends.append(torch.cat([p.detach().ravel() for p in net.parameters()]))
    assert torch.equal(*ends)


def test_the_example_runs(capsys):
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    scores = {line.partition("  ")[0]: float(line.split()[-1]) for line in lines if line.startswith("[")}
    assert len(scores) == 5
    assert max(scores.values()) > scores["[]"]
