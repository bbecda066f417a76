"""Independent references: every algorithm and metric as its definition says, without spectra or batching."""

import itertools

import numpy as np


def ridge_step(w, X, y, coefficient):
    """Normal equations of ½‖Xw − y‖² + (λ/2)‖w − w_prev‖²."""
    d = X.shape[1]
    return np.linalg.solve(X.T @ X + coefficient * np.eye(d), X.T @ y + coefficient * w)


def projection_step(w, X, y):
    return w - np.linalg.pinv(X, rcond=1e-12) @ (X @ w - y)


def descent_step(w, X, y, n_steps, step_size):
    """N literal gradient steps."""
    for _ in range(n_steps):
        w = w - step_size * X.T @ (X @ w - y)
    return w


def surrogate_step(w, X, y, share, step_size):
    """One gradient step on ½‖√A(w − X⁺y)‖², A = φ(XᵀX)/η, with the square root formed as a matrix."""
    eigenvalues, vectors = np.linalg.eigh(X.T @ X)
    eigenvalues = np.where(eigenvalues > 1e-12 * max(eigenvalues.max(), 1e-300), eigenvalues, 0)
    root = (vectors * np.sqrt(share(eigenvalues) / step_size)) @ vectors.T
    return w - step_size * root.T @ (root @ (w - np.linalg.pinv(X, rcond=1e-12) @ y))


def applied(filter_, H):
    """φ(H) of one step, by dense eigendecompositions of a matrix or a stack of them."""
    xi, V = np.linalg.eigh(H)
    share = np.asarray(filter_.factors(np.where(xi > 1e-12, xi, 0.0)))
    return (V * share[..., None, :]) @ np.swapaxes(V, -1, -2)


def step_of(filter_):
    """The literal algorithm of a filter, as a function of (w, X, y, t)."""

    def step(w, X, y, t):
        now = filter_[t - 1]
        if getattr(now, "coefficient", 0) > 0:
            return ridge_step(w, X, y, now.coefficient)
        if hasattr(now, "n_steps"):
            return descent_step(w, X, y, now.n_steps, now.step_size)
        return projection_step(w, X, y)

    return step


def run(pairs, indices, step, start):
    """Weights after each step; ``step(w, X, y, t)`` makes one, t from 1."""
    w, path = start, []
    for t, m in enumerate(indices, start=1):
        w = step(w, *pairs[m], t)
        path.append(w)
    return np.array(path)


def averages(path, r):
    """The averages of the weights so far, with weights t^r, after each step."""
    weights = np.arange(1.0, len(path) + 1) ** r
    return np.array([np.average(path[:t], axis=0, weights=weights[:t]) for t in range(1, len(path) + 1)])


def loss(w, X, y):
    return 0.5 * np.sum((X @ w - y) ** 2)


def metrics(pairs, indices, path):
    """The four metrics after the last step, from the weights after each step."""
    last = path[-1]
    seen = np.mean([loss(last, *pairs[m]) for m in indices])
    then = np.mean([loss(w, *pairs[m]) for w, m in zip(path, indices, strict=True)])
    drift = np.mean([np.sum((pairs[m][0] @ (last - w)) ** 2) for w, m in zip(path, indices, strict=True)])
    average = np.mean([loss(last, *pair) for pair in pairs])
    return {"average_loss": average, "seen_loss": seen, "forgetting": seen - then, "drift": drift}


def all_orderings(n_tasks, k, probabilities=None, *, replacement=True):
    """Every ordering of k steps with its probability."""
    if replacement:
        p = np.full(n_tasks, 1 / n_tasks) if probabilities is None else np.asarray(probabilities)
        for order in itertools.product(range(n_tasks), repeat=k):
            yield order, float(np.prod(p[list(order)]))
    else:
        orders = list(itertools.permutations(range(n_tasks), k))
        yield from ((order, 1 / len(orders)) for order in orders)
