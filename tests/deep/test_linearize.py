"""The linearized network: its Jacobian against finite differences, its steps against the stored matrix."""

import copy

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import lsmr
from torch import nn

import forgetless as fl
import forgetless.torch as flt


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(), nn.Linear(6, 2)).double()


def test_the_jacobian_by_differences(rng):
    net, x = network(), torch.randn(3, 4).double()
    net[4].bias.requires_grad_(False)
    linear = flt.linearize(net)
    u = rng.standard_normal(linear.n_parameters)
    assert linear.n_parameters == sum(p.numel() for p in net.parameters() if p.requires_grad)
    moved = []
    for sign in (1.0, -1.0):
        twin = copy.deepcopy(net).eval()
        twin.load_state_dict(linear.parameters(1e-5 * sign * u), strict=False)
        moved.append(twin(x).detach().numpy().ravel())
    J = linear.features(x)
    np.testing.assert_allclose(J @ u, (moved[0] - moved[1]) / 2e-5, rtol=1e-7, atol=1e-9)
    assert net.training
    assert net[1].num_batches_tracked == 0


def test_a_ridge_step_is_that_of_lsmr():
    net, x, y = network(), torch.randn(5, 4).double(), torch.randn(5, 2).double()
    linear = flt.linearize(net)
    X, target = linear.features(x), linear.residual(x, y)
    wanted = fl.step(np.zeros(linear.n_parameters), (X, target), fl.Ridge(0.3))
    found = lsmr(X, target, damp=np.sqrt(0.3), atol=1e-14, btol=1e-14)[0]
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)
    model = fl.ContinualRidge(alpha=0.3).partial_fit(X, target)
    np.testing.assert_allclose(model.coef_, wanted, rtol=1e-9, atol=1e-12)


def test_it_stays_where_it_was_made():
    net, x = network(), torch.randn(3, 4).double()
    linear = flt.linearize(net)
    before = linear.features(x)
    with torch.no_grad():
        net[0].weight.zero_()
        net[1].running_mean.fill_(9.0)
    np.testing.assert_array_equal(linear.features(x), before)


def test_what_does_not_fit_is_refused():
    linear = flt.linearize(network())
    with pytest.raises(ValueError, match="y has 3 numbers, the outputs 6"):
        linear.residual(torch.zeros(3, 4).double(), np.zeros(3))
    with pytest.raises(ValueError, match=r"u must have \d+ numbers, got 2"):
        linear.parameters([0.0, 1.0])
    with pytest.raises(ValueError, match="requires_grad"):
        flt.linearize(network().requires_grad_(False))


def test_the_departure_is_zero_for_a_linear_model_and_literal_otherwise(rng):
    net, x = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1)).double(), torch.randn(7, 4).double()
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
