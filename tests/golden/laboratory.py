"""Golden numbers of exact expectations, of simulation and of one step."""

import numpy as np

import forgetless as fl
from golden.inputs import FEW, N_TASKS, ONE_LENGTH, ORDERINGS, SCHEDULES, K, horizon, tasks, two_targets

METRICS = ("average_loss", "seen_loss", "forgetting", "drift")
OTHER_METRICS = ("next_loss", "distance", "task_losses", "task_forgetting", "task_drift")
TRIALS = {"n_trials": 2, "seed": 5}


def numbers():
    """Yield all of them."""
    yield from every_schedule()
    yield from every_metric()
    yield from averages()
    yield from several_targets()
    yield from derivatives()
    yield from label_noise()
    yield from walking_teacher()


def both(name, collection, schedule, k, metrics, **options):
    """Yield metrics after the last step: exact, and of two runs."""
    exact = fl.expect(collection, schedule, k, metrics=metrics, **options)
    options.setdefault("record", "last")
    trace = fl.simulate(collection, schedule, k, metrics=metrics, **TRIALS, **options)
    for metric in exact.values:
        yield f"expect/{name}/{metric}", getattr(exact, metric)
        yield f"simulate/{name}/{metric}", getattr(trace, metric)


def every_schedule():
    """Yield the four metrics, the worst case and the weights for every schedule and ordering."""
    for label, collection in (("fitted", tasks()), ("noisy", tasks(noise=0.5))):
        for name, ordering in ORDERINGS.items():
            k = horizon(name)
            for schedule, value in SCHEDULES.items():
                if k != K and schedule in ONE_LENGTH:
                    continue
                record = "all" if name == "with-replacement" and label == "noisy" else "last"
                options = {"ordering": ordering, "metrics": METRICS}
                exact = fl.expect(collection, value, k, record=record, **options)
                options["metrics"] = (*METRICS, "weights")
                trace = fl.simulate(collection, value, k, record="last", **TRIALS, **options)
                for metric in METRICS:
                    yield f"expect/{label}/{name}/{schedule}/{metric}", getattr(exact, metric)
                    yield f"simulate/{label}/{name}/{schedule}/{metric}", getattr(trace, metric)
                worst = fl.worst_case(collection, value, k, ordering=ordering)
                yield f"worst_case/{label}/{name}/{schedule}", worst.worst_case
                yield f"weights/{label}/{name}/{schedule}", trace.weights[0, -1]


def every_metric():
    """Yield the other metrics, and the metrics of a given path."""
    collection = tasks(noise=0.5)
    for name, ordering in ORDERINGS.items():
        # The next loss needs one task more than there are steps.
        k = N_TASKS - 1 if name == "without-replacement" else K - 1
        for schedule in FEW:
            label = f"metrics/{name}/{schedule}"
            value = SCHEDULES[schedule]
            yield from both(label, collection, value, k, OTHER_METRICS, ordering=ordering)
    order = [0, 2, 2, 1]
    weights = np.random.default_rng(3).standard_normal((len(order), 5))
    yield "metrics/task_losses", fl.metrics.task_losses(collection, weights)
    yield "metrics/average_loss", fl.metrics.average_loss(collection, weights)
    yield "metrics/seen_loss", fl.metrics.seen_loss(collection, weights[-1], order)
    for name in ("forgetting", "drift"):
        yield f"metrics/{name}", fl.metrics.NAMED[name](collection, weights, order)
        per_task = fl.metrics.NAMED[f"task_{name}"](collection, weights, order)
        yield f"metrics/{name}/per-task", per_task


def averages():
    """Yield losses of averages of the iterates."""
    collection = tasks(noise=0.5)
    for schedule in ("fixed", *FEW):
        average = fl.expect(collection, SCHEDULES[schedule], K, average=1.0)
        yield f"expect/average/{schedule}", average.average_loss
    for ordering in ("with-replacement", "reshuffling", "without-replacement"):
        for power in (0.0, 2.0):
            yield from both(
                f"average-{power:g}/{ordering}",
                collection,
                SCHEDULES["increasing"],
                horizon(ordering),
                ("average_loss",),
                ordering=ORDERINGS[ordering],
                average=power,
            )
    options = {"ordering": "cyclic", "average": 2.0}
    yield from both("average-2/cyclic", collection, SCHEDULES["fixed"], K, METRICS, **options)
    worst = fl.worst_case(collection, SCHEDULES["increasing"], K, average=2.0)
    yield "worst_case/average-2", worst.worst_case


def several_targets():
    """Yield metrics and weights of tasks with two targets."""
    collection = two_targets()
    for schedule in FEW:
        value = SCHEDULES[schedule]
        yield from both(f"two-targets/{schedule}", collection, value, K, (*METRICS, *OTHER_METRICS))
        yield f"weights/two-targets/{schedule}", _weights(collection, value)


def _weights(collection, value):
    return fl.simulate(collection, value, K, seed=1, metrics="weights").weights


def derivatives():
    """Yield gradients of the loss, and one step."""
    collection = tasks(noise=0.5)
    for schedule in ("fixed", *FEW):
        value = SCHEDULES[schedule]
        gradient = fl.loss_gradient(collection, value, K)
        for parameter, derivative in gradient.parameters.items():
            yield f"loss_gradient/{schedule}/{parameter}", derivative
        filter_ = value[3] if isinstance(value, fl.Filter) else value(K, 2.0)[3]
        yield f"step/{schedule}", fl.step(np.ones(5), collection[0], filter_)


def label_noise():
    """Yield metrics with label noise drawn anew at every visit."""
    yield from disturbed("noise", noise=0.3)


def walking_teacher():
    """Yield metrics with a teacher that walks, and with label noise too."""
    yield from disturbed("walk", walk=0.2)
    yield from disturbed("walk-noise", walk=0.2, noise=0.3)


def disturbed(label, **options):
    """Yield metrics for independent draws, and simulated ones for other orders."""
    collection = fl.TaskCollection(tasks(noise=0.5), **options)
    metrics = ("average_loss", "next_loss", "distance", "task_losses")
    for schedule in FEW:
        value = SCHEDULES[schedule]
        for name in ("with-replacement", "weighted"):
            ordering = ORDERINGS[name]
            yield from both(f"{label}/{name}/{schedule}", collection, value, K, metrics, ordering=ordering)
        for name in ("without-replacement", "reshuffling", "cyclic"):
            k = horizon(name)
            ordering = ORDERINGS[name]
            trace = fl.simulate(collection, value, k, ordering=ordering, **TRIALS)
            for metric, curve in trace.values.items():
                yield f"simulate/{label}/{name}/{schedule}/{metric}", curve
