"""Advice on mechanisms: scores of plain loops, the budget, and what is chosen."""

import pytest
import torch
from torch.nn import functional

import forgetless.torch as flt
from forgetless.torch.mechanisms import GRIDS

X = torch.ones(1, 1)


def make():
    net = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(net.weight)
    return net, torch.optim.SGD(net.parameters(), lr=0.25)


def train(net, optimizer, task):
    for _ in range(40):
        optimizer.zero_grad()
        functional.mse_loss(net(X), task * X).backward()
        optimizer.step()


def score(net, task):
    return -functional.mse_loss(net(X), task * X).item()


def loss(w, tasks):
    return sum((w - task) ** 2 for task in tasks) / len(tasks)


def test_scores_are_those_of_the_formulas():
    """One weight, trained to convergence: w of every mechanism is known."""
    tasks, calls = [0.0, 1.0, 4.0], []
    advice = flt.advise_mechanism(make, tasks, train, score, budget=21, progress=lambda *args: calls.append(args))
    assert advice.n_runs == 21
    assert [call[:2] for call in calls] == [(i, 21) for i in range(21)]
    assert advice.without[0] == pytest.approx(-loss(4.0, tasks), abs=1e-5)
    for c in GRIDS["merge"]:
        w = 0.0
        for t, target in enumerate(tasks, 1):
            w += min(1.0, c / t if t > 1 else 1.0) * (target - w)
        assert advice.scores["merge", c][0] == pytest.approx(-loss(w, tasks), abs=1e-4)
    for c in GRIDS["proximal"]:  # 2(w − target) + λ(w − before) = 0, λ = c(t − 1)
        w = 0.0
        for t, target in enumerate(tasks, 1):
            w = (2 * target + c * (t - 1) * w) / (2 + c * (t - 1))
        assert advice.scores["proximal", c][0] == pytest.approx(-loss(w, tasks), abs=1e-4)
    key = max(advice.scores, key=lambda each: advice.scores[each])
    assert advice.mechanism == key[0]
    assert advice.best(key[0]) == (key[1], advice.scores[key][0])
    assert f"{key[0]} is best, above " in str(advice)


def test_the_options_give_the_score_again():
    tasks = [0.0, 1.0, 4.0]
    advice = flt.advise_mechanism(make, tasks, train, score)
    net, optimizer = make()
    continual = flt.Continual(net, optimizer, **advice.options)
    for task in tasks:
        train(net, optimizer, task)
        continual.next_task()
    with continual.averaged_weights():
        again = sum(score(net, task) for task in tasks) / 3
    assert again == pytest.approx(advice.best(advice.mechanism)[1], abs=1e-6)


def test_importances_are_taken_in_their_own_unit():
    """Ω = 5 everywhere: the same scores as with Ω = 1, and a strength that is five times smaller."""
    tasks = [0.0, 1.0, 2.0]

    def importance(net, task):
        return {name: torch.full_like(p, 5.0) for name, p in net.named_parameters()}

    def closeness(net, task):  # to the weight 2/3 that λ = 4, 8 leads to
        return -abs(float(net.weight.detach()) - 2 / 3)

    plain = flt.advise_mechanism(make, tasks, train, closeness)
    scaled = flt.advise_mechanism(make, tasks, train, closeness, importance=importance)
    for key, values in plain.scores.items():
        assert scaled.scores[key] == pytest.approx(values, abs=1e-5)
    assert plain.options == {"proximal": 4.0}
    assert scaled.options == {"proximal": pytest.approx(4.0 / 5)}


def test_where_nothing_helps_it_says_so():
    advice = flt.advise_mechanism(make, [1.0, 1.0], train, score, budget=10, seeds=(0, 1))
    assert advice.mechanism == "none"
    assert "no mechanism is better than training alone" in str(advice)
    assert advice.n_runs == 10
    assert len(advice.without) == 2


def test_arguments_are_checked():
    for options, message in [
        ({"budget": 4}, r"budget must be at least 5.*1 seeds and 4 mechanisms need 5"),
        ({"seeds": ()}, "seeds must not be empty"),
    ]:
        with pytest.raises(ValueError, match=message):
            flt.advise_mechanism(make, [0.0, 1.0], train, score, **options)
    with pytest.raises(ValueError, match="tasks must be two or more, got 1"):
        flt.advise_mechanism(make, [0.0], train, score)
