"""The benchmark's stacked training is that of plain loops, one network at a time."""

import copy
import math
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import forgetless.torch as flt
from deep import networks
from deep.methods import METHODS
from deep.streams import Spec, make
from deep.training import ORDER, Run, Settings, _State, train
from support.deep.pools import pool

SMALL = Settings(n=40, n_eval=20, steps=7, batch=8, hidden=(6, 5), importance_samples=12, buffer=12)
CASES = {
    "perceptron": Spec("", "permuted", 3, 3),
    "adam": Spec("", "classes", 3, 4, "random", optimizer="adam", lr=1e-3),
    "convolutions": Spec("", "rotated", 2, 2, network="conv"),
    "convolutions, adam, mse": Spec("", "classes", 2, 2, network="conv", optimizer="adam", loss="mse", lr=1e-3),
    "regression": Spec("", "angle", 3, 4, "random", outputs=1, loss="mse"),
}
GIVEN = {
    method.name: tuple((parameter, 0.4 + 0.3 * i) for i, (parameter, _) in enumerate(method.sources))
    for method in METHODS.values()
}


class Net(nn.Module):
    """The network number ``r`` of a stack."""

    def __init__(self, state, r):
        super().__init__()
        self.layers = state.layers
        self.values = nn.ParameterList(p[r].clone() for p in state.params)

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            weight, bias = self.values[2 * i], self.values[2 * i + 1]
            x = x.relu() if i else x
            if layer.kernel:
                kernels = weight.T.unflatten(1, (-1, layer.kernel, layer.kernel))
                side = math.isqrt(x[0].numel() // kernels.shape[1])
                x = functional.conv2d(x.reshape(len(x), -1, side, side), kernels, bias[0], stride=2)
            else:
                x = x.flatten(1) @ weight + bias
        return x

    def loss(self, spec, x, y, before, strength):
        """Return the loss, with distillation as Li & Hoiem write it: 4 times the cross-entropy at temperature 2."""
        out, old = self(x), before(x).detach()
        if spec.loss == "ce":
            distance = -4.0 * ((old / 2).softmax(1) * (out / 2).log_softmax(1)).sum(1).mean()
            return functional.cross_entropy(out, y) + strength * distance
        target = y[:, None] if spec.regression else functional.one_hot(y, spec.outputs)
        return 0.5 * ((out - target).square() + strength * (out - old).square()).sum(1).mean()


def literal(state, run, r):
    """Train one run by the public parts of forgetless.torch; return the network with the weights that are evaluated."""
    stream, how, spec, k = state.stream, state.how, state.stream.spec, state.stream.spec.k
    plan, net, ends = run.method.plan(run.values, k), Net(state, r), []
    likelihood = "categorical" if spec.loss == "ce" else "gaussian"
    importances = {"fisher": partial(flt.fisher, likelihood=likelihood), "mas": flt.mas, "si": flt.si(how.damping)}
    mechanisms = [
        flt.Proximal(list(plan.strengths), importances.get(run.method.metric)),
        flt.StepSize(list(plan.rates)),
    ]
    if run.method.read == "moving":
        mechanisms.append(flt.Average(plan.horizon * how.steps))
    continual = flt.Continual(net, mechanisms)
    data = networks.scaled(stream.x["train"], torch.float64)
    for t in range(k):
        optimizer = (torch.optim.Adam if spec.optimizer == "adam" else torch.optim.SGD)(net.parameters(), lr=spec.lr)
        before, picked = copy.deepcopy(net), state._picked(t + 1)[:, r]
        for rows in picked[: max(1, round(how.steps * min(1.0, plan.steps[t])))]:
            optimizer.zero_grad()
            y = stream.y["train"].flatten()[rows]
            net.loss(spec, data.flatten(0, 2)[rows], y, before, plan.distillation[t] if t else 0.0).backward()
            optimizer.step()
        with torch.no_grad():
            for p, old in zip(net.parameters(), before.parameters(), strict=True):
                p.lerp_(old, 1 - plan.merges[t])
        continual.next_task(data[run.seed, stream.order[run.seed, t]][: how.importance_samples])
        ends.append([p.detach().clone() for p in net.parameters()])
    with continual.evaluation(), torch.no_grad():
        for p, *values in zip(net.parameters(), *ends, strict=True):
            p.copy_(sum(values) / k if run.method.read == "mean" else p)
        return copy.deepcopy(net)


@pytest.mark.parametrize("spec", CASES.values(), ids=CASES.keys())
def test_stacked_training_is_plain_training(spec):
    """Every method, two seeds at once, against one network at a time with Continual."""
    stream = make(spec, [3, 8], pool(), SMALL.n, SMALL.n_eval, "cpu")
    chosen = sorted(METHODS.values(), key=lambda method: ORDER.index(method.metric))
    runs = [Run(method, 0.7, seed, GIVEN[method.name]) for method in chosen for seed in (0, 1)]
    found, params = train(stream, runs, SMALL, part="test", full=True, dtype=torch.float64)
    state = _State(stream, runs, SMALL, torch.float64)
    for r, run in list(enumerate(runs))[1 :: 2 if spec.network == "mlp" else 4]:
        net = literal(state, run, r)
        for a, b in zip(net.parameters(), params, strict=True):
            np.testing.assert_allclose(b[r], a.detach(), rtol=1e-8, atol=1e-10, err_msg=str(run))
        scores = [score_of(net, stream, run.seed, m) for m in range(spec.n_tasks)]
        assert found["score"][r] == pytest.approx(np.mean(scores), abs=1e-6)
        assert found["worst"][r] == pytest.approx(min(scores), abs=1e-6)
        assert found["along"][r, -1] == pytest.approx(np.mean([scores[m] for m in stream.order[run.seed]]), abs=1e-6)


def score_of(net, stream, seed, task):
    x, y = stream.x["test"][seed, task], stream.y["test"][seed, task]
    out = net(networks.scaled(x, torch.float64)).detach()
    if stream.spec.regression:
        return float(1 - (out[:, 0] - y).square().sum() / (y - y.mean()).square().sum())
    return float((out.argmax(1) == y).double().mean())
