"""One step computed plainly: from a spectrum, or in fifty digits; and the tasks to try it on."""

import mpmath
import numpy as np
from scipy import sparse

from forgetless.solvers import one_task
from forgetless.solvers.rows import Limits, OneTask, Rows


def spectral(X, r, filter_):
    """The step from a plain SVD."""
    U, s, V = np.linalg.svd(X, full_matrices=False)
    share = filter_.table(s**2)[0]
    return V.T @ ((share / s)[:, None] * (U.T @ r))


def relative(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


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


def learn_by(solver, X, r, filter_):
    """The step by the solver that fits ("auto"), by products alone ("iterative"), or by a spectrum ("svd")."""
    task = OneTask(Rows.of(X), r, X.T @ r)
    if solver == "svd":
        return one_task._by_spectrum(task, filter_, 2**31)
    return one_task.learn(task, filter_, Limits(memory=0) if solver == "iterative" else Limits())
