"""The linear case, trained to convergence, is fl.step: λ means the same for every optimizer."""

import numpy as np
import pytest
import torch
from torch import nn

import forgetless as fl
import forgetless.torch as flt
from support.deep.networks import OPTIMIZERS, SLOWER

D, N, K = 5, 3, 3
SCHEDULE = fl.schedules.increasing(scale=2.0)


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


def learn(tasks, make, omega, *, schedule=SCHEDULE, accumulate=False, steps=None, **options):
    net = nn.Linear(D, 1, bias=False).double()
    nn.init.zeros_(net.weight)
    optimizer = make(net.parameters())
    importance = None if omega is None else {"weight": torch.from_numpy(omega)[None]}
    anchor = flt.Anchor(net, optimizer, schedule, K, start=True if omega is None else importance, **options)
    steps = steps or (450 if isinstance(optimizer, torch.optim.Adam) else 250)
    for X, y in tasks:
        x, target = torch.from_numpy(X), torch.from_numpy(y)[:, None]
        optimizer.state.clear()
        for _ in range(steps):
            optimizer.zero_grad()
            for part in [slice(0, 1), slice(1, N)] if accumulate else [slice(None)]:
                loss = (net(x[part]) - target[part]).square().sum() / 2
                loss.backward()
            if anchor.mode == "loss":
                anchor.penalty().backward()
            optimizer.step()
        anchor.next_task(importance)
    return net.weight.detach().numpy().ravel()


@pytest.mark.parametrize("weighted", [False, True], ids=["identity", "diagonal"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_converged_training_is_the_step_of_the_equation(name, weighted, rng):
    tasks, omega = linear_tasks(rng), rng.uniform(0.5, 2.0, D) if weighted else None
    wanted = literal(tasks, SCHEDULE(K, 1.0).coefficient, np.ones(D) if omega is None else omega)
    for accumulate in (False, True):
        found = learn(tasks, OPTIMIZERS[name], omega, accumulate=accumulate)
        assert np.linalg.norm(found - wanted) <= 1e-12 * np.linalg.norm(wanted)


@pytest.mark.parametrize("name", SLOWER)
def test_other_metrics_rest_there_too(name, rng):
    """NAdam's momentum changes for ever, so that its steps are those of its metric up to 1e-4 after 2000 of them."""
    tasks, omega = linear_tasks(rng), rng.uniform(0.5, 2.0, D)
    wanted = literal(tasks, SCHEDULE(K, 1.0).coefficient, omega)
    found = learn(tasks, SLOWER[name], omega, steps=2000)
    assert np.linalg.norm(found - wanted) <= (1e-4 if name == "nadam" else 1e-9) * np.linalg.norm(wanted)
    decoupled = learn(tasks, SLOWER[name], omega, steps=2000, metric="decoupled")
    assert np.linalg.norm(decoupled - wanted) > 1e-2 * np.linalg.norm(wanted)


@pytest.mark.parametrize("name", ["sgd", "momentum"])
def test_the_penalty_in_the_loss_has_the_same_resting_point(name, rng):
    tasks, omega = linear_tasks(rng), rng.uniform(0.5, 2.0, D)
    wanted = literal(tasks, SCHEDULE(K, 1.0).coefficient, omega)
    found = learn(tasks, OPTIMIZERS[name], omega, mode="loss")
    assert np.linalg.norm(found - wanted) <= 1e-12 * np.linalg.norm(wanted)


def test_an_unknown_optimizer_learns_with_the_penalty_in_the_loss(rng):
    tasks = linear_tasks(rng)
    wanted = literal(tasks, SCHEDULE(K, 1.0).coefficient, np.ones(D))
    found = learn(tasks, lambda params: torch.optim.Adagrad(params, lr=0.3), None, mode="loss", steps=600)
    np.testing.assert_allclose(found, wanted, atol=1e-8)


def test_weight_decay_of_sgd_is_part_of_the_loss(rng):
    tasks = linear_tasks(rng)
    wanted = literal(tasks, SCHEDULE(K, 1.0).coefficient, np.ones(D), decay=0.5)
    found = learn(tasks, lambda params: torch.optim.SGD(params, lr=0.1, weight_decay=0.5), None)
    assert np.linalg.norm(found - wanted) <= 1e-12 * np.linalg.norm(wanted)


def test_a_decoupled_pull_rests_elsewhere(rng):
    """Why the optimizer's metric matters: momentum 0.8 makes a decoupled pull five times too weak."""
    tasks = linear_tasks(rng)
    weaker = literal(tasks, SCHEDULE(K, 1.0).coefficient / 5, np.ones(D))
    found = learn(tasks, OPTIMIZERS["momentum"], None, metric="decoupled")
    np.testing.assert_allclose(found, weaker, rtol=1e-9)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_stable_at_a_million(name, rng):
    tasks = linear_tasks(rng)
    wanted = literal(tasks, [1.0, 1e6, 1e6], np.ones(D))
    found = learn(tasks, OPTIMIZERS[name], None, schedule=[1.0, 1e6, 1e6], steps=150)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
