"""The proximal step: converged training is fl.step, one step by its formula, what is refused."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import forgetless as fl
import forgetless.torch as flt
from forgetless.torch.proximal import METRICS
from support.deep.networks import OPTIMIZERS, Lion, batches, begin, learn, mlp, train, weights

D, N, K = 5, 3, 3


def linear_tasks(rng):
    """Tasks with singular values about 1, which gradient steps solve quickly."""
    made = []
    for _ in range(K):
        U, _, V = np.linalg.svd(rng.standard_normal((N, D)), full_matrices=False)
        made.append((U @ np.diag(rng.uniform(0.7, 1.3, N)) @ V, rng.standard_normal(N)))
    return made


def literal(tasks, lambdas, omega, decay=0.0):
    """Every task by fl.step in coordinates √Ω w, where the weighted penalty is the plain one."""
    w, root = np.zeros(D), np.sqrt(omega)
    for (X, y), strength in zip(tasks, lambdas, strict=True):
        if decay:  # ridge towards 0 as further rows
            X, y = np.vstack([X, np.sqrt(decay) * np.eye(D)]), np.concatenate([y, np.zeros(D)])
        w = fl.step(root * w, (X / root, y), fl.Ridge(float(strength))) / root
    return w


def converged(tasks, make, proximal):
    """Train to convergence: two groups with other rates, accumulated gradients, a new optimizer for every task."""
    net = nn.ModuleList([nn.Linear(2, 1, bias=False), nn.Linear(3, 1, bias=False)]).double()
    for p in net.parameters():
        nn.init.zeros_(p)
    continual = flt.Continual(net, [proximal], pretrained=tasks)
    for X, y in tasks:
        (a, b), target = torch.tensor(X).split([2, 3], 1), torch.tensor(y)[:, None]
        optimizer = make([{"params": net[0].parameters()}, {"params": net[1].parameters()}])
        optimizer.param_groups[1]["lr"] = optimizer.param_groups[1]["lr"] * 0.7
        for _ in range(450):
            optimizer.zero_grad()
            for rows in (slice(0, 1), slice(1, 3)):
                ((net[0](a) + net[1](b) - target)[rows].square().sum() / 2).backward()
            optimizer.step()
        continual.next_task(tasks)
    return weights(net).numpy()


@pytest.mark.parametrize("weighted", [False, True], ids=["identity", "diagonal"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_converged_training_of_a_linear_model_is_the_step_of_the_equation(name, weighted, rng):
    tasks, omega = linear_tasks(rng), rng.uniform(0.5, 2.0, D) if weighted else np.ones(D)
    parts = dict(zip(("0.weight", "1.weight"), torch.tensor(omega)[None].split([2, 3], 1), strict=True))
    proximal = flt.Proximal(2.0, (lambda *_: parts) if weighted else None, relative=False)
    wanted = literal(tasks, [2.0, 4.0, 6.0], omega)
    assert np.linalg.norm(converged(tasks, OPTIMIZERS[name], proximal) - wanted) <= 1e-12 * np.linalg.norm(wanted)


def decaying(params):
    return torch.optim.SGD(params, lr=0.1, weight_decay=0.5)


CONVERGED = {  # optimizer, mechanism, and the λ of the equation
    "a function of the task": ("momentum", lambda: flt.Proximal(lambda t: t - 0.5), [1.5, 2.5, 3.5]),
    "a list": ("momentum", lambda: flt.Proximal([0.0, 1.5, 2.5, 3.5]), [1.5, 2.5, 3.5]),
    "an array": ("momentum", lambda: flt.Proximal(np.array([9, 1, 2, 3])), [1.0, 2.0, 3.0]),
    "increasing": ("momentum", lambda: flt.Proximal(flt.increasing(0.75, 4)), [0.9375, 1.25, 1.875]),
    "weight decay of SGD": (decaying, lambda: flt.Proximal(1.0), [1.0, 2.0, 3.0]),
    # Why the optimizer's metric matters: momentum 0.8 makes a step with D = 1 five times too weak.
    "decoupled": ("momentum", lambda: flt.Proximal(1.0, decoupled=True), [0.2, 0.4, 0.6]),
}


@pytest.mark.parametrize("case", CONVERGED)
def test_converged_training_by_schedule_and_decay(case, rng):
    """Zeros count as task 1, so that the three tasks are those from 2 on."""
    make, proximal, lambdas = CONVERGED[case]
    tasks = linear_tasks(rng)
    found = converged(tasks, OPTIMIZERS.get(make, make), proximal())
    wanted = literal(tasks, lambdas, np.ones(D), decay=0.5 if make is decaying else 0.0)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("name", ["momentum", "adam", "adamw fused"])
@pytest.mark.parametrize("strength", [1e6, 1e30, 1e38])
def test_huge_strengths_are_stable_and_zero_importance_is_free(name, strength):
    importance = {n: torch.ones_like(p) * (n != "0.bias") for n, p in mlp().named_parameters()}
    net, optimizer, continual = begin(flt.Proximal(strength, lambda *_: importance), name=name)
    learn(net, optimizer, continual, [0])
    before = copy.deepcopy(net.state_dict())
    train(net, optimizer, batches(30, seed=1))
    moved = {n: float((p.detach() - before[n]).abs().max()) for n, p in net.named_parameters()}
    assert moved.pop("0.bias") > 1e-2
    assert max(moved.values()) < 1e-5


def test_importances_are_means_in_units_of_the_first():
    proximal = flt.Proximal(1.0, lambda model, data: {n: torch.full_like(p, data) for n, p in model.named_parameters()})
    net, optimizer, continual = begin(proximal, name="sgd")
    for value, mean in ((2.0, 1.0), (8.0, 2.5), (5.0, 2.5)):
        train(net, optimizer, batches(1))
        continual.next_task(value)
        assert all(torch.allclose(omega, torch.tensor(mean)) for omega in proximal.omega.values())
    assert proximal.unit == 2.0
    assert continual.state_dict()["mechanisms"][0]["unit"] == 2.0


def test_clipping_does_not_see_the_proximal_step():
    """Gradients are those of the loss alone: their norm is the same at the same weights."""
    norms = []
    for strength in (0.0, 1e6):
        net, optimizer, continual = begin(flt.Proximal(strength), name="sgd foreach", pretrained=True)
        clip = partial(nn.utils.clip_grad_norm_, net.parameters(), 0.01)
        train(net, optimizer, batches(1), lambda clip=clip: norms.append(float(clip())))
        assert continual.task == 2
        assert not optimizer.state_dict()["state"]  # nothing is left in the optimizer
    assert norms[0] == norms[1] > 0.01


@pytest.mark.parametrize("metric", [1.0, 0.5], ids=["decoupled", "a metric of its own"])
def test_any_optimizer_decoupled_or_by_a_metric_of_its_own(metric, monkeypatch):
    monkeypatch.setitem(METRICS, Lion, lambda states, group: metric)
    net, _, _continual = begin(flt.Proximal(7.0, decoupled=metric == 1.0), pretrained=True)
    twin = mlp()
    center = weights(net)
    for each in (net, twin):
        train(each, Lion(each.parameters()), batches(1))
    share = 0.02 * 7.0 / (metric + 0.02 * 7.0)
    torch.testing.assert_close(weights(net), torch.lerp(weights(twin), center, share))


class Plain(torch.optim.SGD):
    """The same optimizer by another name."""


class Own(torch.optim.SGD):
    """Steps in a way that is not known."""

    def step(self, closure=None):
        return super().step(closure)


def test_subclasses_step_as_their_parents():
    net, _, continual = begin(flt.Proximal(1.0))
    train(net, Plain(net.parameters(), lr=0.1), batches(1))
    assert continual.n_steps == 1


@pytest.mark.parametrize("kind", [Lion, Own])
def test_optimizers_that_are_not_known_are_refused_before_they_step(kind):
    net, _, _continual = begin(flt.Proximal(1.0))
    before = weights(net)
    with pytest.raises(TypeError, match=rf"{kind.__name__} steps is not known.*decoupled=True.*METRICS"):
        train(net, kind(net.parameters(), lr=0.1), batches(1))
    assert torch.equal(weights(net), before)


@pytest.mark.parametrize("mechanism", [flt.Proximal(1.0, decoupled=True), flt.StepSize([0.5])])
def test_an_optimizer_without_a_learning_rate_is_refused(mechanism):
    """As Adafactor of transformers, which chooses its rate by the number of steps."""
    net, optimizer, continual = begin(mechanism, name="sgd")
    optimizer.param_groups[0]["lr"] = None
    with pytest.raises(TypeError, match=r"SGD has lr=None.*relative_step=False"):
        train(net, optimizer, batches(1))
    assert continual.n_steps == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda good: good.pop("0.bias"), r"importance of '0.bias' must be a tensor of shape \(8,\), got NoneType"),
        (lambda good: good.update({"0.bias": torch.ones(3)}), r"shape \(8,\), got \(3,\)"),
        (lambda good: good.update({"0.bias": -torch.ones(8)}), r"nonnegative and finite, got values from -1.0 to -1"),
        (lambda good: good.update({"0.bias": torch.full((8,), math.nan)}), "nonnegative and finite"),
        (lambda good: [value.zero_() for value in good.values()], "is 0 everywhere after the first task"),
    ],
)
def test_importances_that_are_refused(change, message):
    good = {n: torch.ones_like(p) for n, p in mlp().named_parameters()}
    change(good)
    net, optimizer, continual = begin(flt.Proximal(1.0, lambda *_: good), name="sgd")
    with pytest.raises(ValueError, match=message):
        learn(net, optimizer, continual, [0])
    assert continual.task == 1


def test_arguments_that_are_refused():
    used = flt.Continual(mlp(), [flt.Merge(1)])
    for make, error, message in [
        (lambda: flt.Proximal(-1.0), ValueError, "strength must be nonnegative and finite, got -1.0"),
        (lambda: flt.Proximal(math.nan), ValueError, "strength must be"),
        (lambda: flt.Proximal("1/8"), TypeError, "strength must be a function of the task.*one number, such as 1/8"),
        (lambda: flt.Proximal(True), TypeError, "strength must be a real number"),
        (lambda: flt.Proximal([-1.0]), ValueError, "strength is -1.0 at task 1"),
        (lambda: flt.Proximal([math.inf]), ValueError, "strength is inf at task 1"),
        (lambda: flt.Proximal(1.0, {"weight": 1}), TypeError, "importance must be a function of model and data"),
        (lambda: flt.StepSize(0.5), TypeError, "factor must be a function of the task"),
        (lambda: flt.Average(0), ValueError, "n_steps must be positive"),
        (lambda: flt.Merge(0), ValueError, "c must be positive"),
        (lambda: flt.si(damping=-1), ValueError, "damping must be positive"),
        (lambda: flt.Continual(mlp(), [0.1]), TypeError, "mechanisms must be a list of Proximal"),
        (lambda: flt.Continual(mlp(), [], optimizer=torch.optim.Adam), TypeError, r"optimizer must be.*Adam\(model\.p"),
        (lambda: flt.Continual(mlp(), [flt.Merge(1), flt.Merge(2)]), ValueError, "must be of different kinds"),
        (lambda: flt.Continual(mlp(), used.mechanisms), ValueError, r"Merge\(1\) has learned in another Continual"),
        (lambda: flt.Continual(mlp().requires_grad_(False), []), ValueError, "no parameter with requires_grad"),
        (lambda: flt.Continual(mlp(), [flt.Proximal(1.0, flt.fisher)], pretrained=True), ValueError, "pretrained=data"),
        (lambda: flt.Continual(mlp(), [flt.Proximal(1.0, flt.si)], pretrained=True), ValueError, "has no path before"),
    ]:
        with pytest.raises(error, match=message):
            make()


def test_weights_of_few_bits_are_warned_of_and_may_get_more():
    net, average = mlp().bfloat16(), flt.Average(3)
    with pytest.warns(UserWarning, match="torch.bfloat16 lose small proximal steps") as caught:
        continual = flt.Continual(net, [flt.Proximal(1e9), average], pretrained=True)
    assert caught[0].filename == __file__
    train(net, OPTIMIZERS["sgd"](net.parameters()), [(x.bfloat16(), y) for x, y in batches(1)])
    assert {mean.dtype for mean in average.mean.values()} == {torch.float32}
    before = weights(net.float())
    train(net, OPTIMIZERS["sgd"](net.parameters()), batches(2))
    assert continual.n_steps == 3
    assert torch.allclose(weights(net), before, atol=1e-5)
