"""The literal algorithm in 60 digits: every order run on the given floats, by normal equations, without spectra."""

import mpmath
import numpy as np

DIGITS = 60


def matrix(values):
    return [[mpmath.mpf(float(x)) for x in row] for row in np.atleast_2d(np.asarray(values, float))]


def times(A, B):
    columns = list(zip(*B, strict=True))
    return [[mpmath.fdot(zip(row, column, strict=True)) for column in columns] for row in A]


def plus(A, B, factor=1):
    return [[a + factor * b for a, b in zip(x, y, strict=True)] for x, y in zip(A, B, strict=True)]


def transposed(A):
    return [list(row) for row in zip(*A, strict=True)]


def squares(A):
    return mpmath.fsum(a * a for row in A for a in row)


def step_of(filter_, X, y):
    """The step on a task (X of independent rows, y a matrix) as a function of the weights."""
    if hasattr(filter_, "n_steps"):
        size = mpmath.mpf(float(filter_.step_size))

        def descend(w):
            for _ in range(int(filter_.n_steps)):
                w = plus(w, times(transposed(X), plus(times(X, w), y, -1)), -size)
            return w

        return descend
    n = len(X)
    inner = mpmath.matrix(times(X, transposed(X)))
    strength = mpmath.mpf(float(getattr(filter_, "coefficient", 0.0)))
    inverse = (inner + strength * mpmath.eye(n)) ** -1
    gain = times(transposed(X), inverse.tolist())
    return lambda w: plus(w, times(gain, plus(times(X, w), y, -1)), -1)


def averages(path, r):
    """The averages of the weights so far, with weights t^r, after each step."""
    found, total, weight = [], None, mpmath.mpf(0)
    for t, w in enumerate(path, start=1):
        part = mpmath.mpf(t) ** mpmath.mpf(r)
        total, weight = plus(total or [[0] * len(row) for row in w], w, part), weight + part
        found.append([[x / weight for x in row] for row in total])
    return found


def expected(pairs, filter_, orders, start, average=None):
    """Expected metrics over weighted orders of k steps, as mpmath numbers."""
    with mpmath.workdps(DIGITS):
        columns = np.asarray(start, float).reshape(np.asarray(start).shape[0], -1)
        data = [(matrix(X), matrix(np.asarray(y, float).reshape(len(X), -1))) for X, y in pairs]
        steps, runs = {}, {(): (matrix(columns), ())}

        def run(order):
            """Weights after an order, and those after each step: prefixes are shared."""
            if order not in runs:
                before, path = run(order[:-1])
                key = (len(order) - 1, order[-1])
                if key not in steps:
                    steps[key] = step_of(filter_[key[0]], *data[key[1]])
                after = steps[key](before)
                runs[order] = after, (*path, after)
            return runs[order]

        def loss(w, m):
            X, y = data[m]
            return squares(plus(times(X, w), y, -1)) / 2

        totals = dict.fromkeys(("average_loss", "seen_loss", "forgetting", "drift"), mpmath.mpf(0))
        for order, probability in orders:
            order, p = tuple(int(m) for m in order), mpmath.mpf(probability)
            w, path = run(order)
            if average is not None:
                path = averages(path, average)
                w = path[-1]
            now = [loss(w, m) for m in range(len(pairs))]
            seen = mpmath.fsum(now[m] for m in order) / len(order)
            then = mpmath.fsum(loss(v, m) for v, m in zip(path, order, strict=True)) / len(order)
            moved = [squares(times(data[m][0], plus(w, v, -1))) for v, m in zip(path, order, strict=True)]
            totals["average_loss"] += p * mpmath.fsum(now) / len(pairs)
            totals["seen_loss"] += p * seen
            totals["forgetting"] += p * (seen - then)
            totals["drift"] += p * mpmath.fsum(moved) / len(order)
        return totals
