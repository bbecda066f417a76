"""Golden numbers of ensembles: tasks drawn anew at every step."""

import numpy as np

import forgetless as fl
from golden.inputs import SCHEDULES

K = 6
METRICS = ("average_loss", "next_loss", "distance", "task_losses", "task_distances")

t = fl.ensembles.teachers

TEACHERS = {
    "one": t.one(2.0),
    "exchangeable": t.exchangeable(1.5, similarity=0.3),
    "recurring": t.exchangeable(similarity=0.5, turns=[1, 2, 3]),
    "change": t.exchangeable(similarity=0.2, turns=[1, 1, 2, 2, 2, 2, 2]),
    "walk": t.walk(norm=1.0, step=0.4),
    "given": t.given(np.arange(12.0).reshape(3, 4) / 10, start=[1.0, 0.0, -1.0, 0.5]),
}

X = np.random.default_rng(2).standard_normal((3, 5)) * [3.0, 1.0, 1.0, 0.5, 0.1]

ENSEMBLES = {
    "gaussian-wide": fl.ensembles.Gaussian(n_features=8, n_rows=3),
    "gaussian-tall": fl.ensembles.Gaussian(n_features=3, n_rows=7, noise=0.5),
    "gaussian-walk": fl.ensembles.Gaussian(n_features=6, n_rows=4, teachers=t.walk(step=0.2)),
    "rotated": fl.ensembles.Rotated(X),
    "rotated-noise": fl.ensembles.Rotated(X, noise=0.3),
    "rotated-walk": fl.ensembles.Rotated(X, noise=0.3, teachers=t.walk(step=0.2)),
}


def numbers():
    """Yield all of them."""
    for name, ensemble in ENSEMBLES.items():
        yield from metrics(name, ensemble)
    yield from metrics("gaussian-square", fl.ensembles.Gaussian(n_features=4, n_rows=4))
    for name, teachers in TEACHERS.items():
        yield f"teachers/{name}", teachers.distances(K)
        yield f"teachers/{name}/order", teachers.order(K)
        ensemble = fl.ensembles.Gaussian(n_features=4, n_rows=2, noise=0.1, teachers=teachers)
        yield from metrics(f"teachers-{name}", ensemble)


def metrics(name, ensemble):
    """Yield exact and simulated metrics of three schedules."""
    for schedule in ("constant", "increasing", "increasing-budget"):
        value = SCHEDULES[schedule]
        exact = ensemble.expect(value, K, metrics=METRICS, record="all")
        metrics = (*METRICS, "weights")
        trace = ensemble.simulate(value, K, metrics=metrics, record="last", n_trials=2, seed=5)
        for metric in METRICS:
            yield f"ensembles/expect/{name}/{schedule}/{metric}", getattr(exact, metric)
            yield f"ensembles/simulate/{name}/{schedule}/{metric}", getattr(trace, metric)
        yield f"ensembles/weights/{name}/{schedule}", trace.weights
