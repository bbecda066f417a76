"""What training loops do besides: scalers, compilers, several processes, statistics, path integrals, budgets."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

import forgetless as fl
import forgetless.torch as flt
from support.deep.networks import OPTIMIZERS, batches, mlp, train, weights


def anchored(name="momentum", schedule=5.0, seed=0, **options):
    net = mlp(seed)
    optimizer = OPTIMIZERS[name](net.parameters())
    return net, optimizer, flt.Anchor(net, optimizer, schedule, 4, **options)


# ------------------------------------------------------------------------------------------------------ scalers


@pytest.mark.parametrize("name", ["momentum", "sgd fused", "adam", "adam fused", "adamw fused"])
def test_a_step_skipped_by_a_scaler_pulls_nothing(name):
    net, optimizer, anchor = anchored(name)
    path = flt.PathIntegral(net, optimizer)
    train(net, optimizer, batches(3))
    anchor.next_task()
    train(net, optimizer, batches(2, seed=1))
    before, scaler = weights(net), torch.amp.GradScaler("cpu")
    for factor, moves in ((math.inf, False), (1.0, True)):
        x, y = batches(1, seed=2)[0]
        optimizer.zero_grad()
        scaler.scale(functional.cross_entropy(net(x), y) * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(weights(net), before) is not moves
    assert all(bool(torch.isfinite(value).all()) for value in path.importance().values())


@pytest.mark.parametrize("name", ["sgd fused", "adam fused"])
def test_a_scaler_that_does_not_skip_changes_nothing(name):
    """Scales are powers of two, so that scaled training is the same, bit for bit."""
    made = []
    for scaled in (False, True):
        net, optimizer, anchor = anchored(name)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=scaled)
        for task in range(2):
            for x, y in batches(4, seed=task):
                optimizer.zero_grad()
                scaler.scale(functional.cross_entropy(net(x), y)).backward()
                scaler.step(optimizer)
                scaler.update()
            anchor.next_task()
        made.append(weights(net))
    assert torch.equal(*made)


@torch.no_grad()
def apply(anchor, scale):
    for bucket in anchor._planned():
        anchor._own.apply(anchor.optimizer, bucket, anchor.strength, scale)


def test_numbers_on_the_device_pull_alike():
    """The path for fused and capturable optimizers on a GPU, run on the processor: same weights up to rounding."""
    for name in ("momentum", "adam"):
        for weighted in (False, True):
            made = []
            for on_device in (False, True):
                net, optimizer, anchor = anchored(name, mode="manual")
                train(net, optimizer, batches(3))
                anchor.next_task({n: p.detach().abs() for n, p in net.named_parameters()} if weighted else None)
                train(net, optimizer, batches(2, seed=1))
                apply(anchor, torch.ones(()) if on_device else None)
                made.append(weights(net))
                apply(anchor, torch.zeros(()))
                assert torch.equal(weights(net), made[-1])
            torch.testing.assert_close(*made, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_parameters_make_the_step_of_the_formula(dtype, weighted):
    """More elements than a chunk has: w + (a − w)γλΩ/(√v̂ + ε + γλΩ), written out."""
    torch.manual_seed(0)
    net = nn.Linear(500, 600, bias=False).to(dtype)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    omega = torch.rand_like(net.weight) if weighted else torch.ones_like(net.weight)
    center = net.weight.detach().clone()
    anchor = flt.Anchor(net, optimizer, 2.0, 2, start={"weight": omega} if weighted else True, mode="manual")
    for _ in range(3):
        optimizer.zero_grad()
        net(torch.randn(4, 500, dtype=dtype)).square().sum().backward()
        optimizer.step()
    w, load = net.weight.detach().clone(), 0.01 * 2.0 * omega
    root = (optimizer.state[net.weight]["exp_avg_sq"] / (1 - 0.999**3)).sqrt() + 1e-8
    anchor.step()
    expected = w + (center - w) * load / (root + load)
    exact = 1e-6 if dtype == torch.float32 else 1e-14
    torch.testing.assert_close(net.weight.detach(), expected, rtol=10 * exact, atol=exact)


def test_large_and_strided_parameters_pull_alike():
    """In chunks, or whole where memory is not contiguous."""
    made = []
    for strided in (False, True):
        torch.manual_seed(0)
        net = nn.Linear(300, 400)
        if strided:
            net.weight = nn.Parameter(net.weight.detach().T.contiguous().T)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        anchor = flt.Anchor(net, optimizer, 2.0, 2, start=True)
        for seed in range(3):
            optimizer.zero_grad()
            torch.manual_seed(seed)
            net(torch.randn(4, 300)).square().sum().backward()
            optimizer.step()
        made.append(net.weight.detach().clone(memory_format=torch.contiguous_format))
        assert anchor.strength == 2.0
    torch.testing.assert_close(*made, rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------------------------------------------- compilers


# ---------------------------------------------------------------------------------------------------- processes


# --------------------------------------------------------------------------------------------------- statistics


def normalized():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def test_running_statistics_are_warned_of_once():
    net = normalized()
    anchor = flt.Anchor(net, OPTIMIZERS["sgd"](net.parameters()), 1.0, 5)
    with pytest.warns(UserWarning, match=r"1 layers .* \(the first is '1'\).*freeze_statistics"):
        anchor.next_task(untrained=True)
    anchor.next_task(untrained=True)  # warnings are errors here
    net = normalized()
    flt.freeze_statistics(net)
    flt.Anchor(net, OPTIMIZERS["sgd"](net.parameters()), 1.0, 5).next_task(untrained=True)


def test_frozen_statistics_stay_through_training():
    net = normalized()
    optimizer = OPTIMIZERS["sgd"](net.parameters())
    train(net, optimizer, batches(3))
    mean, weight = net[1].running_mean.clone(), net[1].weight.detach().clone()
    frozen = flt.freeze_statistics(net)
    assert frozen.names == ["1"]
    net.train()
    train(net, optimizer, batches(3, seed=1))
    assert torch.equal(net[1].running_mean, mean)
    assert not torch.equal(net[1].weight, weight)
    frozen.remove()
    assert net[1].training
    train(net, optimizer, batches(1))
    assert not torch.equal(net[1].running_mean, mean)


# ----------------------------------------------------------------------------------------------- path integrals


@pytest.mark.parametrize("anchor_first", [False, True])
def test_the_path_integral_by_definition(anchor_first):
    """Σ −g·Δw of the optimizer's own steps, whichever hook was registered first."""
    net = mlp()
    optimizer = OPTIMIZERS["adam"](net.parameters())
    make = [lambda: flt.PathIntegral(net, optimizer, 0.2), lambda: flt.Anchor(net, optimizer, 50.0, 3, start=True)]
    made = [each() for each in (reversed(make) if anchor_first else make)]
    path = made[-1] if anchor_first else made[0]
    twin = copy.deepcopy(net)
    start = copy.deepcopy(net)
    total = {n: torch.zeros_like(p) for n, p in net.named_parameters()}
    for batch in batches(4):
        twin.load_state_dict(net.state_dict())
        twin_optimizer = OPTIMIZERS["adam"](twin.parameters())
        twin_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        train(twin, twin_optimizer, [batch])  # the step without the pull
        for (n, p), old in zip(twin.named_parameters(), net.parameters(), strict=True):
            total[n] -= p.grad * (p - old).detach()
        train(net, optimizer, [batch])
    state = copy.deepcopy(path.state_dict())
    found = path.importance()
    for (n, p), before in zip(net.named_parameters(), start.parameters(), strict=True):
        wanted = total[n].clamp(min=0) / ((p - before).detach() ** 2 + 0.2)
        torch.testing.assert_close(found[n], wanted, rtol=1e-5, atol=1e-8)
        assert float(wanted.max()) > 0
    path.load_state_dict(state)
    again = path.importance()
    assert all(torch.equal(found[n], again[n]) for n in found)
    assert all(not value.any() for value in path.importance().values())  # a task without steps


# ------------------------------------------------------------------------------------------------------ budgets


@pytest.mark.parametrize(
    ("schedule", "shares"),
    [
        (fl.schedules.increasing(), [1.0, 0.8, 0.6, 0.4]),
        (fl.schedules.increasing_budget(scale=2.0), [1.0, 0.8, 0.6, 0.4]),
        (fl.schedules.fixed_budget(3), [1.0, 1.0, 1.0, 1.0]),
        (fl.Ridge(2.0), [1.0, 1.0, 1.0, 1.0]),
        (0.5, [0.5, 0.5, 0.5, 0.5]),
        ([1.0, 0.5, 0.25, 0.001], [1.0, 0.5, 0.25, 0.001]),
        (lambda t: 1 / t, [1.0, 1 / 2, 1 / 3, 1 / 4]),
    ],
)
def test_budgets(schedule, shares):
    budgets = flt.step_budgets(schedule, 4, n_steps=7)
    exact = [7 * share for share in shares]
    assert all(abs(n - e) <= 0.5 or n == 1 for n, e in zip(budgets, exact, strict=True))
    assert min(budgets) >= 1
    optimizer = torch.optim.SGD(mlp().parameters(), lr=0.1)
    assert budget_fractions(schedule, optimizer) == pytest.approx(shares, rel=1e-12)


def budget_fractions(schedule, optimizer):
    """The factors of the learning rate that a schedule gives; numbers are taken as they are."""
    net = nn.ParameterList(optimizer.param_groups[0]["params"])
    step_size = [schedule] * 4 if isinstance(schedule, float) else schedule
    continual = flt.Continual(net, optimizer, step_size=step_size, n_tasks=4)
    fractions = []
    for _ in range(4):
        fractions.append(continual.fraction)
        continual.next_task(untrained=True)
    return fractions


def test_budgets_that_are_refused():
    with pytest.raises(ValueError, match=r"strength 0\.0 at task 1"):
        flt.step_budgets(fl.schedules.end_ramp(), 4, n_steps=3)
    with pytest.raises(ValueError, match="positive"):
        flt.step_budgets([1.0, 0.0], 2, n_steps=3)
    with pytest.raises(ValueError, match="n_steps must be at least 1"):
        flt.step_budgets(1.0, 2, n_steps=0)
    net = mlp()
    with pytest.raises(ValueError, match=r"step_size=increasing.* needs n_tasks"):
        flt.Continual(net, torch.optim.SGD(net.parameters(), lr=0.1), step_size=fl.schedules.increasing())
