"""Every refused input names the argument, the value and what is allowed, and changes nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import aslinearoperator

import forgetless as fl
from forgetless.ensembles import Gaussian, Rotated, teachers
from forgetless.theory import surrogate
from support.filters import Flow, Power

X, y = np.eye(2), np.ones(2)
TEXT = np.array([["red", 1.0], ["blue", 2.0]], dtype=object)
TASKS = fl.TaskCollection([(X, y), (2 * X, y)])
NOISY, WALKING = fl.TaskCollection(TASKS, noise=0.5), fl.TaskCollection(TASKS, walk=1)
THREE, COLUMN = fl.TaskCollection([(np.eye(3), np.ones(3))]), fl.TaskCollection([(X, np.ones((2, 1)))])
EXACT = fl.expect(TASKS, {"none": "none", "λ = 1": 1.0}, 9, metrics=("average_loss", "task_losses"), record=[0, 3, 9])
ROWS = fl.rows_of(np.eye(3), np.ones(3))
STEEP = csr_array(np.diag(np.logspace(0, -12, 300))), np.ones(300)
OPPOSED = fl.TaskCollection([([[1.0]], [1.0]), ([[1.0]], [-1.0])])
s, made, CATALOGUE = fl.schedules, fl.theory.constructions, fl.theory.catalogue
next_bound = partial(fl.upper_bound, k=3, quantity="next_loss")


def _sized(size):
    return fl.TaskCollection([(size * X, y), (size * X[:1], y[:1])])


CASES = [
    (lambda: fl.TaskCollection([]), ValueError, "tasks must hold at least one"),
    (lambda: fl.TaskCollection([(csr_array(X), y)]), TypeError, r"must be an array .* csr_array; .*toarray"),
    (lambda: fl.step(y, (aslinearoperator(X), y), fl.Ridge(1.0)), TypeError, "X must be an array of numbers"),
    (lambda: fl.step(1.0, (X, y), fl.Ridge(1.0)), ValueError, "must fit together"),
    (fl.expect, TypeError, r"expect\(\) missing 3 required"),
    (lambda: fl.load(None), TypeError, "not NoneType"),
    (lambda: fl.TaskCollection([(X * np.nan, y)]), ValueError, "X of task 0 contains NaN or infinity"),
    (lambda: fl.TaskCollection([(X, y), (X, y * np.inf)]), ValueError, "y of task 1 contains NaN or infinity"),
    (lambda: fl.TaskCollection([(X, np.ones(3))]), ValueError, "same number of rows, got 2 and 3"),
    (lambda: fl.TaskCollection([(X, y), (np.ones((2, 3)), y)]), ValueError, "X of task 1 has 3 columns"),
    (lambda: fl.TaskCollection([(X, y), (X, np.ones((2, 1)))]), ValueError, "y of task 1 has shape"),
    (lambda: fl.TaskCollection([(np.ones(2), y)]), ValueError, r"shape \(n, d\), got \(2,\).*reshape"),
    (lambda: fl.TaskCollection([(X, np.ones((2, 1, 1)))]), ValueError, r"shape \(n,\) or \(n, c\)"),
    (lambda: fl.TaskCollection([(np.ones((2, 0)), y)]), ValueError, "at least one column"),
    (lambda: fl.TaskCollection([X[0, 0]]), TypeError, "pairs"),
    (lambda: fl.TaskCollection([(X.astype(complex), y)]), TypeError, "real numbers, got dtype complex"),
    (lambda: fl.TaskCollection([([["a", "b"]], [1.0])]), TypeError, "real numbers"),
    (lambda: fl.TaskCollection([([[1.0], [1.0, 2.0]], y)]), ValueError, "rectangular"),
    (lambda: fl.TaskCollection.from_arrays(X, y, [0]), ValueError, "groups must have one label per row"),
    (lambda: fl.TaskCollection.from_arrays(X, y, np.ma.masked_less([0, 1], 1)), TypeError, "groups is a masked array"),
    (lambda: fl.GradientDescent(2**62, 0.1), ValueError, r"n_steps must be below 2\*\*62, got one of 63 bits"),
    (lambda: fl.GradientDescent([1, 2**62], 0.1), ValueError, r"must be below 2\*\*62, got 4611686018427387904"),
    (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 10**400), ValueError, r"k must be below 2\*\*62"),
    *(
        (lambda verb=verb, size=size: verb(_sized(size), k=3), ValueError, "tasks.radius must be .* rescale X")
        for size in (1e160, 1e-160)
        for verb in (
            *(partial(verb, schedule=fl.Ridge(1.0)) for verb in (fl.expect, fl.worst_case, fl.compare_bounds)),
            fl.advise,
            fl.optimal_schedule,
        )
    ),
    (lambda: fl.expect(TASKS, 1.0, 3, ordering=fl.WithoutReplacement()), ValueError, "RandomReshuffling"),
    (lambda: fl.loss_gradient(TASKS, fl.Ridge(1.0), 3, objective="drift"), ValueError, "objective must be"),
    (lambda: fl.expect(TASKS, "increasing", 2**31), MemoryError, "strengths needs 16 GiB, of which 2 GiB may"),
    *(
        (lambda value=value, verb=verb: verb(TASKS, 1.0, 3, average=value), Exception, "average must be .*use 2 for w")
        for value in (-1, np.nan, np.inf, 33, "2", True)
        for verb in (fl.expect, fl.simulate, fl.worst_case)
    ),
    (lambda: fl.simulate(TASKS, {}, 4), ValueError, "schedule must hold at least one"),
    (lambda: fl.expect(TASKS, {"a": 1.0}, 4).sel(schedule="b"), KeyError, "'b' is not among the coordinates: 'a'"),
    (lambda: fl.TaskCollection(TASKS, noise=-1), ValueError, "noise must be nonnegative"),
    (lambda: fl.TaskCollection(TASKS, walk=np.nan), ValueError, "walk must be nonnegative and finite"),
    (lambda: fl.TaskCollection(TASKS, noise="much"), TypeError, "noise must be a real number"),
    (lambda: fl.expect(WALKING, 1.0, 3, metrics="drift"), ValueError, "moves the labels"),
    (lambda: fl.simulate(WALKING, 1.0, 3, metrics="task_drift"), ValueError, "moves the labels"),
    (lambda: fl.compare_bounds(WALKING, 1.0, 3), ValueError, r"no bound; leave both out: fl.TaskCollection\(tasks\)"),
    (lambda: fl.oracle_bound(NOISY, 3), ValueError, r"no bound; leave both out: fl.TaskCollection\(tasks\)"),
    (lambda: fl.optimal_schedule(TASKS, 5, objective="seen_loss"), ValueError, "objective must be.*got 'seen_loss'"),
    (lambda: fl.optimal_schedule(TASKS[1:], 5, ordering=fl.WithReplacement([0.5, 0.5])), ValueError, "one per task"),
    (lambda: fl.expect(TASKS, "minmax", 3), ValueError, r"no schedule 'minmax'; did you mean 'minimax'\?"),
    (lambda: fl.expect(TASKS, 1.0, 3, ordering="cyclc"), ValueError, r"did you mean 'cyclic'\? got 'cyclc'"),
    (lambda: fl.expect(TASKS, 1.0, 3, metrics="averge_loss"), ValueError, r"did you mean 'average_loss'\? got 'averge"),
    (lambda: fl.expect(TASKS, 1.0, 3, metrics=5), ValueError, "metrics must be some of .* got 5"),
    (
        lambda: fl.expect(TASKS, 1.0, 3, metrics=[*map(fl.metrics.loss_on, (TASKS, TASKS))]),
        ValueError,
        "different names",
    ),
    (lambda: fl.upper_bound("minimax", 3, quantity="loss"), ValueError, "did you mean 'average_loss' or 'seen_loss'"),
    (lambda: fl.upper_bound(TASKS, 3), TypeError, "schedule comes first.* use fl.compare_bounds"),
    (lambda: CATALOGUE["minmax"], KeyError, "no bound is called 'minmax'; did you mean 'minimax'"),
    (lambda: fl.expect(TASKS, lambda k: fl.Ridge(1.0), 3), TypeError, "function of k and R .* too many"),
    (lambda: fl.expect(TASKS, lambda k, R, c: fl.Ridge(c), 3), TypeError, "function of k and R .* missing .* 'c'"),
    (lambda: fl.simulate(TASKS, 1.0, 3, seed=-1), ValueError, "seed must be at least 0, got -1; use None"),
    (lambda: fl.WithReplacement().sample(2, 3, seed="a"), TypeError, "seed must be an integer of at least 0"),
    (lambda: fl.StreamingRidge().partial_fit(TEXT, y), ValueError, "could not .* 'red'.*; encode .*TableEncoder"),
    (lambda: fl.TaskCollection.from_arrays(TEXT, y, y), TypeError, "dtype object; .* encode text by fl.tables"),
    (lambda: TASKS.is_realizable(-1.0), ValueError, "tol must be nonnegative"),
    (lambda: TASKS.shifted(np.ones(3)), ValueError, r"start must have shape \(2,\)"),
    (lambda: fl.Ridge(-1.0), ValueError, "coefficient must be nonnegative and finite, got -1.0"),
    (lambda: fl.Ridge(float("inf")), ValueError, "coefficient must be nonnegative and finite, got inf"),
    (lambda: fl.Ridge([1.0, -2.0]), ValueError, "got -2.0 at step 2"),
    (lambda: fl.Ridge([[1.0]]), ValueError, "one value per step"),
    (lambda: fl.TaskCollection([(np.ma.masked_invalid([[1.0, np.nan]]), [1.0])]), TypeError, "masked array"),
    (lambda: fl.TaskCollection([(X, np.ones((2, 0)))]), ValueError, "y of task 0 must have at least one column"),
    (lambda: fl.Ridge(10**400), ValueError, "coefficient must be nonnegative and finite, got inf"),
    (lambda: s.fixed_budget()(5, float("nan")), ValueError, "radius must be nonnegative and finite"),
    (lambda: s.increasing()(5, 1e160), ValueError, "rescale the data"),
    (lambda: fl.simulate([(X, y)], fl.Ridge(1.0), 3), TypeError, "wrap pairs as fl.TaskCollection"),
    (lambda: fl.step(np.ones(2), [X, y], fl.Ridge(1.0)), TypeError, "task must be a Task"),
    (lambda: fl.step(np.ones(2), TASKS[0], 0.5), TypeError, "filter must be a filter"),
    (lambda: fl.metrics.forgetting(TASKS, np.zeros(2), [0]), ValueError, "after each step"),
    (lambda: fl.Ridge("1"), TypeError, "coefficient must be a real number"),
    (lambda: fl.Ridge(True), TypeError, "coefficient must be a real number"),
    (lambda: fl.GradientDescent(0, 0.1), ValueError, "n_steps must be at least 1, got 0"),
    (lambda: fl.GradientDescent(1.5, 0.1), TypeError, "n_steps must be an integer"),
    (lambda: fl.GradientDescent([1, 0], 0.1), ValueError, "n_steps must be at least 1 at every step, got 0 at step 2"),
    (lambda: fl.GradientDescent([1.0, 2.0], 0.1), TypeError, "n_steps must hold integers"),
    (lambda: fl.GradientDescent(1, 0.0), ValueError, "step_size must be positive and finite, got 0.0"),
    (lambda: fl.GradientDescent([1, 2], [0.1, 0.1, 0.1]), ValueError, "lengths"),
    (lambda: s.increasing_budget(scale=0.1)(5, 1.0), ValueError, "n_steps of at least 11"),
    (lambda: s.from_coefficients([1.0, -2.0]), ValueError, "coefficients must be nonnegative"),
    (lambda: fl.simulate(TASKS, None, 3), TypeError, "schedule must be a schedule, a filter, a name"),
    (lambda: fl.simulate(TASKS, lambda k, radius: 0.5, 3), TypeError, "schedule must return a filter"),
    (lambda: fl.simulate(TASKS, fl.Ridge([1.0, 2.0]), 3), ValueError, "schedule gives 2 steps but k is 3"),
    (lambda: fl.simulate(TASKS, [1.0, 2.0, 3.0], 3), TypeError, "a list of 3 numbers, as many as steps: for λ_1"),
    (lambda: fl.expect(TASKS, (1, 2.0, 3.0), 3), TypeError, "use fl.schedules.from_coefficients"),
    (lambda: fl.worst_case(TASKS, [1.0, 2.0], 2), TypeError, "several schedules of one λ each a list of fl.Ridge"),
    (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 0), ValueError, "k must be at least 1, got 0"),
    (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 2.0), TypeError, "k must be an integer"),
    (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 3, n_trials=0), ValueError, "n_trials must be at least 1"),
    (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 3, record="some"), ValueError, "record must be"),
    (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 3, record=[4]), ValueError, r"steps in 0\.\.3, got 4"),
    (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 3, record=[1.5]), TypeError, "integer steps"),
    (lambda: TASKS.shifted([1.0, np.nan]), ValueError, "start contains NaN"),
    (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 3, ordering=1), TypeError, r"ordering must be one of .* got 1"),
    (lambda: fl.simulate(TASKS, fl.GradientDescent(1, 0.6), 3), ValueError, r"step_size must be at most 2/R² = 0\.5"),
    (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 3, ordering=fl.FixedOrder([0, 1])), ValueError, "2 entries but k is 3"),
    (lambda: fl.FixedOrder([]), ValueError, "non-empty"),
    (lambda: fl.FixedOrder([0.5]), TypeError, "integers"),
    (lambda: fl.WithReplacement([0.5, 0.6]), ValueError, "sum to 1"),
    (lambda: fl.WithReplacement([1.5, -0.5]), ValueError, "nonnegative"),
    (lambda: fl.WithReplacement([[1.0]]), ValueError, "vector"),
    (lambda: fl.WithReplacement([1.0]).sample(2, 3), ValueError, "1 entries but there are 2 tasks"),
    (lambda: fl.Cyclic().sample(0, 3), ValueError, "n_tasks must be at least 1"),
    (lambda: fl.step(np.ones(3), TASKS[0], fl.Ridge(1.0)), ValueError, r"w must have shape \(2,\)"),
    (lambda: fl.step(np.ones(2), TASKS[0], fl.Ridge([1.0, 2.0])), ValueError, "single step"),
    (lambda: fl.metrics.average_loss(TASKS, np.ones(3)), ValueError, "w must have shape"),
    (lambda: fl.metrics.seen_loss(TASKS, np.ones(2), [0, -1, 1]), ValueError, r"lie in 0\.\.1, got -1"),
    (lambda: fl.metrics.seen_loss(TASKS, np.ones(2), []), ValueError, "one task index per step"),
    (lambda: fl.metrics.seen_loss(TASKS, np.ones(2), [0.0, 1.0]), TypeError, "indices must be integers"),
    (lambda: fl.metrics.drift(TASKS, np.ones((3, 2)), [0]), ValueError, "one task index per step"),
    (lambda: s.fixed()(2, 1.0), ValueError, "k must be at least 3"),
    (lambda: s.fixed_budget()(2, 1.0), ValueError, "k must be at least 3"),
    (lambda: s.cyclic(4)(4, 1.0), ValueError, "k must be at least 5"),
    (lambda: s.cyclic(0), ValueError, "n_tasks must be at least 1"),
    (lambda: s.fixed_budget(0), ValueError, "n_steps must be at least 1"),
    (lambda: s.increasing_budget(0), ValueError, "n_steps"),
    (lambda: s.increasing_budget(scale=1.0)(2, 1.0), ValueError, "at step 1 1/R².*use n_steps of at least 2"),
    (lambda: s.increasing_budget((9, 1), scale=0.5)(2, 1.0), ValueError, "at step 2 1.33/R².*n_steps of at least 2"),
    (lambda: s.increasing_budget(2, scale=0.1)(5, 1.0), ValueError, "at step 1 5/R².*use n_steps of at least 11"),
    (lambda: s.increasing_budget((1, 1))(3, 1.0), ValueError, "n_steps has 2 values but k is 3"),
    (lambda: s.increasing(scale=-1e-9), ValueError, "scale must be nonnegative"),
    (lambda: s.from_coefficients([1.0, 2.0])(3, 1.0), ValueError, "schedule gives 2 steps but k is 3"),
    (lambda: s.increasing()(0, 1.0), ValueError, "k must be at least 1"),
    (lambda: s.increasing()(2.0, 1.0), TypeError, "k must be an integer"),
    (lambda: s.increasing()(3, -1.0), ValueError, "radius must be nonnegative"),
    (lambda: s.increasing(1.0, 2.0), TypeError, "too many positional arguments"),
    (lambda: s.increasing("1"), TypeError, "scale must be a real number"),
    (lambda: s.constant(1.0), TypeError, "filter must be a filter, got 1.0"),
    (lambda: s.steady([1.0], noise=1.0), TypeError, "tasks must be a TaskCollection or an ensemble"),
    (lambda: fl.upper_bound(fl.GradientDescent(2, 1.5), 9), ValueError, "κ = φ.R². ≤ 1"),
    (lambda: fl.upper_bound(fl.GradientDescent(1, 2.0), 9), ValueError, "one step of the same size below 2/R²"),
    (lambda: fl.upper_bound(Power(2.0), 9), ValueError, "needs ξφ.R²./R² ≤ φ.ξ. ≤ φ.R²."),
    (lambda: fl.upper_bound(Power(np.array([0.5, 0.3])), 2), ValueError, "got steps of Power that vary"),
    (lambda: fl.upper_bound(s.increasing(), 9, quantity="drift"), ValueError, "quantity must be one of"),
    (lambda: fl.upper_bound(s.increasing(), 9, radius=0.0), ValueError, "radius must be positive"),
    (lambda: fl.upper_bound(fl.Ridge(1.0), 9, radius=1e-170), ValueError, "radius² and its inverse"),
    (lambda: fl.upper_bound(fl.Ridge(1.0), 9, radius=1e-160), ValueError, "radius² and its inverse"),
    (lambda: fl.upper_bound(fl.Ridge(1.0), 9, radius=1e160, distance=0.0), ValueError, "radius² and its inverse"),
    (lambda: fl.upper_bound(s.increasing(), 9, distance=-1.0), ValueError, "distance must be nonnegative"),
    (lambda: fl.upper_bound(fl.Ridge(1.0), 10**15), MemoryError, "an upper bound of 1,000,000,000,000,000 steps"),
    (lambda: fl.upper_bound(s.increasing(), 9, radius=1e100, distance=1e100), ValueError, "R²D² must be a float"),
    (lambda: fl.theory.two_task_loss(0.0, 1.0, 3), ValueError, "theta must lie in"),
    (lambda: fl.theory.two_task_loss(1.0, -1.0, 3), ValueError, "coefficient must be"),
    (lambda: fl.theory.two_task_loss(1.0, 1.0, -3), ValueError, "nonnegative integers"),
    (lambda: fl.theory.two_task_loss(1.0, 1.0, 2.5), ValueError, "nonnegative integers"),
    (lambda: made.two_tasks(0.0), ValueError, "theta must be positive"),
    (lambda: fl.theory.two_task_loss(np.pi, 1.0, 3), ValueError, "theta must lie in"),
    (lambda: made.two_tasks(np.pi), ValueError, r"theta must lie in \(0, π\)"),
    (lambda: made.unseen_task(1), ValueError, "k must be at least 2"),
    (lambda: made.unseen_task(5, 2), ValueError, "sign must be"),
    (lambda: made.orthonormal_rows(0), ValueError, "n_tasks must be at least 1"),
    (lambda: made.rare_tasks(50, cosine=1.0), ValueError, "cosine must be below 1"),
    (lambda: made.rare_tasks(50, weight=0.0), ValueError, "weight must be positive"),
    (lambda: made.jump_chain(0, 10), ValueError, "levels must be 1 to 8, got 0"),
    (lambda: made.jump_chain(9, 10), ValueError, "levels must be 1 to 8, got 9"),
    (lambda: made.jump_chain(3, 0), ValueError, "k must be at least 1"),
    (lambda: made.jump_chain(3, 10, factor=0.0), ValueError, r"factor must lie in \(0, 2\).*got 0.0"),
    (lambda: made.jump_chain(3, 10, ratio=0.0), ValueError, r"got 1.0, 0.2 and 0.0"),
    (lambda: made.jump_chain(3, 10, ratio=1.0), ValueError, r"got 1.0, 0.2 and 1.0"),
    (lambda: made.jump_chain(3, 10, factor=2.0), ValueError, r"factor must lie in \(0, 2\).*got 2.0"),
    (lambda: made.jump_chain(3, 10, epsilon=1.0), ValueError, r"epsilon and ratio in \(0, 1\), got 1.0, 1.0 and 0.2"),
    (lambda: made.jump_chain(3, 10, epsilon=0.0), ValueError, r"epsilon and ratio in \(0, 1\), got 1.0, 0.0 and 0.2"),
    (lambda: CATALOGUE["increasing"].at(1), ValueError, "k must be at least 2"),
    (lambda: CATALOGUE["increasing"].at(2.5), TypeError, "k must be an integer"),
    (lambda: CATALOGUE["fixed coefficient"].at(5), TypeError, r"needs more than k .* its rate is e/\(2κ"),
    (lambda: CATALOGUE["fixed coefficient"].at(5, scale=1.0), TypeError, "give kappa, scale or eta"),
    (lambda: CATALOGUE["fixed coefficient"].at(5, kappa=2.0), ValueError, r"kappa must lie in \(0, 2\)"),
    (lambda: CATALOGUE["one filter, every k"].at(5, kappa=0.0), ValueError, r"kappa must lie in \(0, 2\)"),
    (lambda: surrogate(TASKS[0], fl.Ridge(1.0), 0.0), ValueError, "step_size must be positive"),
    (lambda: surrogate(TASKS[0], fl.Ridge([1.0, 2.0]), 1.0), ValueError, "single step"),
    (lambda: surrogate(TASKS[0], 0.5, 1.0), TypeError, "filter must be a filter"),
    (lambda: surrogate(TASKS[0], fl.Ridge(1.0), 1.0, radius=0.5), ValueError, "at least that of the"),
    (lambda: Gaussian(5, 0), ValueError, "n_rows must be at least 1, got 0"),
    (lambda: Gaussian(5, 2, -1.0), ValueError, "noise must be nonnegative"),
    (lambda: teachers.exchangeable(similarity=1.5), ValueError, "similarity must lie in"),
    (lambda: Gaussian(5, 2, 0.0, teachers.given(np.ones((2, 4)))), ValueError, "teachers have 4 features"),
    (lambda: Gaussian(5, 2, 0.0, "one"), TypeError, "teachers must be one of"),
    (lambda: teachers.given([[np.nan]]), ValueError, "vectors contains NaN or infinity"),
    (lambda: Rotated([1.0, 2.0]), ValueError, "X must be a matrix"),
    (lambda: Rotated([[np.nan]]), ValueError, "X contains NaN or infinity"),
    (lambda: Gaussian(5, 2).expect(1.0, 2, metrics="drift"), ValueError, "metrics must be"),
    (lambda: fl.expect(Gaussian(5, 2), 1.0, 2), TypeError, "tasks must be a TaskCollection"),
    (lambda: teachers.exchangeable(turns=[0, 1]), ValueError, "turns must be at least 1"),
    (lambda: Gaussian(5, 2).expect(1.0, 0), ValueError, "k must be at least 1"),
    (lambda: Gaussian(5, 2).expect(1.0, 2, metrics="weights"), ValueError, "use simulate"),
    (lambda: Gaussian(5, 2).optimal_schedule(2, objective="worst_case"), ValueError, "objective must be one of"),
    (lambda: Gaussian(5, 2, 0.1, teachers.walk(1, 1)).optimal_schedule(2), ValueError, "has a closed form for one"),
    (lambda: fl.schedules.steady(Gaussian(5, 2), 1e-170)(3, 1.0), ValueError, "ratios of squares"),
    (lambda: Gaussian(5, 2, teachers=teachers.walk()).expect(1.0, 10**6), MemoryError, "1,000,002 teachers"),
    (
        lambda: Gaussian(5, 2).simulate([1, 2], 4, n_trials=10**9, metrics="task_losses"),
        MemoryError,
        "238.4 GiB, .* 8 GiB",
    ),
    (lambda: teachers.given("a"), TypeError, "vectors must hold real numbers"),
    (lambda: Rotated("ab"), TypeError, "X must hold real numbers"),
    (lambda: fl.oracle_bound(OPPOSED, 3, eta=1.0), ValueError, "eta must be at most 1, and below 1 where no model"),
    (lambda: fl.oracle_bound(OPPOSED, 3, eta=1.5), ValueError, "eta must be at most 1, and below 1 where no model"),
    (lambda: fl.oracle_bound(OPPOSED, 2, ordering="without-replacement"), ValueError, "below the number of tasks, 2"),
    (lambda: fl.oracle_bound(OPPOSED, 3, ordering="cyclic"), ValueError, "ordering must be exchangeable"),
    (lambda: fl.oracle_bound(OPPOSED, 3, scheme="both"), ValueError, "scheme must be one of budget, ridge"),
    (lambda: next_bound(s.from_coefficients([1.0, 2.0, 1.5])), ValueError, "falls, got 2 at step 2 and 1.5 at step 3"),
    (lambda: next_bound(fl.GradientDescent([2, 2, 2], [0.1, 0.2, 0.1])), ValueError, "size never rises, got 0.1 at"),
    (lambda: next_bound(fl.GradientDescent([1, 2, 2], 0.1)), ValueError, "steps never rises, got 1 at step 1 and 2"),
    (lambda: next_bound(fl.GradientDescent(1, 1.5)), ValueError, r"size reaches 1.5/R², .* needs at most 1/R²"),
    (lambda: next_bound(Flow(np.array([1.0, 0.5, 0.2]))), ValueError, "got steps of Flow that vary"),
    (lambda: next_bound(fl.Ridge(1.0), n_tasks=3, ordering="without-replacement"), ValueError, "at least 4, got 3"),
    (lambda: next_bound(fl.Ridge(1.0), n_tasks=9), ValueError, "n_tasks is for ordering"),
    (lambda: next_bound(fl.Ridge(1.0), ordering="cyclic"), ValueError, "ordering must be"),
    (lambda: fl.advise(TASKS, 5, objective="best"), ValueError, "seen_loss, worst_case; got 'best'"),
    (lambda: fl.advise(TASKS, 5, also=[fl.Ridge(1.0)]), TypeError, "also must be a dict of schedules by name"),
    (lambda: fl.advise(TASKS, 5, also={5: fl.Ridge(1.0)}), TypeError, "also must be a dict of schedules by name"),
    (lambda: fl.advise(TASKS, 5, also={"constant": fl.Ridge(1.0)}), ValueError, "compared anyway, got constant"),
    (lambda: fl.advise(TASKS, 5, objective=THREE), ValueError, r"must hold tasks .* shape \(2,\).*got \(3,\)"),
    (lambda: fl.advise(TASKS, 5, objective=COLUMN), ValueError, r"got \(2, 1\); use the same"),
    (lambda: fl.advise(TASKS, 5, ordering=Careless(ONCE)), TypeError, "no exact expectation"),
    (lambda: fl.expect(TASKS, s.increasing, 4), TypeError, r"is increasing itself; .*: increasing\(…\)"),
    (lambda: fl.expect(TASKS, fl.Projection, 4), TypeError, r"calling it: Projection\(…\)"),
    (lambda: fl.expect(TASKS, np.ones(3), 4), TypeError, r"from_coefficients\(array\)"),
    (lambda: fl.expect(TASKS, True, 4), TypeError, "got True"),
    (lambda: fl.expect(TASKS, {1: 1.0}, 4), TypeError, "schedule must have strings for labels, got 1"),
    (lambda: fl.expect(TASKS, lambda k, c: s.increasing(), 4), TypeError, "must return a filter.*returns a schedule"),
    (lambda: s.resolve("zigzag", 4, 1.0), ValueError, "there is no schedule 'zigzag'; use none, fixed, increasing"),
    (lambda: s.resolve("increasing:0.5", 4, 1.0), ValueError, "there is no schedule 'increasing:0.5'"),
    (lambda: s.resolve("steady", 4, 1.0), ValueError, "or a function of fl.schedules with arguments"),
    (lambda: s.resolve("cyclic", 4, 1.0), ValueError, r"needs a number of tasks; use fl.schedules.cyclic\(M\)"),
    (lambda: EXACT.sel(step=4), KeyError, "step=4 is not among the coordinates: 0, 3, 9"),
    (lambda: EXACT.sel(trial=0), KeyError, "none; axes are"),
    (lambda: EXACT.loss, AttributeError, r"curves have no 'loss'; did you mean .*_loss. or .task_losses.\? they have"),
    (lambda: fl.worst_case(TASKS, 1.0, 2).loss, AttributeError, "they have worst_case, teacher"),
    (lambda: EXACT.drift, AttributeError, r"drift was not computed; pass metrics=\('drift', …\)"),
    (lambda: fl.FixedOrder([0, 2, 5]).sample(3, 3), ValueError, r"indices must lie in 0\.\.2, got 5;"),
    (lambda: fl.FixedOrder([1, -1, 2]).sample(3, 3), ValueError, r"indices must lie in 0\.\.2, got -1;"),
    (lambda: fl.loss_gradient(TASKS, [fl.Ridge(1.0), fl.Projection()], 3), TypeError, "takes one schedule, got 2"),
    (lambda: fl.upper_bound(fl.Ridge(1e200), 9), ValueError, "coefficients must be below 1e150 R²"),
    (lambda: fl.upper_bound(Power(1.0, 1.5), 9), ValueError, r"needs κ = φ\(R²\) ≤ 1, got 1.5 of Power"),
    (lambda: teachers.given(np.ones((2, 4)), start=y), ValueError, r"start must have 4 features.*got shape \(2,\)"),
    (lambda: fl.step(STEEP[1], STEEP, fl.Ridge(1e-30)), fl.errors.ConvergenceError, "not solved in 6000 iterations"),
    (lambda: fl.rows_of([[-1e140], [1.0]], y), OverflowError, "rescale"),
    (lambda: fl.rows_of([[np.nan]], [1.0]), ValueError, "NaN"),
    (lambda: fl.rows_of([[1.0]], [1.0], [-1.0]), ValueError, "nonnegative"),
    (lambda: fl.StreamingRidge().partial_fit_rows(X), TypeError, "rows_of"),
    (lambda: fl.StreamingRidge(1.0, fit_intercept=False).partial_fit_rows(fl.rows_of(X, y)), ValueError, "center=F"),
    (lambda: fl.StreamingRidge().fit(X, y).partial_fit_rows(ROWS), ValueError, r"have \(3, 1\) .* before \(2, 1\)"),
    *(
        (lambda groups=groups: fl.StreamingRidge().fit(X, y, groups=groups), error, message)
        for groups, error, message in [
            ([1, 2, 3], ValueError, "inconsistent numbers of samples"),
            ([1.0, np.nan], ValueError, "but 1 rows have none"),
            ([None, "a"], ValueError, "but 1 rows have none"),
            (np.ma.masked_array(y, y), TypeError, "groups is a masked array"),
            (np.zeros((2, 2)), ValueError, r"groups must be of shape \(n,\)"),
        ]
    ),
    *(
        (lambda learn=learn: learn(X, ["a", "b"]), ValueError, r"must hold numbers .*'a'.*StreamingRidgeClassifier")
        for learn in (fl.StreamingRidge().partial_fit, fl.ContinualRidge().fit, fl.rows_of)
    ),
    *(
        (lambda model=model: model.fit(X, y).partial_fit(X, X), ValueError, r"targets of shape \(\) as .*, got \(2,\)")
        for model in (fl.StreamingRidge(), fl.ContinualRidge())
    ),
    (lambda: fl.StreamingLogistic(alpha=0).fit(X, [0, 1]), ValueError, "alpha must be positive, got 0"),
    (lambda: fl.StreamingLogistic().partial_fit(np.zeros((2, 2001)), [0, 1]), ValueError, "more than 2,000; use Strea"),
]


@pytest.mark.parametrize(("call", "error", "message"), CASES, ids=[message for _, _, message in CASES])
def test_refused_with_a_cure(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_filters_do_not_share_memory_with_the_caller():
    values = np.array([1, 2])
    for held in (fl.Ridge(values).coefficient, fl.GradientDescent(values, 0.1).n_steps):
        values[0] = -5
        assert held[0] == 1
        values[0] = 1
        with pytest.raises(ValueError, match="read-only"):
            held[0] = 3


class Careless(fl.orderings.Ordering):
    """An ordering that gets its own range or shape wrong."""

    def __init__(self, block):
        self.block = block

    def blocks(self, n_tasks, k, n_trials, rng):
        yield self.block


ONCE = np.eye(8, 3, dtype=int)
CARELESS = [-ONCE, 2 * ONCE, 2 * ONCE.astype(np.uint8), np.full((8, 3), 258), np.zeros((8, 1), int), np.zeros((8, 3))]


@pytest.mark.parametrize("block", CARELESS)
def test_custom_orderings_are_checked(block):
    assert fl.simulate(TASKS, fl.Ridge(1.0), 3, ordering=Careless(ONCE)).steps[-1] == 3
    with pytest.raises(ValueError, match=r"must yield integers in 0\.\.1 of shape \(8, 3\)"):
        fl.simulate(TASKS, fl.Ridge(1.0), 3, ordering=Careless(block))


@dataclass(frozen=True, eq=False)
class Given(fl.Filter):
    """A filter of a user, whose factors are a function's."""

    function: Callable

    def factors(self, eigenvalues):
        return self.function(eigenvalues)


@pytest.mark.parametrize("value", [0.5, np.array([0.5]), np.array([np.nan, 0.1, 0.1, 0.1])])
def test_custom_filters_are_checked(value):
    careless = Given(lambda eigenvalues: value if np.size(eigenvalues) > 2 else 0.5 * eigenvalues / 4)
    with pytest.raises(ValueError, match="must return one finite factor per eigenvalue"):
        fl.simulate(TASKS, careless, 3)


def test_custom_filters_must_not_expand():
    bump = Given(lambda eigenvalues: np.where(np.abs(eigenvalues - 1.0) < 0.1, 2.5, 0.5))
    tasks = fl.TaskCollection([(np.diag([2.0, 1.0, 0.5]), np.ones(3))])
    for call in (fl.simulate, fl.expect, fl.worst_case):
        with pytest.raises(ValueError, match=r"factors must lie in \[0, 2\]"):
            call(tasks, bump, 3)
