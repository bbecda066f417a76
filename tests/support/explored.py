"""Random problems for the explorer's engine, as plain data, with what Python says of each."""

import itertools

import numpy as np

import forgetless as fl

SCHEMES = ("ridge", "size", "budget")
METRICS = ("average_loss", "seen_loss", "forgetting")


def random_tasks(rng, few=False):
    """One to ten tasks of one to twelve features, of any ranks and norms, with or without noise and copies."""
    d, n_tasks = int(rng.integers(1, 13)), int(rng.integers(2, 4) if few else rng.integers(1, 11))
    w, noise = rng.standard_normal(d), 0.3 if few else float(rng.choice([0.0, 0.3]))
    pairs, counts = [], []
    weak = not few and rng.random() < 0.15  # near-duplicate columns: the joint solution is far away
    for _ in range(n_tasks):
        X = rng.standard_normal((int(rng.integers(1, 16)), d)) * 10.0 ** rng.uniform(-1, 1)
        if weak and d > 1:
            X[:, -1] = X[:, 0] + 1e-5 * X[:, -1]
        if rng.random() < 0.1:
            X = X[:, :1] @ X[:1, :]  # of rank one, whatever its rows
        y = X @ w + noise * rng.standard_normal(len(X))
        pairs.append((X, rng.standard_normal(len(X)) if weak else y))
        counts.append(1 if few else int(rng.choice([1, 1, 1, 3])))
    return pairs, counts


def random_case(rng, number, few=False):
    """A whole problem: tasks, scheme, order, metric; every kind comes in turn. ``few`` can be enumerated."""
    pairs, counts = random_tasks(rng, few)
    scheme = SCHEMES[number % 3]
    kind = ("with", "cyclic", "one")[(number // 3) % 3]
    k = int(np.exp(rng.uniform(0, np.log(400 if kind == "with" else 60))))
    k = 2 + k % (5 if kind == "with" else 20) if few else k  # of one step nothing is forgotten
    metric = METRICS[(number // 9) % 3]
    square = fl.TaskCollection(pairs).radius ** 2
    if scheme == "ridge":
        values, other = square * 10.0 ** rng.uniform(-4, 2, k), None
        # A task that determines all, once solved exactly, leaves nothing of the loss, and nothing to compare.
        if not few and max(np.linalg.matrix_rank(X) for X, _ in pairs) < pairs[0][0].shape[1]:
            values *= rng.random(k) > 0.05
    elif scheme == "size":
        values, other = 10.0 ** rng.uniform(-3, 0, k) / square, int(rng.integers(1, 9))
    else:
        values, other = rng.integers(1, 40, k).astype(float), float(10.0 ** rng.uniform(-2, -0.01) / square)
    n_copies = sum(counts)
    order = {"with": None, "cyclic": np.arange(n_copies), "one": rng.integers(0, n_copies, k)}[kind]
    return {
        "tasks": [{"X": X.tolist(), "y": y.tolist(), "count": c} for (X, y), c in zip(pairs, counts, strict=True)],
        "d": pairs[0][0].shape[1],
        "k": k,
        "scheme": scheme,
        "values": values.tolist(),
        "other": other,
        "order": None if order is None else order.tolist(),
        "metric": metric,
    }


def in_python(case):
    """The tasks, filter and ordering of a case; copies of a task are tasks of their own."""
    pairs = [(np.array(task["X"]), np.array(task["y"])) for task in case["tasks"] for _ in range(task.get("count", 1))]
    values = np.array(case["values"])
    if case["scheme"] == "ridge":
        filter_ = fl.Ridge(values)
    elif case["scheme"] == "size":
        filter_ = fl.GradientDescent(case["other"], values)
    else:
        filter_ = fl.GradientDescent(values.astype(int), case["other"])
    order = case["order"]
    ordering = fl.WithReplacement() if order is None else fl.FixedOrder(np.resize(order, case["k"]))
    return fl.TaskCollection(pairs), filter_, ordering


def expected(case):
    """The curve after 0..k steps, and a bound of its own relative error."""
    tasks, filter_, ordering = in_python(case)
    found = fl.expect(
        tasks, filter_, case["k"], ordering=ordering, metrics=case["metric"], record=np.arange(case["k"] + 1)
    )
    return np.asarray(found.values[case["metric"]]), found.errors[case["metric"]]


def slopes(case, step=1e-30):
    """∂loss/∂values_t by the definition: every order enumerated, every parameter moved by an imaginary amount."""
    tasks, _, _ = in_python(case)
    k, n_tasks = case["k"], tasks.n_tasks
    orders = [np.resize(case["order"], k)] if case["order"] else list(itertools.product(range(n_tasks), repeat=k))
    found = np.zeros(k)
    for t in range(k):
        values = np.array(case["values"], dtype=complex)
        values[t] += 1j * step
        found[t] = sum(_loss(tasks, case, values, order).imag for order in orders) / step / len(orders)
    return found


def _share(case, value, s):
    if case["scheme"] == "ridge":
        return 1 / (1 + value / s / s)
    size, count = (value, case["other"]) if case["scheme"] == "size" else (case["other"], value)
    return 1 - (1 - size * s * s) ** count


def _loss(tasks, case, values, order):
    w, after = np.zeros(tasks.n_features, dtype=complex), []
    for t, m in enumerate(order):
        V, s = tasks[m].singular_vectors, tasks[m].singular_values
        w = w - V.T @ (_share(case, values[t], s) * (V @ w - tasks[m].targets))
        after.append(w)
    final = [_task_loss(task, w) for task in tasks]
    if case["metric"] == "average_loss":
        return sum(final) / tasks.n_tasks
    seen = sum(final[m] for m in order) / len(order)
    if case["metric"] == "seen_loss":
        return seen
    return seen - sum(_task_loss(tasks[m], w) for m, w in zip(order, after, strict=True)) / len(order)


def _task_loss(task, w):
    """½‖Xw − y‖² as an analytic function of w: no conjugates."""
    gap = task.X @ w - task.y
    return 0.5 * np.sum(gap * gap)
