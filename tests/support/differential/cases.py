"""Random cases for ``tests/differential.py`` as plain JSON: names, numbers and seeds of arrays.

A case depends on the seed of the run and on its number only. Left out, because the old commit is
wrong there: streams whose first task has two rows, ``return_std`` with weights or after one task
with n ≤ d, ``fit(groups=)`` of classifiers, error counts where margins are zero.
"""

import numpy as np

FEWEST = 3  # Steps: some schedules and bounds begin there
QUANTITIES = ("average_loss", "seen_loss", "next_loss")


def cases(seed, count):
    """Return ``count`` cases; the kinds come in turn."""
    kinds = list(MAKERS)
    made = []
    for number in range(count):
        draw = Draw(np.random.default_rng([seed, number]))
        kind = kinds[number % len(kinds)]
        made.append({"number": number, "kind": kind, **MAKERS[kind](draw)})
    return made


class Draw:
    """Random plain values."""

    def __init__(self, rng):
        self.rng = rng

    def integer(self, low, high):
        """Return an integer from ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def integers(self, count, low, high):
        """Return a list of them."""
        return [self.integer(low, high) for _ in range(count)]

    def real(self, low, high):
        """Return a number with three digits after the point, which is easy to read."""
        return round(float(self.rng.uniform(low, high)), 3)

    def reals(self, count, low, high):
        """Return a list of them."""
        return [self.real(low, high) for _ in range(count)]

    def one_of(self, *options):
        """Return one of the options."""
        return options[self.integer(0, len(options) - 1)]

    def seed(self):
        """Return a seed of arrays."""
        return self.integer(0, 10**6)


def collection(draw):
    """Return the sizes of 3 to 6 tasks: wide or tall, of full rank or not, fitted or noisy."""
    n_features = draw.integer(1, 7)
    return {
        "seed": draw.seed(),
        "features": n_features,
        "rows": draw.integers(draw.integer(3, 6), 1, 9),
        "targets": draw.one_of(1, 1, 2),
        "rank": draw.one_of(n_features, draw.integer(1, n_features)),
        "noise": draw.one_of(0.0, 0.5),
    }


def schedule(draw, k):
    """Return the name of a schedule of k steps, and its arguments."""
    return draw.one_of(
        ["fixed", {}],
        ["increasing", {"scale": draw.real(0.1, 5.0)}],
        ["fixed_budget", {"n_steps": draw.integer(1, 6)}],
        ["increasing_budget", {"n_steps": draw.integer(1, 6), "scale": draw.real(1.0, 5.0)}],
        ["minimax", {"eta": draw.real(0.1, 1.0)}],
        ["minimax_budget", {"n_steps": draw.integer(1, 6)}],
        ["end_ramp", {}],
        ["from_coefficients", {"coefficients": draw.reals(k, 0.0, 3.0)}],
        ["Ridge", {"coefficient": draw.real(0.0, 4.0)}],
        ["Projection", {}],
        ["GradientDescent", {"n_steps": draw.integer(1, 6), "relative": draw.real(0.05, 1.0)}],
    )


def ordering(draw, n_tasks, k):
    """Return the name of an ordering, and its arguments."""
    weights = draw.integers(n_tasks, 1, 5)
    return draw.one_of(
        ["WithReplacement", {}],
        ["WithReplacement", {"probabilities": [each / sum(weights) for each in weights]}],
        ["RandomReshuffling", {}],
        ["Cyclic", {}],
        ["FixedOrder", {"indices": draw.integers(k + 1, 0, n_tasks - 1)}],
        ["WithoutReplacement", {}],
    )


def run(draw):
    """Return tasks, ordering, number of steps, schedule and seed of one run."""
    tasks = collection(draw)
    n_tasks = len(tasks["rows"])
    k = draw.integer(FEWEST, 16)
    order = ordering(draw, n_tasks, k)
    if order[0] == "WithoutReplacement":
        tasks["rows"].append(draw.integer(1, 9))  # so that there is a next task
        k = n_tasks
    return {
        "tasks": tasks,
        "ordering": order,
        "k": k,
        "schedule": schedule(draw, k),
        "seed": draw.seed(),
    }


def run_from_a_start(draw):
    """Return a run that starts elsewhere than at the origin."""
    return {**run(draw), "start": draw.seed()}


def averaged(draw):
    """Return a run of which averages of the iterates are measured."""
    return {**run(draw), "average": draw.real(0.0, 3.0)}


def disturbed(draw):
    """Return a run with label noise, a walking teacher or both, for independent draws."""
    noise = draw.real(0.1, 1.0)
    walk = draw.real(0.1, 1.0)
    noise, walk = draw.one_of((noise, 0.0), (0.0, walk), (noise, walk))
    return {**independent(draw), "noise": noise, "walk": walk}


def independent(draw):
    """Return a run with independent draws."""
    return {**run(draw), "ordering": ["WithReplacement", {}]}


def differentiable(draw):
    """Return a run with independent draws and a filter that has a parameter."""
    made = independent(draw)
    if made["schedule"][0] == "Projection":
        made["schedule"] = ["Ridge", {"coefficient": 0.0}]
    return made


def other_tasks(draw):
    """Return a run and the sizes of the tasks whose loss is measured."""
    made = run(draw)
    others = {**collection(draw), **{name: made["tasks"][name] for name in ("features", "targets")}}
    others["rank"] = others["features"]
    return {**made, "others": others}


def ensemble(draw):
    """Return fresh tasks, at least two rows from square, where means of noise are infinite."""
    n_features = draw.integer(2, 7)
    n_rows = draw.one_of(n_features + draw.integer(2, 4), max(1, n_features - draw.integer(2, 4)))
    if abs(n_rows - n_features) < 2:
        n_rows = n_features + 2
    similarity = {"norm": draw.real(0.5, 2.0), "similarity": draw.real(0.0, 1.0)}
    k = draw.integer(FEWEST, 10)
    return {
        "name": draw.one_of("Gaussian", "Rotated"),
        "features": n_features,
        "rows": n_rows,
        "noise": draw.one_of(0.0, draw.real(0.1, 1.0)),
        "teachers": draw.one_of(
            ["one", {"norm": draw.real(0.5, 2.0)}],
            ["exchangeable", similarity],
            ["recurring", {"n_teachers": draw.integer(1, 4), **similarity}],
            ["change", {"after": draw.integer(1, 3), **similarity}],
            ["walk", [1.0, draw.real(0.1, 1.0)]],
        ),
        "k": k,
        "schedule": draw.one_of(
            ["increasing", {"scale": draw.real(0.1, 5.0)}],
            ["Ridge", {"coefficient": draw.real(0.1, 4.0)}],
            ["minimax", {"eta": draw.real(0.1, 1.0)}],
            ["from_coefficients", {"coefficients": draw.reals(k, 0.1, 3.0)}],
        ),
        "seed": draw.seed(),
    }


def upper_bound(draw):
    """Return a schedule whose strengths never fall, as all bounds ask, a quantity and an order."""
    k = draw.integer(FEWEST, 60)
    quantity = draw.one_of(*QUANTITIES)
    without = {"ordering": "without-replacement", "n_tasks": k + draw.integer(1, 50)}
    return {
        "k": k,
        "quantity": quantity,
        "options": draw.one_of({}, without),
        "radius": draw.real(0.5, 3.0),
        "distance": draw.real(0.5, 3.0),
        "schedule": draw.one_of(
            ["fixed", {}],
            ["increasing", {"scale": draw.real(0.2, 5.0)}],
            ["fixed_budget", {"n_steps": draw.integer(1, 6)}],
            ["minimax", {"eta": draw.real(0.1, 1.0)}],
            ["minimax_budget", {"n_steps": draw.integer(1, 6)}],
            ["Ridge", {"coefficient": draw.real(0.1, 9.0)}],
        ),
    }


def catalogue(draw):
    """Return a setting of all bounds."""
    return {
        "k": draw.integer(9, 10**5),
        "radius": draw.real(0.1, 9.0),
        "distance": draw.real(0.1, 9.0),
        "extras": {
            "factor": draw.real(0.05, 0.95),
            "scale": draw.real(4.4, 9.0),
            "eta": draw.real(0.1, 1.0),
        },
    }


def theory(draw):
    """Return arguments of the formulas: two tasks, the last-iterate lemma, the reduction."""
    return {
        "tasks": {**collection(draw), "noise": 0.0, "targets": 1},
        "k": draw.integer(FEWEST, 30),
        "theta": draw.real(0.05, 1.5),
        "coefficient": draw.real(0.0, 5.0),
        "n_tasks": draw.integer(2, 8),
        "schedule": ["increasing", {"scale": draw.real(0.2, 5.0)}],
    }


def stream(draw):
    """Return the sizes of a stream of tasks with more than two rows each."""
    return {
        "seed": draw.seed(),
        "features": draw.integer(1, 8),
        "rows": draw.integers(draw.integer(3, 7), 3, 12),
        "noise": draw.real(0.1, 1.0),
    }


def regressor(draw):
    """Return a scheme of the paper, a stream and the form in which it comes."""
    made = stream(draw)
    alpha = {"alpha": draw.real(0.05, 3.0)}
    shared = {"fit_intercept": draw.one_of(False, True)}
    planned = {"schedule": draw.one_of("fixed", "increasing"), "n_tasks": len(made["rows"])}
    model = draw.one_of(
        ["ContinualRidge", {**alpha, **shared}],
        ["ContinualRidge", {**alpha, "average": draw.real(0.0, 3.0)}],
        ["ContinualRidge", {**planned, **shared}],
        ["ContinualGD", {"n_steps": draw.integer(1, 8), **shared}],
    )
    form = draw.one_of("rows", "rows", "weights", "sparse", "groups", "two targets")
    return {"model": model, "stream": made, "form": form}


def evaluated(draw):
    """Return a regressor and a stream of which rows are held out; five rows stay at least."""
    made = stream(draw)
    made["rows"] = [each + 5 for each in made["rows"]]
    return {"alpha": draw.real(0.05, 3.0), "stream": made, "holdout": 0.25, "seed": draw.seed()}


MAKERS = {
    "run": run,
    "start": run_from_a_start,
    "worst_case": run,
    "average": averaged,
    "loss_gradient": differentiable,
    "disturbed": disturbed,
    "loss_on": other_tasks,
    "ensemble": ensemble,
    "regressor": regressor,
    "upper_bound": upper_bound,
    "catalogue": catalogue,
    "compare_bounds": independent,
    "theory": theory,
    "evaluate_stream": evaluated,
    "optimal_schedule": independent,
    "advise": independent,
}
