"""The benchmark's stacked training is that of plain loops, one network at a time."""

import numpy as np
import pytest
import torch

from deep import networks
from deep.methods import METHODS
from deep.streams import Spec, make
from deep.training import ORDER, Run, Settings, _State, train
from support.deep.pools import literal, network, pool, shaped

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


@pytest.mark.parametrize("spec", CASES.values(), ids=CASES.keys())
def test_stacked_training_is_plain_training(spec):
    """Every method, two seeds at once, against one network at a time with Continual."""
    stream = make(spec, [3, 8], pool(), SMALL.n, SMALL.n_eval, "cpu")
    chosen = sorted(METHODS.values(), key=lambda method: ORDER.index(method.metric))
    runs = [Run(method, 0.7, seed, GIVEN[method.name]) for method in chosen for seed in (0, 1)]
    found, params = train(stream, runs, SMALL, part="test", full=True, dtype=torch.float64)
    state = _State(stream, runs, SMALL, torch.float64)
    picked = [state._picked(t) for t in range(1, spec.k + 1)]
    for r, run in list(enumerate(runs))[1 :: 2 if spec.network == "mlp" else 4]:
        start = [p[r : r + 1] for p in state.params]
        net = literal(stream, state.layers, start, run, SMALL, [rows[:, r] for rows in picked])
        ours = network(state.layers, params, r)
        for (name, a), b in zip(net.named_parameters(), ours.parameters(), strict=True):
            np.testing.assert_allclose(b.detach(), a.detach(), rtol=1e-8, atol=1e-10, err_msg=f"{run} {name}")
        scores = [score_of(net, stream, run.seed, m, state.layers) for m in range(spec.n_tasks)]
        assert found["score"][r] == pytest.approx(np.mean(scores), abs=1e-6)
        assert found["worst"][r] == pytest.approx(min(scores), abs=1e-6)
        assert found["along"][r, -1] == pytest.approx(np.mean([scores[m] for m in stream.order[run.seed]]), abs=1e-6)


def score_of(net, stream, seed, task, layers):
    x, y = stream.x["test"][seed, task], stream.y["test"][seed, task]
    out = net(shaped(networks.scaled(x, torch.float64), layers)).detach()
    if stream.spec.regression:
        return float(1 - (out[:, 0] - y).square().sum() / (y - y.mean()).square().sum())
    return float((out.argmax(1) == y).double().mean())


def test_runs_of_one_seed_differ_by_their_method_alone():
    """Another method in the stack, or other seeds beside, change nothing."""
    spec = CASES["adam"]
    few = make(spec, [8], pool(), SMALL.n, SMALL.n_eval, "cpu")
    many = make(spec, [3, 8], pool(), SMALL.n, SMALL.n_eval, "cpu")
    run, other = METHODS["SI increasing"], METHODS["L2 fixed"]
    alone, _ = train(few, [Run(run, 0.3, 0)], SMALL, part="val", dtype=torch.float64)
    beside = [Run(other, 1.0, 0), Run(other, 1.0, 1), Run(run, 2.0, 0), Run(run, 0.3, 1)]
    found, _ = train(many, beside, SMALL, part="val", dtype=torch.float64)
    assert found["score"][-1] == alone["score"][0]
