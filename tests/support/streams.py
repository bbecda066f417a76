"""Streams of tasks for the tests of estimators."""


def stream(rng, n_tasks=6, n=5, d=8, targets=(), noise=0.1):
    teacher = rng.standard_normal((d, *targets))
    for _ in range(n_tasks):
        X = rng.standard_normal((n, d))
        yield X, X @ teacher + noise * rng.standard_normal((n, *targets))


def learned(model, tasks):
    for X, y in tasks:
        model.partial_fit(X, y)
    return model
