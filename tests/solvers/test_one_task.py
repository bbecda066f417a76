"""One-shot solvers against the spectrum, literal loops and fifty digits: every solver, shape and kind of rows."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import LinAlgWarning

import forgetless as fl
from forgetless.solvers import _costs, _direct, _krylov
from forgetless.solvers.given import Limits, OneTask
from forgetless.solvers.one_task import learn, task_norm
from forgetless.solvers.rows import Rows, check_sparse
from support import literal
from support.streams import sparse_rows


def spectral(X, r, filter_):
    """The step from a plain SVD."""
    U, s, V = np.linalg.svd(X, full_matrices=False)
    share = np.asarray(filter_.learned(s))
    return V.T @ ((share / s)[:, None] * (U.T @ r))


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


SHAPES = [(300, 230), (230, 300), (250, 250), (40, 7), (7, 40), (1, 9), (9, 1)]


def kinds(X):
    """The same rows in every form a task may have."""
    cut = max(1, X.shape[0] // 3)
    blocks = [X[:cut], X[cut:]] if X.shape[0] > 1 else [X]
    return {
        "dense": Rows.of(X),
        "fortran": Rows.of(np.asfortranarray(X)),
        "sparse": Rows.of(sparse.csr_array(X)),
        "blocks": Rows(lambda: iter(blocks), X.shape, X.size),
    }


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("solver", ["auto", "gram", "krylov", "svd"])
@pytest.mark.parametrize("relative_strength", [30.0, 1.0, 1e-3])
def test_ridge_step_is_the_same_by_every_solver_and_kind_of_rows(rng, shape, solver, relative_strength):
    X, r = rng.standard_normal(shape), rng.standard_normal((shape[0], 3))
    filter_ = fl.Ridge(relative_strength * np.linalg.norm(X, 2) ** 2)
    exact = spectral(X, r, filter_)
    left = np.sum((r - X @ exact) ** 2, axis=0)
    for kind, rows in kinds(X).items():
        if (solver, kind) == ("svd", "blocks"):
            continue  # refused: tested below
        made = learn(OneTask(rows, r), filter_, solver=solver)
        assert relative(made.change, exact) < 1e-9, kind
        np.testing.assert_allclose(made.after, left, rtol=1e-7, atol=1e-11 * np.sum(r**2))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("solver", ["auto", "gram", "krylov", "svd"])
@pytest.mark.parametrize("budget", [(1, 0.5), (3, 0.9), (40, 0.2), (1000, 0.01), (9, 1.7)])
def test_budget_step_is_the_literal_loop_by_every_solver(rng, shape, solver, budget):
    X, r = rng.standard_normal(shape), rng.standard_normal((shape[0], 2))
    filter_ = fl.GradientDescent(budget[0], budget[1] / np.linalg.norm(X, 2) ** 2)
    exact = literal.descent_step(np.zeros((shape[1], 2)), X, r, filter_.n_steps, filter_.step_size)
    for kind, rows in kinds(X).items():
        if (solver, kind) == ("svd", "blocks"):
            continue
        made = learn(OneTask(rows, r), filter_, solver=solver)
        assert relative(made.change, exact) < 1e-9, kind
        assert relative(made.after, np.sum((r - X @ exact) ** 2, axis=0)) < 1e-6


def test_budget_of_a_thousand_steps_takes_few_passes_and_little_memory(rng):
    X, r = rng.standard_normal((400, 300)), rng.standard_normal((400, 1))
    filter_ = fl.GradientDescent(1000, 1e-3 / np.linalg.norm(X, 2) ** 2)
    stored = learn(OneTask(Rows.of(X), r), filter_, solver="krylov")
    again = learn(OneTask(Rows.of(X), r), filter_, solver="krylov", limits=Limits(memory=1))
    assert stored.passes <= 12
    assert again.passes == 2 * stored.passes
    np.testing.assert_array_equal(stored.change, again.change)


@pytest.mark.parametrize("shape", [(9, 6), (6, 9), (300, 230)])
@pytest.mark.parametrize("solver", ["gram", "krylov", "svd"])
def test_steps_and_their_stated_errors_do_not_depend_on_units(solver, shape, rng):
    """Rows and targets in other units, by powers of two: the same step, passes, and relative error."""
    X, r = rng.standard_normal(shape), rng.standard_normal((shape[0], 2))
    square = np.linalg.norm(X, 2) ** 2
    budgets = [fl.GradientDescent(n, size / square) for n, size in ((1, 0.5), (30, 0.7), (7, 1.6))]
    for filter_ in [fl.Ridge(0.1 * square), fl.Ridge(1e-7 * square), *budgets]:
        if solver == "krylov" and filter_ == fl.Ridge(1e-7 * square) and shape[0] > 100:
            continue  # takes more passes than are allowed
        one = learn(OneTask(Rows.of(X), r), filter_, solver=solver)
        assert 0 < one.error < 1e-6
        for a, b in ((2.0**12, 1.0), (2.0**-9, 2.0**7)):
            made = learn(OneTask(Rows.of(a * X), b * r), filter_.scaled(a * a), solver=solver)
            assert made.error == pytest.approx(one.error, rel=1e-9)
            assert made.passes == one.passes
            np.testing.assert_allclose(made.change, b / a * one.change, rtol=1e-9)
            np.testing.assert_allclose(made.after, b * b * one.after, rtol=1e-9, atol=1e-14 * b * b)


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 30),
    d=st.integers(1, 30),
    decay=st.floats(0, 6),
    strength=st.floats(-12, 4),
)
def test_error_bounds_of_the_iteration_hold(seed, n, d, decay, strength):
    rng = np.random.default_rng(seed)
    U, _, V = np.linalg.svd(rng.standard_normal((n, d)), full_matrices=False)
    s = np.logspace(0, -decay, min(n, d))
    X, r = (U * s) @ V, rng.standard_normal((n, 1))
    for filter_ in (fl.Ridge(10.0**strength), fl.GradientDescent(int(10 ** (2 - strength / 4)), 0.8)):
        reference = learn(OneTask(Rows.of(X), r), filter_)
        for tol in (1e-2, 1e-6, 1e-10):
            try:
                made = learn(OneTask(Rows.of(X), r), filter_, solver="krylov", limits=Limits(tol))
            except fl.ConvergenceError:
                assert strength < -2
                continue
            true = np.linalg.norm(made.change - reference.change) / np.linalg.norm(made.change)
            assert made.error <= 2 * tol + 1e-8
            assert true <= made.error + reference.error + 1e-12


def fifty_digits(X, r, coefficient):
    with mpmath.workdps(50):
        A = mpmath.matrix(X.tolist())
        system = A.T * A + mpmath.mpf(coefficient) * mpmath.eye(X.shape[1])
        solution = mpmath.lu_solve(system, A.T * mpmath.matrix(r.tolist()))
        return np.array([[float(value)] for value in solution])


def hard_task(kind, shape, rng):
    X = rng.standard_normal(shape)
    if kind == "decaying":
        U, _, V = np.linalg.svd(X, full_matrices=False)
        X = (U * np.logspace(0, -9, min(shape))) @ V
    if kind == "low rank":
        X = X[:, :2] @ X[:2, :]
    if kind == "repeated feature":
        X[:, 1] = X[:, 0]
    return X / np.linalg.norm(X, 2)


@pytest.mark.parametrize("kind", ["generic", "decaying", "low rank", "repeated feature"])
@pytest.mark.parametrize("shape", [(8, 5), (5, 8), (6, 6)])
def test_extremes_against_fifty_digits(rng, kind, shape):
    X, r = hard_task(kind, shape, rng), rng.standard_normal((shape[0], 1))
    for size, strength in itertools.product([1e-150, 1e-90, 1.0, 1e90, 1e150], [1e-12, 1e-9, 1e-4, 1.0, 1e4, 1e12]):
        coefficient = strength * size * size
        if not 0 < coefficient < np.inf:
            continue
        made = learn(OneTask(Rows.of(X * size), r), fl.Ridge(coefficient))
        assert relative(made.change, fifty_digits(X * size, r, coefficient)) < 1e-8, (size, strength)


@pytest.mark.parametrize("kind", ["generic", "decaying", "low rank", "repeated feature"])
@pytest.mark.parametrize("shape", [(8, 5), (5, 8)])
@pytest.mark.parametrize("solver", ["auto", "gram", "krylov", "svd"])
@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
def test_stated_errors_of_every_solver_bound_the_true_ones(rng, kind, shape, solver):
    X, r = hard_task(kind, shape, rng), rng.standard_normal((shape[0], 1))
    stated = []
    for size, strength in itertools.product([1e-3, 1.0, 1e4], [1e-18, 1e-15, 1e-12, 1e-8, 1e-4, 1.0, 1e4]):
        coefficient = strength * size * size
        try:
            made = learn(OneTask(Rows.of(X * size), r), fl.Ridge(coefficient), solver=solver)
        except fl.ConvergenceError:
            continue
        exact = fifty_digits(X * size, r, coefficient)
        true = np.linalg.norm(made.change - exact) / np.linalg.norm(exact)
        assert true <= made.error, (size, strength, made.solver, true, made.error)
        stated.append(made.error)
    assert min(stated) < 1e-12


@pytest.mark.parametrize("shape", [(5, 20), (20, 5), (1, 20)])
@pytest.mark.parametrize("sizes", [(1e150, 1e-60), (1e-150, 1e60), (1e99, 1e-99), (1e120, 1e-120), (1e140, 1e-170)])
def test_rows_and_residuals_of_sizes_far_apart(rng, shape, sizes):
    X, r = rng.standard_normal(shape), rng.standard_normal((shape[0], 1))
    for strength in (1e-6, 1.0):
        for filter_ in (fl.Ridge(strength * sizes[0] ** 2), fl.GradientDescent(20, 0.01 / sizes[0] ** 2)):
            made = learn(OneTask(Rows.of(X * sizes[0]), r * sizes[1]), filter_)
            plain = learn(OneTask(Rows.of(X), r), filter_.scaled(sizes[0] ** -2.0))
            np.testing.assert_allclose(made.change, plain.change * (sizes[1] / sizes[0]), rtol=1e-10)
        model = fl.ContinualRidge(strength * sizes[0] ** 2)
        model.partial_fit(np.eye(shape[1]), np.zeros(shape[1])).partial_fit(X * sizes[0], r[:, 0] * sizes[1])
        expected = learn(OneTask(Rows.of(X), r), fl.Ridge(strength)).change[:, 0]
        np.testing.assert_allclose(model.coef_, expected * (sizes[1] / sizes[0]), rtol=1e-9)


def test_a_row_whose_gain_is_below_the_range_of_a_float_is_learned(rng):
    x = rng.standard_normal((1, 3)) * 1e13
    model = fl.ContinualRidge(1.0).partial_fit(np.eye(3), np.zeros(3))
    model.partial_fit(x, np.array([1e-288]))
    np.testing.assert_allclose(model.coef_, x[0] / 1e13 * (1e-288 / 1e13) / np.sum((x / 1e13) ** 2), rtol=1e-9)


@pytest.mark.parametrize("size", [1e-200, 1e-120, 1e120, 1e200])
def test_targets_of_any_size(rng, size):
    X, r = rng.standard_normal((6, 4)), rng.standard_normal((6, 1))
    for filter_ in (fl.Ridge(2.0), fl.GradientDescent(20, 0.05), fl.Projection()):
        expected = learn(OneTask(Rows.of(X), r), filter_)
        made = learn(OneTask(Rows.of(X), r * size), filter_)
        np.testing.assert_allclose(made.change / size, expected.change, rtol=1e-12)


def test_budget_at_extreme_norms(rng):
    X, r = rng.standard_normal((6, 4)), rng.standard_normal((6, 1))
    expected = learn(OneTask(Rows.of(X), r), fl.GradientDescent(50, 0.02)).change
    for size in (1e-140, 1e140):
        made = learn(OneTask(Rows.of(X * size), r), fl.GradientDescent(50, 0.02 / size / size))
        np.testing.assert_allclose(made.change * size, expected, rtol=1e-11)


def test_projection_solves_rank_deficient_tasks_like_the_pseudoinverse(rng):
    X = rng.standard_normal((12, 3)) @ rng.standard_normal((3, 9))
    r = rng.standard_normal((12, 2))
    made = learn(OneTask(Rows.of(X), r), fl.Projection())
    np.testing.assert_allclose(made.change, np.linalg.pinv(X, rcond=1e-12) @ r, atol=1e-10)


def test_iteration_without_regularization_does_not_claim_to_know_its_error(rng):
    X, r = rng.standard_normal((40, 30)), rng.standard_normal((40, 1))
    made = learn(OneTask(Rows.of(X), r), fl.Projection(), solver="krylov")
    assert np.isnan(made.error)
    np.testing.assert_allclose(made.change, np.linalg.lstsq(X, r)[0], rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-12, 1.0, 1e12, 1e18])
@pytest.mark.parametrize("solver", ["auto", "krylov", "gram"])
def test_float32_rows_of_any_size(rng, scale, solver):
    X, r = rng.standard_normal((260, 230)), rng.standard_normal((260, 2))
    square = np.linalg.norm(X, 2) ** 2
    for filter_, scaled in (
        (fl.Ridge(square), fl.Ridge(square * scale * scale)),
        (fl.GradientDescent(30, 0.5 / square), fl.GradientDescent(30, 0.5 / square / scale / scale)),
    ):
        exact = learn(OneTask(Rows.of(X), r), filter_).change / scale
        made = learn(OneTask(Rows.of((X * scale).astype(np.float32)), r.astype(np.float32)), scaled, solver=solver)
        assert relative(made.change.astype(np.float64), exact) < 3e-5


def test_memory_is_a_limit_for_every_solver(rng):
    X = sparse_rows(rng, (300, 5000), density=0.02)
    r = rng.standard_normal((300, 1))
    assert learn(OneTask(Rows.of(X), r), fl.Projection()).solver == "krylov"

    class Soft(fl.Filter):
        horizon = None

        def share(self, eigenvalues):
            return np.tanh(eigenvalues)

    for filter_, memory in ((Soft(), 10**6), (fl.GradientDescent(10**8, 1e-3), 4 * 10**6)):
        with pytest.raises(fl.ConvergenceError, match="memory"):
            learn(OneTask(Rows.of(X), r), filter_, limits=Limits(memory=memory))
    small, needed = Rows.of(np.eye(6, 4)), _costs.spectrum_bytes(Rows.of(np.eye(6, 4)))
    assert learn(OneTask(small, np.ones((6, 1))), Soft(), limits=Limits(memory=needed)).solver == "svd"
    with pytest.raises(fl.ConvergenceError, match="memory"):
        learn(OneTask(small, np.ones((6, 1))), Soft(), limits=Limits(memory=needed - 1))


def test_overshooting_budgets_end_in_time(rng):
    X, r = rng.standard_normal((60, 50)), rng.standard_normal((60, 1))
    square = np.linalg.norm(X, 2) ** 2
    for n_steps in (10**3, 10**6):
        filter_ = fl.GradientDescent(n_steps, 1.5 / square)
        made = learn(OneTask(Rows.of(X), r), filter_, solver="krylov")
        assert relative(made.change, spectral(X, r, filter_)) < 1e-7


def test_smooth_filters_do_not_warn_about_conditions_that_do_not_matter(rng):
    X = hard_task("decaying", (30, 8), rng)
    r = rng.standard_normal((30, 1))
    made = learn(OneTask(Rows.of(X), r), fl.GradientDescent(3, 0.5), solver="svd")
    assert made.error < 1e-12
    assert relative(made.change, literal.descent_step(np.zeros((8, 1)), X, r, 3, 0.5)) < 1e-12


def test_blocks_that_change_between_reads_are_refused(rng):
    X, r = rng.standard_normal((30, 4)), rng.standard_normal((30, 1))
    for lost in (X[:10], np.vstack([X, X])):
        rows = Rows(lambda lost=lost: iter([lost]), X.shape, X.size)
        for solver in ("gram", "krylov"):
            with pytest.raises(ValueError, match="rows when read again and 30 the first time"):
                learn(OneTask(rows, r), fl.Ridge(1.0), solver=solver)


def test_what_cannot_be_computed_accurately_is_not_silent(rng):
    X = hard_task("decaying", (30, 5), rng)
    r = rng.standard_normal((30, 1))
    with pytest.warns(LinAlgWarning, match="ill-conditioned"):
        learn(OneTask(Rows.of(X), r), fl.Ridge(0.0))
    gram = Rows.of_gram(X.T @ X, 30)
    with pytest.raises(fl.ConvergenceError, match="read again"):
        learn(OneTask(gram, np.sqrt(np.sum(r**2, axis=0))[None], X.T @ r), fl.Ridge(1e-12))
    with pytest.raises(fl.ConvergenceError, match="one array"):
        learn(OneTask(Rows(lambda: iter([X]), X.shape, X.size), r), fl.Ridge(1.0), solver="svd")
    wide = sparse.csr_array(rng.standard_normal((300, 400)))
    few = Limits(memory=1000, passes=20)
    with pytest.raises(fl.ConvergenceError, match="20 passes over a task"):
        learn(OneTask(Rows.of(wide), rng.standard_normal((300, 1))), fl.Ridge(1e-3), limits=few)


def test_filters_of_ones_own_are_served_by_the_spectrum(rng):
    class Soft(fl.Filter):
        horizon = None

        def share(self, eigenvalues):
            return np.tanh(eigenvalues)

    X, r = rng.standard_normal((10, 6)), rng.standard_normal((10, 1))
    made = learn(OneTask(Rows.of(X), r), Soft())
    assert made.solver == "svd"
    assert relative(made.change, spectral(X, r, Soft())) < 1e-12
    with pytest.raises(ValueError, match="solver='krylov' serves"):
        learn(OneTask(Rows.of(X), r), Soft(), solver="krylov")


@pytest.mark.parametrize("shape", [(5, 3), (3, 500), (700, 500), (400, 900)])
def test_norm_is_the_largest_singular_value(rng, shape):
    X = rng.standard_normal(shape)
    exact = np.linalg.norm(X, 2)
    tolerance = 1e-12 if min(shape) <= _costs.SMALL_SIDE else 2e-3
    for rows in kinds(X).values():
        assert task_norm(rows) == pytest.approx(exact, rel=2e-3 if rows.single is None else tolerance)
    assert task_norm(Rows.of(X * 1e-160)) == pytest.approx(exact * 1e-160, rel=tolerance)
    assert task_norm(Rows.of(X * 1e160)) == pytest.approx(exact * 1e160, rel=tolerance)


def test_choice_follows_the_costs(rng):
    def chosen(shape, strength, memory=2**31):
        rows = Rows.of(np.broadcast_to(np.ones(1), shape))
        task = OneTask(rows, np.ones((shape[0], 1)), norm=1.0)
        return _costs.choose(task, fl.Ridge(strength), Limits(memory=memory))

    assert chosen((50_000, 500), 5.9) == "krylov"
    assert chosen((50_000, 500), 1e-6) == "gram"
    assert chosen((50, 10_000), 1e3) == "gram"
    assert chosen((3000, 3000), 1e-6) == "krylov"  # tried, and given up if it is slow
    assert chosen((3000, 3000), 1e-6, memory=10**6) == "krylov"
    assert chosen((3000, 3000), 0.0) == "svd"


def test_a_slow_iteration_is_given_up_after_three_passes(rng, monkeypatch):
    X, r = rng.standard_normal((600, 500)), rng.standard_normal((600, 1))
    monkeypatch.setattr(_costs, "TRIAL", 1)
    quick = learn(OneTask(Rows.of(X), r), fl.Ridge(5 * np.linalg.norm(X, 2) ** 2))
    assert (quick.solver, quick.passes < 10) == ("krylov", True)
    slow = X * np.logspace(0, -3, 500)
    passes = []
    monkeypatch.setattr(Rows, "forward", lambda self, V: passes.append(1) or self.single @ V)
    made = learn(OneTask(Rows.of(slow), r), fl.Ridge(1e-4 * np.linalg.norm(slow, 2) ** 2))
    assert made.solver == "gram"
    assert len(passes) <= 4
    assert relative(made.change, spectral(slow, r, fl.Ridge(1e-4 * np.linalg.norm(slow, 2) ** 2))) < 1e-8


def test_float32_rows_keep_their_accuracy(rng):
    X, r = rng.standard_normal((300, 250)), rng.standard_normal((300, 1))
    for filter_ in (fl.Ridge(500.0), fl.GradientDescent(30, 1e-4)):
        exact = learn(OneTask(Rows.of(X), r), filter_).change
        for solver in ("gram", "krylov"):
            made = learn(OneTask(Rows.of(X.astype(np.float32)), r.astype(np.float32)), filter_, solver=solver)
            assert relative(made.change, exact) < 2e-5


def test_step_of_a_pair_is_the_step_of_the_task(rng):
    X, y, w = rng.standard_normal((9, 5)), rng.standard_normal((9, 2)), rng.standard_normal((5, 2))
    task = fl.TaskCollection([(X, y)])[0]
    for filter_ in (fl.Ridge(0.3), fl.GradientDescent(12, 0.02), fl.Projection()):
        expected = fl.step(w, task, filter_)
        np.testing.assert_allclose(fl.step(w, (X, y), filter_), expected, rtol=1e-10)
        np.testing.assert_allclose(fl.step(w, (sparse.csr_array(X), y), filter_), expected, rtol=1e-10)
    np.testing.assert_array_equal(fl.step(w, (sparse.csr_array(X.shape), y), fl.Ridge(1.0)), w)
    with pytest.raises(ValueError, match="must fit together"):
        fl.step(w, (X, y[:, 0]), fl.Ridge(1.0))
    with pytest.raises(TypeError, match="single step"):
        fl.step(w, (X, y), fl.Ridge([1.0, 2.0]))
    with pytest.raises(ValueError, match="NaN"):
        fl.step(w, (sparse.csr_array(X * np.nan), y), fl.Ridge(1.0))


def test_a_residual_of_zero_changes_nothing(rng):
    made = learn(OneTask(Rows.of(rng.standard_normal((4, 3))), np.zeros((4, 1))), fl.Ridge(1.0))
    assert not made.change.any()
    assert made.passes == 0
    r = rng.standard_normal((4, 2))
    made = learn(OneTask(Rows.of(sparse.csr_array((4, 3))), r), fl.Ridge(1.0))
    assert not made.change.any()
    np.testing.assert_allclose(made.after, np.sum(r**2, axis=0))


def test_one_exhausted_column_does_not_disturb_another(rng):
    X = rng.standard_normal((300, 260))
    r = np.stack([X @ rng.standard_normal(260), np.zeros(300)], axis=1)
    for filter_ in (fl.Ridge(700.0), fl.GradientDescent(30, 1e-3)):
        made = learn(OneTask(Rows.of(X), r), filter_, solver="krylov")
        assert relative(made.change, spectral(X, r, filter_)) < 1e-9
        assert not made.change[:, 1].any()


def test_bidiagonalisation_is_orthonormal(rng):
    X, r = rng.standard_normal((60, 50)), rng.standard_normal((60, 1))
    links = itertools.islice(_krylov.bidiagonalise(OneTask(Rows.of(X), r, X.T @ r)), 12)
    V = np.concatenate([link.v for link in links], axis=1)
    np.testing.assert_allclose(V.T @ V, np.eye(12), atol=1e-10)


def test_products_are_split_without_rounding(rng):
    """Exact rationals: a product and its error together are the product."""
    a, b = rng.standard_normal((2, 200)) * 10.0 ** rng.uniform(-9, 9, (2, 200))
    for x, y, product, error in zip(a, b, *_direct._two_product(a, b), strict=True):
        assert Fraction(product) + Fraction(error) == Fraction(x) * Fraction(y)
    assert _direct._two_product(a, b)[0].tolist() == (a * b).tolist()


@pytest.mark.parametrize("weakest", [1 / 20, 1 / 2000])
@pytest.mark.parametrize("shape", [(60, 30), (30, 60)])
def test_rounding_of_single_precision_targets_is_stated(shape, weakest, rng):
    """r along the strongest direction: its rounding along the weakest is magnified; with and without refinement."""
    U, _, V = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
    X = ((U * np.geomspace(1, weakest, 30)) @ V).astype(np.float32)
    r = U[:, :1]
    exact = spectral(X.astype(np.float64), r, fl.Ridge(1e-9))
    made = learn(OneTask(Rows.of(X), r.astype(np.float32)), fl.Ridge(1e-9), solver="gram")
    true = np.linalg.norm(made.change - exact) / np.linalg.norm(exact)
    assert 2e-9 / weakest < true < made.error < 1e-5 / weakest


@pytest.mark.parametrize("n_steps", [1, 2, 3, 40])
def test_sums_over_inner_steps_against_exact_rationals(n_steps):
    """Gains (1 − (1−γθ)^i)/θ and their sum over i < N, for γθ from 0 over rounding to beyond 1."""
    step_size = 0.25
    theta = np.array([0.0, 1e-12, 1e-7, 2e-6, 1e-3, 1.0, 3.0, 4.0, 7.0])
    gain, summed = _krylov._gains(theta, n_steps, step_size)
    for at, found, total in zip(theta, gain, summed, strict=True):
        x = Fraction(at)
        each = [(1 - (1 - x / 4) ** i) / x if x else Fraction(i, 4) for i in range(n_steps + 1)]
        assert found == pytest.approx(float(each[-1]), rel=1e-12)
        assert total == pytest.approx(float(sum(each[:-1])), rel=1e-5)


@pytest.mark.parametrize("shown", [1, 2, 10])
def test_inner_steps_beyond_those_summed_one_by_one_are_bounded(shown, rng, monkeypatch):
    """γR² = 1.5: the bound holds however few of the defects are added up, and is not much larger for it."""
    X, r = rng.standard_normal((60, 40)), rng.standard_normal((60, 1))
    filter_ = fl.GradientDescent(60, 1.5 / np.linalg.norm(X, 2) ** 2)
    exact = literal.descent_step(np.zeros((40, 1)), X, r, filter_.n_steps, filter_.step_size)
    for tol in (1e-1, 1e-3, 1e-6):
        full = learn(OneTask(Rows.of(X), r), filter_, solver="krylov", limits=Limits(tol))
        with monkeypatch.context() as patch:
            patch.setattr(_krylov, "OVERSHOOTS", shown)
            made = learn(OneTask(Rows.of(X), r), filter_, solver="krylov", limits=Limits(tol))
        true = np.linalg.norm(made.change - exact) / np.linalg.norm(exact)
        assert true <= made.error <= tol + 1e-12
        assert full.passes <= made.passes <= full.passes + 8


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csc_array, lambda X: sparse.bsr_array(X, blocksize=(2, 3))])
@pytest.mark.parametrize("shape", [(4, 9), (12, 6)])
def test_indices_up_to_the_last_are_inside_a_sparse_matrix_and_no_others(kind, shape):
    X = kind(np.ones(shape))
    assert check_sparse(X) is X
    for wrong in (X.indices.max() + 1, -1):
        X = kind(np.ones(shape))
        X.indices[-1] = wrong
        with pytest.raises(ValueError, match=r"indices of a sparse X must be in \[0, "):
            check_sparse(X)


def test_a_sample_takes_lines_of_the_longer_side(rng):
    X = rng.standard_normal((64, 40))
    for part, expected in (
        (Rows.of(X).sample(0.25), X[::4]),
        (Rows.of(X.T).sample(0.25), X.T[:, ::4]),
        (Rows.of(X).sample(0.5), X[::2]),
        (Rows.of(X).sample(0.01), X[::4]),  # at least sixteen lines
    ):
        np.testing.assert_array_equal(part[0], expected)
        assert part[1] == expected.size / X.size
    part, share = Rows.of(sparse.csr_array(X.T)).sample(0.25)
    np.testing.assert_array_equal(part.toarray(), X.T[::4])
    assert share == 0.25


def test_residuals_of_a_solution_are_exact_to_the_last_digits(rng):
    """What is left after a step is 1e-16 of its terms, and comes out with all its digits: against exact rationals."""
    X, r = rng.standard_normal((7, 4)), rng.standard_normal((7, 1))
    x = spectral(X, r, fl.Ridge(0.3))
    A, b, w = ([[Fraction(v) for v in row] for row in each.tolist()] for each in (X, r, x))
    left = [b[i][0] - sum(A[i][j] * w[j][0] for j in range(4)) for i in range(7)]
    expected = [sum(A[i][j] * left[i] for i in range(7)) - Fraction(0.3) * w[j][0] for j in range(4)]
    found = _direct._exact_residual(X, r, x, 0.3)
    assert np.abs(found).max() < 1e-13
    np.testing.assert_allclose(found[:, 0], [float(each) for each in expected], rtol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_iteration_without_regularization_stops_alike_in_any_units(noise, rng):
    """At Xδ = r, or at Xᵀ(r − Xδ) = 0 where no δ fits."""
    X = rng.standard_normal((60, 20))
    r = X @ rng.standard_normal((20, 1)) + noise * rng.standard_normal((60, 1))
    one = learn(OneTask(Rows.of(X), r), fl.Projection(), solver="krylov")
    assert relative(one.change, np.linalg.lstsq(X, r)[0]) < 1e-8
    assert one.passes < 60
    for a, b in ((2.0**12, 1.0), (2.0**-9, 2.0**7)):
        made = learn(OneTask(Rows.of(a * X), b * r), fl.Projection(), solver="krylov")
        assert made.passes == one.passes
        np.testing.assert_allclose(made.change, b / a * one.change, rtol=1e-9)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_norms_of_large_tasks_in_any_units(unit, rng):
    """No gap at the top of the spectrum, and more lines than passes."""
    X = unit * rng.standard_normal((130, 110))
    assert _krylov.norm(Rows.of(X)) == pytest.approx(np.linalg.norm(X, 2), rel=2e-3)
