"""The scale of a schedule: its optimum where that can be computed, the report at an edge; departures of networks."""

import copy
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import forgetless as fl
import forgetless.torch as flt


def lines(targets):
    """Tasks of one row, x = 1: what one weight can do is known."""
    x = torch.ones(1, 1).double()
    return [(x, target * x) for target in targets]


def make():
    net = nn.Linear(1, 1, bias=False).double()
    return net, torch.optim.SGD(net.parameters(), lr=0.5)


def train(net, optimizer, task):
    for _ in range(50):
        optimizer.zero_grad()
        (0.5 * functional.mse_loss(net(task[0]), task[1])).backward()
        optimizer.step()


def score(net, task):
    return -functional.mse_loss(net(task[0]), task[1]).item()


def exact(targets, scale, k):
    """The score of a scale, by the equation: w ← (t + λw)/(1 + λ)."""
    w = targets[0]
    for t, target in enumerate(targets[1:], start=2):
        lam = scale * (k + 1) / (k - t + 2)
        w = (target + lam * w) / (1 + lam)
    return -np.mean([(w - target) ** 2 for target in targets])


def test_it_finds_the_best_scale_of_a_model_that_is_known():
    targets = (0.0, 1.0, 2.0, 2.5)
    advice = flt.advise(make, lines(targets), train, score, seeds=(0, 1))
    for scale, found in advice.scores.items():
        assert found == pytest.approx([exact(targets, scale, 4)] * 2, abs=1e-9)
    fine = np.geomspace(1e-4, 1e3, 2000)
    best = fine[np.argmax([exact(targets, scale, 4) for scale in fine])]
    assert 0.5 < advice.scale / best < 2
    assert advice.edge is None
    assert len(advice.scores) == 11
    assert advice.without == pytest.approx([exact(targets, 0.0, 4)] * 2, abs=1e-9)
    low, high = advice.near(0.05)
    assert low <= advice.scale <= high
    assert all(
        low <= s <= high for s, f in advice.scores.items() if np.mean(f) >= np.mean(advice.scores[advice.scale]) - 0.05
    )


@pytest.mark.parametrize(("targets", "edge"), [((0.0, 1.0, 1.0, 1.0), "low"), ((1.0, 1.0, 0.0), "high")])
def test_an_optimum_at_an_edge_is_told(targets, edge):
    """The last task alone, or the first ones: no scale of the grid is right."""

    def wanted(net, task):  # what matters is one end of the stream
        return score(net, lines([targets[-1 if edge == "low" else 0]])[0])

    with pytest.warns(UserWarning, match="the best scale is the (smallest|largest) that was tried"):
        advice = flt.advise(make, lines(targets), train, wanted)
    assert advice.edge == edge
    assert len(advice.scores) == 11
    assert "scales beyond it were not tried" in str(advice)


def test_progress_is_reported_before_every_training():
    reports = []
    advice = flt.advise(make, lines((0.0, 1.0, 2.0)), train, score, progress=lambda *report: reports.append(report))
    assert reports[0] == (0, 0, "first task")
    assert [done for done, _, _ in reports[1:]] == list(range(len(advice.scores) + 1))
    assert all(done <= total for done, total, _ in reports)
    assert reports[1][2] == f"scales, now {4.0**-5:.3g}"


def test_scales_are_relative_to_the_importance():
    """Ω = 50 everywhere: the same pulls, from scales that are 50 times smaller."""
    targets = (0.0, 1.0, 2.0)
    plain = flt.advise(make, lines(targets), train, score)
    weighted = flt.advise(
        make, lines(targets), train, score, importance=lambda net, _: {"weight": torch.full((1, 1), 50.0).double()}
    )
    assert weighted.unit == pytest.approx(1 / 50)
    assert weighted.scale == pytest.approx(plain.scale / 50)
    assert list(weighted.scores.values()) == [pytest.approx(found) for found in plain.scores.values()]


def test_other_schedules_and_scales():
    targets = (0.0, 1.0, 2.0)
    advice = flt.advise(make, lines(targets), train, score, schedule=lambda scale: scale, scales=[0.1, 1.0, 10.0])
    w = 0.0
    for target in targets[1:]:
        w = (target + 10.0 * w) / 11.0
    assert advice.scores[10.0][0] == pytest.approx(-np.mean([(w - t) ** 2 for t in targets]), abs=1e-9)
    assert sorted(advice.scores)[:3] == pytest.approx([0.1, 1.0 / math.sqrt(10), 1.0])


def wide(width):
    """A network of one hidden layer, scaled so that it becomes linear with its width."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, width).double(), nn.Linear(width, 1, bias=False).double()
            nn.init.normal_(self.first.weight)
            nn.init.normal_(self.last.weight)

        def forward(self, x):
            return self.last(torch.tanh(self.first(x))) / math.sqrt(width)

    net = Net()
    return net, torch.optim.SGD(net.parameters(), lr=0.2)


def test_the_departure_is_zero_for_a_linear_model_and_literal_otherwise(rng):
    net, x = wide(5)[0], torch.randn(7, 4).double()
    linear, other = flt.linearize(net), copy.deepcopy(net)
    assert linear.departure(other, x) == 0.0
    u = rng.standard_normal(linear.n_parameters)
    other.load_state_dict(linear.parameters(u), strict=False)
    change = (other(x) - net(x)).detach().numpy().ravel()
    wanted = np.linalg.norm(change - linear.features(x) @ u) / np.linalg.norm(change)
    assert linear.departure(other, x) == pytest.approx(wanted)
    line = nn.Linear(4, 2).double()
    linear, other = flt.linearize(line), copy.deepcopy(line)
    other.weight.data.add_(1.0)
    assert linear.departure(other, x) == pytest.approx(0.0, abs=1e-12)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="two or more"):
        flt.advise(make, lines([1.0]), train, score)
    with pytest.raises(ValueError, match="seeds must not be empty"):
        flt.advise(make, lines([1.0, 2.0]), train, score, seeds=())
    for scales in ([1.0, 2.0], [1.0, 2.0, 3.0], [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]):
        with pytest.raises(ValueError, match="geometric progression"):
            flt.advise(make, lines([1.0, 2.0]), train, score, scales=scales)
    with pytest.raises(ValueError, match="importance is zero everywhere"):
        flt.advise(make, lines([1.0, 2.0]), train, score, importance=lambda net, _: {"weight": torch.zeros(1, 1)})


def test_the_users_random_numbers_are_left_alone():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    flt.advise(make, lines([0.0, 1.0, 2.0]), train, score, scales=[0.1, 1.0, 10.0], schedule=fl.schedules.increasing)
    assert torch.equal(torch.rand(3), wanted)
