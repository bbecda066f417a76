"""Every number that a user sees, on fixed small inputs: the guard of refactoring.

``python tests/golden/values.py`` prints where the computed numbers differ from ``values.json``; with ``--write`` it
replaces that file, which is right only where a number is meant to change.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np

import forgetless as fl

PATH = Path(__file__).with_name("values.json")
RTOL = 1e-12
K = 12

s = fl.schedules

SCHEDULES = {
    "fixed": s.fixed(),
    "increasing": s.increasing(),
    "increasing-half": s.increasing(scale=0.5),
    "increasing-quarter": s.increasing(scale=1 / 4),
    "fixed-budget": s.fixed_budget(),
    "fixed-budget-5": s.fixed_budget(n_steps=5),
    "increasing-budget": s.increasing_budget(),
    "increasing-budget-3": s.increasing_budget(n_steps=3, scale=1.0),
    "capped-budget": s.capped_budget(),
    "minimax": s.minimax(eta=0.8),
    "minimax-budget": s.minimax_budget(n_steps=3),
    "minimax-own-norms": s.minimax(per_task=True),
    "cyclic": s.cyclic(4),
    "constant": s.constant(fl.Ridge(0.3)),
    "projection": s.constant(fl.Projection()),
    "unregularized-first": s.unregularized_first(s.increasing()),
    "end-ramp": s.end_ramp(),
    "noise-aware": s.noise_aware(),
    "coefficients": s.from_coefficients(tuple(0.1 * t for t in range(1, K + 1))),
    "gradient-descent": fl.GradientDescent(3, 0.02),
    "stages": fl.Stages((5, 7), (fl.Projection(), fl.Ridge(2.0))),
}

ORDERINGS = {
    "with-replacement": fl.WithReplacement(),
    "weighted": fl.WithReplacement([0.1, 0.2, 0.3, 0.4]),
    "without-replacement": fl.WithoutReplacement(),
    "reshuffling": fl.RandomReshuffling(),
    "cyclic": fl.Cyclic(),
    "fixed-order": fl.FixedOrder([3, 0, 0, 1, 2, 3, 1, 0, 2, 2, 1, 3]),
}

METRICS = ("average_loss", "seen_loss", "forgetting", "drift")


def tasks(noise=0.0):
    """Return four tasks of two rows and five features."""
    rng = np.random.default_rng(7)
    teacher = rng.standard_normal(5)
    pairs = []
    for _ in range(4):
        X = rng.standard_normal((2, 5))
        pairs.append((X, X @ teacher + noise * rng.standard_normal(2)))
    return fl.TaskCollection(pairs)


def horizon(ordering):
    """Return how many steps an ordering allows."""
    return 4 if ordering == "without-replacement" else K


def laboratory():
    """Yield the numbers of the exact engines and of simulation."""
    for label, collection in (("fitted", tasks()), ("noisy", tasks(noise=0.5))):
        for name, ordering in ORDERINGS.items():
            k = horizon(name)
            for schedule, value in SCHEDULES.items():
                if k != K and schedule in ("coefficients", "cyclic", "stages"):
                    continue
                record = "all" if name == "with-replacement" and label == "noisy" else "last"
                exact = fl.expect(collection, value, k, ordering=ordering, metrics=METRICS, record=record)
                trace = fl.simulate(
                    collection, value, k, ordering=ordering, n_trials=2, seed=5, metrics=METRICS, record="last"
                )
                for metric in METRICS:
                    yield f"expect/{label}/{name}/{schedule}/{metric}", getattr(exact, metric)
                    yield f"simulate/{label}/{name}/{schedule}/{metric}", getattr(trace, metric)
                yield (
                    f"worst_case/{label}/{name}/{schedule}",
                    fl.worst_case(collection, value, k, ordering=ordering).loss,
                )
                yield f"weights/{label}/{name}/{schedule}", trace.weights[0, -1]
    collection = tasks(noise=0.5)
    for schedule in ("fixed", "increasing", "increasing-budget", "constant"):
        value = SCHEDULES[schedule]
        gradient = fl.loss_gradient(collection, value, K)
        for parameter, derivative in gradient.parameters.items():
            yield f"loss_gradient/{schedule}/{parameter}", derivative
        average = fl.expect(collection, value, K, average=1.0)
        yield f"expect/average/{schedule}", average.average_loss
        yield (
            f"step/{schedule}",
            fl.step(np.ones(5), collection[0], value.at(3) if hasattr(value, "at") else value(K, 2.0).at(3)),
        )


def bounds():  # noqa: C901
    """Yield the constants and bounds."""
    for schedule in ("fixed", "increasing", "increasing-half", "increasing-quarter", "fixed-budget", "capped-budget"):
        for quantity in ("average_loss", "seen_loss"):
            bound = fl.upper_bound(SCHEDULES[schedule], 32, quantity=quantity)
            yield f"upper_bound/{schedule}/{quantity}", [bound.value, bound.constant]
    for schedule in ("fixed", "increasing", "increasing-quarter", "minimax", "minimax-budget"):
        bound = fl.upper_bound(SCHEDULES[schedule], 32, quantity="next_loss")
        yield f"upper_bound/{schedule}/next_loss", bound.value
        for quantity in ("average_loss", "seen_loss"):
            bound = fl.upper_bound(
                SCHEDULES[schedule], 32, quantity=quantity, ordering="without-replacement", n_tasks=64
            )
            yield f"upper_bound/{schedule}/{quantity}/without-replacement", bound.value
    for scheme in ("budget", "ridge"):
        bound = fl.oracle_bound(tasks(noise=0.5), K, scheme=scheme, eta=0.4)
        yield f"oracle_bound/{scheme}", [bound.value, bound.loss, *bound.weights]
    for scheme in ("budget", "ridge"):
        best = fl.minimax_schedule(8, scheme=scheme)
        yield f"minimax_schedule/{scheme}", [best.upper_bound.value, *best.strengths]
    for schedule in ("fixed", "increasing", "increasing-budget"):
        comparison = fl.compare_bounds(tasks(), SCHEDULES[schedule], K)
        yield f"compare_bounds/{schedule}", [comparison.average_loss, comparison.seen_loss, comparison.worst_case]
        for each in comparison.bounds:
            if each.value is not None:
                yield f"compare_bounds/{schedule}/{each.name}", each.value
    for name in ("none", "fixed", "increasing"):
        worst = fl.load_worst_collection(name, 64)
        yield f"worst_collection/{name}", worst.value
    yield (
        "two_tasks",
        [*fl.theory.two_task_optimum([0.2, 0.7], [3, 9]), fl.theory.two_task_loss([0.2, 0.7], 0.4, [3, 9])],
    )
    yield "last_iterate", [float(value) for value in fl.theory.linear_decay(6, 0.5)]


def advice():
    """Yield the ranking that advise prints, and the best schedule."""
    for label, collection in (("fitted", tasks()), ("noisy", tasks(noise=0.5))):
        answer = fl.advise(collection, K)
        for option in answer.options:
            yield f"advise/{label}/{option.shape}", option.loss
        best = fl.optimal_schedule(collection, 6)
        yield f"optimal_schedule/{label}", best.loss


RIDGES = {
    "alpha": {"alpha": 0.5},
    "mean": {"alpha": 0.5, "loss": "mean", "fit_intercept": True},
    "increasing": {"schedule": "increasing", "n_tasks": 8},
    "fixed-radius": {"schedule": "fixed", "n_tasks": 8, "radius": 9.0},
    "doubling": {"schedule": "increasing"},
    "average": {"alpha": 0.0, "average": 2.0},
    "standardize": {"alpha": 0.5, "standardize": True, "fit_intercept": True},
    "auto": {},
    "auto-next": {"schedule": fl.schedules.auto(objective="next")},
    "steady": {"schedule": "steady:0.5,0.1"},
    "auto-rank-3": {"memory": fl.LowRankMemory(3, dtype="float64")},
    "svd": {"alpha": 0.5, "solver": "svd"},
    "krylov": {"alpha": 0.5, "solver": "krylov"},
}

MEMORIES = {
    "rank-2": {"rank": 2},
    "rank-6": {"rank": 6},
    "diagonal": {"rank": 2, "diagonal": True},
    "decay": {"rank": 3, "decay": 0.2},
}


def stream(n_rows=7, n_tasks=8):
    """Return eight tasks of a noisy stream with columns of different sizes."""
    rng = np.random.default_rng(11)
    teacher = rng.standard_normal(6)
    for _ in range(n_tasks):
        X = rng.standard_normal((n_rows, 6)) * [1, 2, 0.5, 1, 1, 3] + 0.3
        yield X, X @ teacher + 1.0 + 0.3 * rng.standard_normal(n_rows)


def learned(model, n_rows=7):
    """Return weights, error and strengths after the stream."""
    for X, y in stream(n_rows):
        model.partial_fit(X, y)
    history = model.history_
    return [
        *np.ravel(model.coef_),
        *np.ravel(model.intercept_),
        model.prequential_mse_,
        *history["strength"],
        *history["mse_after"],
    ]


def with_memory(memory, dtype="float64", **options):
    """Return a regressor with a low-rank memory in double precision."""
    return fl.ContinualRidge(alpha=0.5, memory=fl.LowRankMemory(dtype=dtype, **memory), **options)


def estimators():
    """Yield what every estimator learns."""
    for name, options in RIDGES.items():
        yield f"ridge/{name}", learned(fl.ContinualRidge(**options))
        if name != "krylov":
            yield f"ridge/{name}/rows", learned(fl.ContinualRidge(**options), n_rows=1)
    for name, options in MEMORIES.items():
        for rows in (1, 7):
            yield f"memory/{name}/{rows}", learned(with_memory(options), n_rows=rows)
        model = with_memory(options, standardize=True, fit_intercept=True)
        yield f"memory/{name}/standardize", [*learned(model), model.retained_fraction_]
        yield f"memory/{name}/float32", learned(with_memory(options, dtype="float32"))
    yield "gd/steps", learned(fl.ContinualGD(n_steps=5))
    yield "gd/increasing", learned(fl.ContinualGD(n_steps=5, schedule="increasing", n_tasks=8))
    yield "rls", learned(fl.RecursiveLeastSquares(alpha=0.5, fit_intercept=True))
    yield "joint", learned(fl.JointRidge(alpha=0.5, fit_intercept=True, standardize=True))
    low_rank = fl.LowRankMemory(rank=3, dtype="float64")
    for name, options in {"default": {}, "alpha": {"alpha": 0.5}, "rank": {"memory": low_rank}}.items():
        model = fl.ContinualRidgeClassifier(**options)
        for X, y in stream():
            model.partial_fit(X, np.digitize(y, [0.0, 2.0]), classes=[0, 1, 2])
        yield f"classifier/{name}", [*np.ravel(model.coef_), *np.ravel(model.intercept_)]
    for name, options in {"default": {}, "rank": {"memory": low_rank, "curvature": "bound"}}.items():
        model = fl.ContinualLogistic(**options)
        for X, y in stream():
            model.partial_fit(X, np.digitize(y, [0.0, 2.0]), classes=[0, 1, 2])
        yield f"logistic/{name}", [*np.ravel(model.coef_), *np.ravel(model.intercept_)]
    model = fl.ContinualRidge(alpha=0.5, memory=low_rank, fit_intercept=True)
    for X, y in stream():
        model.partial_fit(X, y)
    yield "ridge/std", np.ravel(model.predict(X, return_std=True))


def computed():
    """Return all numbers by name."""
    parts = (laboratory(), bounds(), advice(), estimators())
    return {name: np.ravel(np.asarray(value, dtype=float)).tolist() for part in parts for name, value in part}


def difference(one, other):
    """Return how far two lists of numbers are apart, relative to the largest of them."""
    if len(one) != len(other):
        return math.inf
    a, b = np.array(one), np.array(other)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return math.inf
    a, b = a[np.isfinite(a)], b[np.isfinite(b)]
    size = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
    return float(np.abs(a - b).max(initial=0) / size) if size else 0.0


def tolerance(name):
    """Return the relative difference that is allowed: rounding, or that of single precision and of optimizers."""
    if name.endswith("float32") or name.startswith("logistic"):  # its memory is in float32 by default
        return 1e-6
    searched = name.startswith("upper_bound") and name.endswith(("next_loss", "without-replacement"))
    return 1e-5 if searched or name.startswith(("minimax_schedule", "optimal_schedule", "advise")) else RTOL


def differences(reference, now):
    """Return the names whose numbers differ, with the difference."""
    names = sorted(set(reference) | set(now))
    apart = {name: difference(reference.get(name, []), now.get(name, [])) for name in names}
    return {name: value for name, value in apart.items() if value > tolerance(name)}


def main():
    """Compare, or write."""
    now = computed()
    if "--write" in sys.argv:
        lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(now.items())]
        PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    apart = differences(json.loads(PATH.read_text()), now)
    for name, value in apart.items():
        print(name, value)
    print(f"{len(now)} entries, {len(apart)} differ")
    return bool(apart)


if __name__ == "__main__":
    sys.exit(main())
