"""Advice on mechanisms: scores by formulas, the search of one parameter, the budget, and what is chosen."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import forgetless as fl
import forgetless.torch as flt
from forgetless.torch.advice import GRIDS

X = torch.ones(1, 1).double()


def make():
    net = nn.Linear(1, 1, bias=False).double()
    nn.init.zeros_(net.weight)
    return net, torch.optim.SGD(net.parameters(), lr=0.5)


def train(net, optimizer, target):
    for _ in range(50):
        optimizer.zero_grad()
        (0.5 * functional.mse_loss(net(X), target * X)).backward()
        optimizer.step()


def score(net, target):
    return -functional.mse_loss(net(X), target * X).item()


def mean_score(w, targets):
    return -np.mean([(w - target) ** 2 for target in targets])


def proximal(targets, lambdas):
    """The weight after all tasks, each trained to convergence: w ← (target + λw)/(1 + λ), the first one freely."""
    w = targets[0]
    for target, lam in zip(targets[1:], lambdas[1:], strict=True):
        w = (target + lam * w) / (1 + lam)
    return w


def increasing(targets):
    """λ of the paper's schedule as a function of its scale."""
    return {"increasing": lambda scale: {"proximal": fl.schedules.increasing(scale=scale), "n_tasks": len(targets)}}


def test_scores_are_those_of_the_formulas():
    targets = [0.0, 1.0, 4.0]
    advice = flt.advise(make, targets, train, score, budget=21)
    assert advice.n_runs == 21
    assert advice.without[0] == pytest.approx(mean_score(4.0, targets), abs=1e-9)
    for c in GRIDS["merge"]:
        w = 0.0
        for t, target in enumerate(targets, 1):
            w += min(1.0, c / t if t > 1 else 1.0) * (target - w)
        assert advice.scores["merge", c][0] == pytest.approx(mean_score(w, targets), abs=1e-9)
    for c in GRIDS["proximal"]:
        w = proximal(targets, [0.0, c, 2 * c])
        assert advice.scores["proximal", c][0] == pytest.approx(mean_score(w, targets), abs=1e-9)
    key = max(advice.scores, key=lambda each: advice.scores[each])
    assert (advice.mechanism, advice.value) == key
    assert advice.best(key[0]) == (key[1], advice.scores[key][0])
    assert f"{key[0]} is best, above " in str(advice)


def test_the_options_give_the_score_again():
    targets = [0.0, 1.0, 4.0]
    for name in GRIDS:
        advice = flt.advise(make, targets, train, score, mechanisms=[name], budget=8)
        assert advice.mechanism == name
        net, optimizer = make()
        continual = flt.Continual(net, optimizer, **advice.options)
        for target in targets:
            train(net, optimizer, target)
            continual.next_task()
        with continual.averaged_weights():
            again = np.mean([score(net, target) for target in targets])
        assert again == pytest.approx(advice.best(name)[1], abs=1e-12)


def test_the_scale_of_one_mechanism_is_found_where_it_is_known():
    targets = (0.0, 1.0, 2.0, 2.5)

    def exact(scale):
        return mean_score(proximal(targets, [scale * 5 / (6 - t) for t in range(1, 5)]), targets)

    advice = flt.advise(make, targets, train, score, mechanisms=increasing(targets), budget=40, seeds=(0, 1))
    for (_, scale), scores in advice.scores.items():
        assert scores == pytest.approx([exact(scale)] * 2, abs=1e-9)
    fine = np.geomspace(1e-4, 1e3, 2000)
    best = fine[np.argmax([exact(scale) for scale in fine])]
    assert 1 / 1.5 < advice.value / best < 1.5
    assert advice.edge is None
    assert advice.n_runs < 40  # neighbours are within a factor of 1.5 before the budget is used up
    tried = sorted(value for _, value in advice.scores)
    at = tried.index(advice.value)
    assert tried[at + 1] / tried[at] <= 1.5
    assert tried[at] / tried[at - 1] <= 1.5
    assert str(advice.options["proximal"]) in str(advice)


@pytest.mark.parametrize(("closeness", "edge"), [(1.0, "smallest"), (0.0, "largest")])
def test_an_optimum_at_an_edge_is_reported(closeness, edge):
    """Either the last task alone counts or the first: no strength that was tried is the best one."""

    def wanted(net, _):  # rounding hides no difference
        return -abs(net.weight.item() - closeness) - 1e-3 * (net.weight.item() == closeness)

    targets = (0.0, 1.0, 1.0)
    advice = flt.advise(make, targets, train, wanted, mechanisms=["proximal"], budget=8)
    assert advice.edge == edge
    tried = {value for _, value in advice.scores}
    assert tried - set(GRIDS["proximal"]) == ({4.0**-7, 4.0**-9} if edge == "smallest" else {4.0**5, 4.0**7})
    assert f"its value is the {edge} that was tried" in str(advice)


def test_importances_are_taken_in_their_own_unit():
    """Ω = 50 everywhere: the same scores as with Ω = 1, and strengths that are 50 times smaller."""
    targets = [0.0, 1.0, 2.0]

    def importance(net, _):
        return {"weight": torch.full((1, 1), 50.0).double()}

    for mechanisms in (["proximal", "merge"], increasing(targets)):
        plain = flt.advise(make, targets, train, score, mechanisms=mechanisms, budget=15)
        scaled = flt.advise(make, targets, train, score, mechanisms=mechanisms, budget=15, importance=importance)
        units = {"merge": 1.0, "proximal": 50.0, "increasing": 50.0}
        assert len(plain.scores) == len(scaled.scores)
        for (name, value), scores in plain.scores.items():
            ((near, other),) = [
                (v, s) for (n, v), s in scaled.scores.items() if n == name and v == pytest.approx(value / units[name])
            ]
            assert near == pytest.approx(value / units[name])
            assert other == pytest.approx(scores, abs=1e-9)


def test_importances_beside_merging_are_those_of_the_merged_weights():
    """As ``Continual.next_task`` does where it is given a function."""
    weights = []

    def importance(net, _):
        weights.append(net.weight.item())
        return {"weight": torch.ones(1, 1).double()}

    both = {"both": lambda c: {"proximal": c, "average": ("merge", 1.0)}}
    flt.advise(make, [1.0, 3.0], train, score, mechanisms=both, budget=2, importance=importance)
    assert weights[0] == pytest.approx(1.0)  # after the first task without a mechanism: the unit
    lam = GRIDS["proximal"][0]
    assert weights[1:] == pytest.approx([1.0, 1.0 + 0.5 * (3.0 + lam) / (1 + lam) - 0.5])


def test_where_nothing_helps_it_says_so():
    advice = flt.advise(make, [1.0, 1.0], train, score, budget=10, seeds=(0, 1))
    assert (advice.mechanism, advice.value, advice.options, advice.edge) == ("none", 0.0, {}, None)
    assert "no mechanism is better than training alone" in str(advice)
    assert advice.n_runs == 10
    assert len(advice.without) == 2


def test_a_run_that_diverges_is_never_chosen():
    def unstable(net, target):
        return float("nan") if net.weight.item() < 1.0 else score(net, target)

    advice = flt.advise(make, [0.0, 1.0, 2.0], train, unstable, mechanisms=["proximal"], budget=6)
    assert np.isfinite(advice.best("proximal")[1])
    assert any(np.isnan(scores[0]) for scores in advice.scores.values())


def test_arguments_are_checked():
    for options, message in [
        ({"budget": 4}, r"budget must be at least 5.*1 seeds and 4 mechanisms need 5"),
        ({"seeds": ()}, "seeds must not be empty"),
        ({"mechanisms": ["momentum"]}, "mechanisms must be one of 'proximal', 'merge', 'moving', .* 'momentum'"),
        ({"mechanisms": []}, "mechanisms must not be empty"),
        ({"importance": lambda net, _: {"weight": torch.zeros(1, 1)}}, "importance is zero everywhere"),
    ]:
        with pytest.raises(ValueError, match=message):
            flt.advise(make, [0.0, 1.0], train, score, **options)
    with pytest.raises(ValueError, match="tasks must be two or more"):
        flt.advise(make, [0.0], train, score)


def test_the_users_random_numbers_are_left_alone():
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    flt.advise(make, [0.0, 1.0, 2.0], train, score, budget=5)
    assert torch.equal(torch.rand(3), wanted)
