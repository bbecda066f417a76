"""The literal algorithm in 60 digits, on the given floats, without spectra.

Weights w of c targets are kept as U = (w; I), of shape (d + c, c): a step is one matrix, and Xw − y is (X, −y) U.
"""

import itertools
from contextlib import contextmanager

import flint
import mpmath
import numpy as np


@contextmanager
def many_digits():
    """Inside, flint keeps 60 digits."""
    before = flint.ctx.dps
    flint.ctx.dps = 60
    try:
        yield
    finally:
        flint.ctx.dps = before


def matrix(values):
    return flint.arb_mat(np.atleast_2d(np.asarray(values, float)).tolist())


def block(*rows):
    """A matrix of blocks."""
    lines = []
    for blocks in rows:
        lines += [[*itertools.chain(*parts)] for parts in zip(*(each.tolist() for each in blocks), strict=True)]
    return flint.arb_mat(lines)


def part(A, rows, columns):
    return flint.arb_mat([line[columns] for line in A.tolist()[rows]])


def number(x):
    return mpmath.mpf(x.mid().str(50, radius=False))


def squares(A):
    return sum((x * x for x in A.entries()), flint.arb(0))


def extended(start, c):
    """U of given weights."""
    return matrix(np.concatenate([np.reshape(start, (-1, c)), np.eye(c)]))


def residual(X, y):
    """(X, −y), whose product with U is what is left of the labels."""
    return matrix(np.concatenate([X, -np.reshape(y, (len(X), -1))], axis=1))


def step_of(filter_, X, y):
    """One step on a task of independent rows, as a matrix on U."""
    (n, d), c = np.shape(X), np.reshape(y, (len(X), -1)).shape[1]
    A, b, eye = matrix(X), matrix(np.reshape(y, (n, c))), matrix(np.eye(d))
    rest = [matrix(np.zeros((c, d))), matrix(np.eye(c))]
    if hasattr(filter_, "n_steps"):
        gain = A.transpose() * flint.arb(float(filter_.step_size))
        whole = once = block([eye - gain * A, gain * b], rest)
        for _ in range(int(filter_.n_steps) - 1):
            whole = once * whole
        return whole
    strength = flint.arb(float(getattr(filter_, "coefficient", 0.0)))
    gain = A.transpose() * (A * A.transpose() + matrix(np.eye(n)) * strength).inv()
    return block([eye - gain * A, gain * b], rest)


def expected(pairs, filter_, orders, start, average=None):
    """Expected metrics over weighted orders of k steps, by running every one of them; averages have weights t^r."""
    with many_digits():
        c = np.reshape(pairs[0][1], (len(pairs[0][0]), -1)).shape[1]
        left = [residual(*pair) for pair in pairs]
        steps, paths = {}, {(): (extended(start, c),)}

        def path_of(order):
            """Weights after 0..k steps: prefixes are shared."""
            if order not in paths:
                before, key = path_of(order[:-1]), (len(order) - 1, order[-1])
                if key not in steps:
                    steps[key] = step_of(filter_[key[0]], *pairs[key[1]])
                paths[order] = (*before, steps[key] * before[-1])
            return paths[order]

        totals = dict.fromkeys(("average_loss", "seen_loss", "forgetting", "drift"), flint.arb(0))
        for order, probability in orders:
            order, p = tuple(int(m) for m in order), flint.arb(float(probability))
            path = path_of(order)[1:] if average is None else averages(path_of(order)[1:], average)
            now = [squares(each * path[-1]) / 2 for each in left]
            seen = sum((now[m] for m in order), flint.arb(0)) / len(order)
            then = sum((squares(left[m] * w) / 2 for w, m in zip(path, order, strict=True)), flint.arb(0)) / len(order)
            moved = sum((squares(left[m] * (path[-1] - w)) for w, m in zip(path, order, strict=True)), flint.arb(0))
            totals["average_loss"] += p * sum(now, flint.arb(0)) / len(pairs)
            totals["seen_loss"] += p * seen
            totals["forgetting"] += p * (seen - then)
            totals["drift"] += p * moved / len(order)
        return {name: number(value) for name, value in totals.items()}


def averages(path, r):
    """The averages of the weights so far, with weights t^r, after each step."""
    found, total, weight = [], path[0] * flint.arb(0), flint.arb(0)
    for t, w in enumerate(path, start=1):
        share = flint.arb(t) ** flint.arb(r)
        total, weight = total + w * share, weight + share
        found.append(total * (1 / weight))
    return found


def loss_of_draws(pairs, filter_, probabilities, start, k, *, average=None, noise=0.0, walk=0.0):
    """The average loss after k draws, from E[UUᵀ]: for k beyond enumeration.

    The state of an average is (U; Ū). Weights are relative to the teacher, so that its walk moves them.
    """
    with many_digits():
        (d, c), p = (pairs[0][0].shape[1], np.reshape(pairs[0][1], (len(pairs[0][0]), -1)).shape[1]), probabilities
        U, n, weight = extended(start, c), d + c, flint.arb(0)
        U = U if average is None else block([U], [U])
        S, eye, zero = U * U.transpose(), matrix(np.eye(n)), matrix(np.zeros((n, n)))
        # The walk has the same variance in all entries of the teacher.
        wandered = matrix(np.pad(np.eye(d), (0, U.nrows() - d))) * (flint.arb(walk) ** 2 / d)
        for t in range(k):
            S, new = S + wandered * min(t, 1), S * 0
            weight += flint.arb(t + 1) ** flint.arb(average or 0)
            share = flint.arb(t + 1) ** flint.arb(average or 0) / weight
            for chance, (X, y) in zip(p, pairs, strict=True):
                A = step_of(filter_[t], X, y)
                A = A if average is None else block([A, zero], [A * share, eye * (1 - share)])
                new += A * S * A.transpose() * flint.arb(float(chance))
                if noise:
                    gain = part(step_of(filter_[t], X, np.eye(len(X))), slice(d), slice(d, None))
                    gain = block([gain], [matrix(np.zeros((U.nrows() - d, len(X))))])
                    new += gain * gain.transpose() * (flint.arb(noise) ** 2 * c * flint.arb(float(chance)))
            S = new
        last = part(S, slice(-n, None), slice(-n, None))
        left = [residual(*pair) for pair in pairs]
        return number(sum(((each * last * each.transpose()).trace() for each in left), flint.arb(0)) / 2 / len(pairs))


def worst_loss(pairs, filter_, k):
    """The average loss of the worst teacher after k uniform draws, from the form carried backwards."""
    with many_digits():
        d, share = pairs[0][0].shape[1], flint.arb(1) / len(pairs)
        data = [matrix(X) for X, _ in pairs]
        V = sum((X.transpose() * X for X in data), matrix(np.zeros((d, d)))) * share
        for t in reversed(range(k)):
            kept = [part(step_of(filter_[t], X, y), slice(d), slice(d)) for X, y in pairs]
            V = sum((A.transpose() * V * A for A in kept), matrix(np.zeros((d, d)))) * share
        form = mpmath.matrix([[number(x) for x in row] for row in V.tolist()])
    with mpmath.workdps(50):
        return max(mpmath.eigsy(form, eigvals_only=True)) / 2
