"""Adaptors of ``tests/differential.py``: from a case of plain values to calls of the library.

The same file runs in the environment of the old commit and in that of the working tree. ``CALLS``
has a pair for every kind of case: the calls of the old commit, and those of the working tree, which
are the same functions until a name or a signature changes. None in place of the second one parks a
kind: nothing answers it at the moment. An adaptor returns lists of numbers by name; the name
decides on the tolerance, as that of a golden number does. Numbers below "unit" are compared with
it: what is far smaller than the losses or the weights of a case is a rounding error.
"""

import functools

import numpy as np
from scipy import sparse

import forgetless as fl

METRICS = ("average_loss", "seen_loss", "forgetting", "drift", "next_loss", "distance")
TASK_METRICS = ("task_losses", "task_forgetting", "task_drift")
LAST_WEIGHTS = ("average_loss", "next_loss", "distance", "task_losses")
NEW_BOUNDS = {
    "one filter, every k",
    "unregularized, by hand",
    "unregularized, every k",
    "unregularized, one third",
    "unregularized, seen tasks",
    "fixed coefficient",
    "fixed budget",
    "increasing, larger scale, seen tasks",
}
RENAMED_BOUNDS = {"fixed, any filter": "fixed, general"}
TRIALS = 3
SMALL = 1e-3  # of the numbers of a case: 1e-12 of it is some units of their last digit


# --- objects from names and numbers ---


def arrays(sizes):
    """Return pairs (X, y) of one teacher, with noise in the labels and rows of at most ``rank``."""
    rng = np.random.default_rng(sizes["seed"])
    n_features = sizes["features"]
    shape = (n_features,) if sizes.get("targets", 1) == 1 else (n_features, sizes["targets"])
    teacher = rng.standard_normal(shape)
    rank = sizes.get("rank", n_features)
    directions = rng.standard_normal((rank, n_features)) if rank < n_features else None
    pairs = []
    for n_rows in sizes["rows"]:
        X = rng.standard_normal((n_rows, n_features))
        if directions is not None:
            X = X[:, :rank] @ directions
        y = X @ teacher
        pairs.append((X, y + sizes["noise"] * rng.standard_normal(y.shape)))
    return pairs


def tasks_of(sizes):
    """Return a collection of tasks."""
    return fl.TaskCollection(arrays(sizes))


def schedule_of(case, radius=1.0):
    """Return a schedule or a filter; gradient steps are relative to 1/R²."""
    name, options = case["schedule"]
    if name == "Ridge":
        return fl.Ridge(options["coefficient"])
    if name == "Projection":
        return fl.Projection()
    if name == "GradientDescent":
        return fl.GradientDescent(options["n_steps"], options["relative"] / radius**2)
    if name == "from_coefficients":
        return fl.schedules.from_coefficients(tuple(options["coefficients"]))
    return getattr(fl.schedules, name)(**options)


def ordering_of(case):
    """Return an ordering."""
    name, options = case["ordering"]
    return getattr(fl, name)(*options.values())


def ensemble_of(case):
    """Return an ensemble."""
    name, options = case["teachers"]
    known = fl.ensembles.teachers
    if name == "walk":
        teachers = known.walk(*options)
    elif hasattr(known, name):
        teachers = getattr(known, name)(**options)
    else:
        options = dict(options)
        if name == "recurring":
            turns = range(1, options.pop("n_teachers") + 1)
        else:
            after = options.pop("after")
            turns = [1] * after + [2] * (case["k"] + 1)
        teachers = known.exchangeable(turns=list(turns), **options)
    shared = {"noise": case["noise"], "teachers": teachers}
    if case["name"] == "Gaussian":
        return fl.ensembles.Gaussian(case["features"], case["rows"], **shared)
    rng = np.random.default_rng(case["seed"])
    return fl.ensembles.Rotated(rng.standard_normal((case["rows"], case["features"])), **shared)


def problem_of(case):
    """Return the first arguments of the verbs."""
    tasks = tasks_of(case["tasks"])
    return tasks, schedule_of(case, tasks.radius), case["k"]


def unit_of(tasks):
    """Return the size of losses: that of the origin, or the largest for a unit teacher."""
    origin = np.zeros(np.shape(tasks.teacher()))
    return SMALL * max(float(fl.metrics.average_loss(tasks, origin)), 0.5 * tasks.radius**2)


def values_of(result, names):
    """Return metrics by name."""
    return {name: getattr(result, name) for name in names}


def prefixed(prefix, values):
    """Return the same values, with a part in front of their names."""
    return {f"{prefix}/{name}": value for name, value in values.items()}


def expected_and_simulated(case, metrics, tasks=None, **options):
    """Return exact metrics and those of simulated runs."""
    problem = problem_of(case)
    if tasks is not None:
        problem = (tasks, *problem[1:])
    exact = fl.expect(*problem, metrics=metrics, record=[1, case["k"]], **options)
    sampling = {"n_trials": TRIALS, "seed": case["seed"], "record": "all"}
    if hasattr(fl.metrics, "weights"):
        metrics = (*metrics, "weights")
    trace = fl.simulate(*problem, metrics=metrics, **sampling, **options)
    return {
        **prefixed("expect", values_of(exact, exact.values)),
        **prefixed("simulate", values_of(trace, exact.values)),
        "weights": trace.weights,
        "unit": unit_of(problem[0]),
    }


# --- the laboratory ---


def run(case):
    """Return all metrics."""
    metrics = (*METRICS, *TASK_METRICS)
    return expected_and_simulated(case, metrics, ordering=ordering_of(case))


def start_of(case):
    """Return the start w₀ of a case."""
    shape = np.shape(tasks_of(case["tasks"]).teacher())
    return np.random.default_rng(case["start"]).standard_normal(shape)


def run_from_a_start(case):
    """Return all metrics from another start."""
    tasks = tasks_of(case["tasks"]).shifted(start_of(case))
    values = expected_and_simulated(case, METRICS, tasks, ordering=ordering_of(case))
    unit = unit_of(tasks_of(case["tasks"]))
    return {**values, "unit": unit, "weights": values["weights"] + start_of(case)}


def run_from_a_start_before(case):
    """Return the same of the old commit."""
    options = {"ordering": ordering_of(case), "start": start_of(case)}
    return expected_and_simulated(case, METRICS, **options)


def average(case):
    """Return the loss of an average of the iterates."""
    options = {"ordering": ordering_of(case), "average": case["average"]}
    return expected_and_simulated(case, ("average_loss",), **options)


def worst_case(case):
    """Return the worst loss over teachers, and one step."""
    tasks, schedule, k = problem_of(case)
    worst = fl.worst_case(tasks, schedule, k, ordering=ordering_of(case))
    coefficient = 0.1 + case["seed"] % 7
    w = np.ones(np.shape(tasks.teacher()))
    return {
        "unit": unit_of(tasks),
        "worst_case": getattr(worst, "worst_case", None) if hasattr(worst, "worst_case") else worst.loss,
        "step/ridge": fl.step(w, tasks[0], fl.Ridge(coefficient)),
        "step/projection": fl.step(w, tasks[1], fl.Projection()),
    }


def loss_gradient(case):
    """Return the derivatives of the expected loss with respect to parameters."""
    problem = problem_of(case)
    tasks = problem[0]
    # Derivatives with respect to λ have the unit of a loss over R².
    unit = unit_of(tasks) / max(1.0, tasks.radius**2)
    return {"unit": unit, **prefixed("loss_gradient", fl.loss_gradient(*problem).parameters)}


def disturbed(case):
    """Return metrics with label noise and a walking teacher."""
    tasks = fl.TaskCollection(tasks_of(case["tasks"]), noise=case["noise"], walk=case["walk"])
    return expected_and_simulated(case, LAST_WEIGHTS, tasks, ordering=ordering_of(case))


def disturbed_before(case):
    """Return the same of the old commit."""
    options = {"ordering": ordering_of(case), "noise": case["noise"], "drift": case["walk"]}
    return expected_and_simulated(case, LAST_WEIGHTS, **options)


def loss_on(case):
    """Return the loss on other tasks."""
    metric = fl.metrics.loss_on(tasks_of(case["others"]), "average_loss")
    return expected_and_simulated(case, (metric,), ordering=ordering_of(case))


def loss_on_before(case):
    """Return the same of the old commit."""
    options = {"ordering": ordering_of(case), "evaluate": tasks_of(case["others"])}
    return expected_and_simulated(case, ("average_loss",), **options)


def ensemble(case):
    """Return metrics over fresh tasks, and the losses of the best schedules."""
    tasks = ensemble_of(case)
    return fresh(case, tasks.expect, tasks.simulate, tasks.optimal_schedule)


def ensemble_before(case):
    """Return the same of the old commit."""
    verbs = (fl.expect, fl.simulate, fl.optimal_schedule)
    return fresh(case, *(functools.partial(verb, ensemble_of(case)) for verb in verbs))


def fresh(case, expect, simulate, optimal_schedule):
    """Return the answers of the three verbs of an ensemble."""
    problem = (schedule_of(case), case["k"])
    exact = expect(*problem, metrics=LAST_WEIGHTS, record="all")
    trace = simulate(*problem, metrics=LAST_WEIGHTS, n_trials=TRIALS, seed=case["seed"])
    # Where the optimum has a closed form.
    one = ("average_loss", "next_loss", "distance")
    goals = {"one": one, "walk": one[1:]}.get(case["teachers"][0], ())
    best = {goal: optimal_schedule(4, objective=goal).loss for goal in goals}
    return {
        **prefixed("expect", values_of(exact, LAST_WEIGHTS)),
        **prefixed("simulate", values_of(trace, LAST_WEIGHTS)),
        **prefixed("optimal_schedule", best),
    }


# --- bounds and choices ---


def upper_bound(case):
    """Return the bound of a schedule, under the name that decides on its tolerance."""
    options = {name: case[name] for name in ("quantity", "radius", "distance")}
    schedule = schedule_of(case, case["radius"])
    bound = fl.upper_bound(schedule, case["k"], **options, **case["options"])
    name = "/".join(["upper_bound", case["quantity"], *case["options"].get("ordering", "").split()])
    return {name: [bound.value, bound.constant]}


def majorant(case):
    """Return the same bound; of one filter at every step that of the old commit, now the larger."""
    from forgetless.schedules import resolve
    from forgetless.theory.majorants import half_supremum
    from forgetless.theory.steps import in_units, steps_of

    found = upper_bound(case)
    filter_ = resolve(schedule_of(case, case["radius"]), case["k"], case["radius"])
    if case["options"] or case["quantity"] == "next_loss" or filter_.horizon is not None:
        return found
    filter_ = in_units(filter_, case["radius"])
    unit = min(0.5, half_supremum(steps_of(filter_, case["k"]), case["k"], case["quantity"]).per_unit)
    (name,) = found
    assert found[name][1] <= case["k"] * unit * (1 + 1e-12)
    return {name: [unit * (case["radius"] * case["distance"]) ** 2, case["k"] * unit]}


def catalogue(case):
    """Return the values of all bounds at one setting."""
    values = {}
    for bound in fl.theory.bounds.catalogue:
        if bound.constant_known and bound.name not in NEW_BOUNDS:
            extras = {name: case["extras"][name] for name in bound.extras}
            setting = (case["k"], case["radius"], case["distance"])
            values[f"bounds/{bound.name}"] = bound.evaluate(*setting, **extras)
    return values


def new_catalogue(case):
    """Return the same from records."""
    values = {}
    for bound in fl.theory.catalogue:
        name = RENAMED_BOUNDS.get(bound.name, bound.name)
        computed = bound.name.split(",")[0] in ("computed", "oracle")
        if bound.value is not None and not computed and name not in NEW_BOUNDS:
            numbers = dict(case["extras"])
            numbers["kappa"] = numbers.pop("factor")
            unit = (case["radius"] * case["distance"]) ** 2
            values[f"bounds/{name}"] = unit * bound.at(case["k"], **numbers)
    return values


def compare_bounds(case):
    """Return exact losses, and the values of the bounds that apply."""
    problem = problem_of(case)
    comparison = fl.compare_bounds(*problem)
    losses = [comparison.average_loss, comparison.seen_loss, comparison.worst_case]
    filter_ = problem[1](problem[2], problem[0].radius) if callable(problem[1]) else problem[1]
    # Of one filter at every step the old commit has larger values.
    apart = {"computed", "computed, seen tasks"} if filter_.horizon is None else set()
    apart |= NEW_BOUNDS
    bounds = {
        RENAMED_BOUNDS.get(each.name, each.name): each.value
        for each in comparison.bounds
        if each.value is not None and each.name not in apart and each.kind == "upper"
    }
    unit = unit_of(problem[0])
    return {"unit": unit, "average_loss": losses, **prefixed("compare_bounds", bounds)}


def theory(case):
    """Return the numbers of the formulas."""
    tasks, schedule, k = problem_of(case)
    weights = fl.theory.last_iterate_weights(k, 0.1, 2.0)
    filter_ = fl.Ridge(case["coefficient"] + 0.1)
    check = fl.theory.check_reduction(tasks, filter_, 0.1)
    made = fl.theory.constructions
    collections = (
        made.two_tasks(case["theta"]),
        made.unseen_task(case["n_tasks"]),
        made.orthonormal_rows(case["n_tasks"]),
        made.seen_task(case["n_tasks"]),
        made.rare_tasks(k, cosine=case["theta"] / 2),
    )
    claims = {each.name: each.claim(schedule, k) for each in collections}
    best, loss = fl.theory.two_task_optimum(case["theta"], k)
    return {
        "two_task_loss": fl.theory.two_task_loss(case["theta"], case["coefficient"], k),
        "best_of_two_tasks": best,
        "best_of_two_tasks_loss": loss,
        "last_iterate_weights": [*weights.v, *weights.c, weights.bound],
        "check_reduction": [check.smoothness, check.lower, check.upper],
        **prefixed("constructions", claims),
    }


def optimal_schedule(case):
    """Return the loss of the best schedule of few steps."""
    tasks = tasks_of(case["tasks"])
    return {"unit": unit_of(tasks), "optimal_schedule": fl.optimal_schedule(tasks, 4).loss}


# Shapes of schedules that only the old commit has
ONLY_OLD = ("capped budget", "noise-aware", "minimax, noise")


def advise(case):
    """Return the loss of every shape of schedules at its best scale."""
    tasks = tasks_of(case["tasks"])
    options = fl.advise(tasks, case["k"]).options
    fits = tasks.is_realizable()
    losses = {
        each.shape: each.loss
        for each in options
        # Where labels are noisy the old commit has η = 1, the new one the best η below.
        if each.shape not in ONLY_OLD and (fits or not each.shape.startswith("minimax"))
    }
    return {"unit": unit_of(tasks), **prefixed("advise", losses)}


# --- estimators ---


def learn(model, pairs, form):
    """Learn a stream in one of its forms."""
    if form == "groups":
        groups = np.repeat(np.arange(len(pairs)), [len(y) for _, y in pairs])
        X = np.vstack([X for X, _ in pairs])
        return model.fit(X, np.concatenate([y for _, y in pairs]), groups=groups)
    for X, y in pairs:
        if form == "weights":
            model.partial_fit(X, y, sample_weight=np.linspace(0.5, 2.0, len(y)))
        elif form == "sparse":
            model.partial_fit(sparse.csr_array(np.where(np.abs(X) > 0.5, X, 0.0)), y)
        elif form == "two targets":
            model.partial_fit(X, np.stack([y, y**2], axis=1))
        else:
            model.partial_fit(X, y)
    return model


def regressor(case):
    """Return weights and predictions of a scheme of the paper."""
    pairs = arrays(case["stream"])
    name, options = case["model"]
    model = learn(getattr(fl, name)(**options), pairs, case["form"])
    return {
        "unit": SMALL,
        "coef": model.coef_,
        "intercept": model.intercept_,
        "predict": model.predict(pairs[0][0]),
    }


def evaluate_stream(case):
    """Return errors on held-out rows and before learning."""
    model = fl.ContinualRidge(alpha=case["alpha"])
    options = {name: case[name] for name in ("holdout", "seed")}
    result = fl.evaluate_stream(model, arrays(case["stream"]), **options)
    return {"errors": result.errors, "change": result.change, "before": result.before}


CALLS = {
    # kind of case: (calls of the old commit, calls of the working tree or None)
    "run": (run, run),
    "start": (run_from_a_start_before, run_from_a_start),
    "worst_case": (worst_case, worst_case),
    "average": (average, average),
    "loss_gradient": (loss_gradient, loss_gradient),
    "disturbed": (disturbed_before, disturbed),
    "loss_on": (loss_on_before, loss_on),
    "ensemble": (ensemble_before, ensemble),
    "regressor": (regressor, regressor),
    "upper_bound": (upper_bound, majorant),
    "catalogue": (catalogue, new_catalogue),
    "compare_bounds": (compare_bounds, compare_bounds),
    "theory": (theory, theory),
    "evaluate_stream": (evaluate_stream, evaluate_stream),
    "optimal_schedule": (optimal_schedule, optimal_schedule),
    "advise": (advise, advise),
}


def answer(case, side):
    """Return the numbers of a case by name, an error as text, or None if the kind is parked."""
    call = CALLS[case["kind"]][("old", "new").index(side)]
    if call is None:
        return None
    try:
        values = call(case)
    except Exception as error:  # whatever it is, it belongs to this case
        return f"{type(error).__name__}: {error}"
    return {name: np.ravel(np.asarray(each, dtype=float)).tolist() for name, each in values.items()}
