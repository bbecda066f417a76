"""Golden numbers of exact expectations and of simulation.

``tests/lab`` compares them with literal algorithms and with enumeration. What these cannot see is guarded here: a seed
means the same runs for ever, and the compiled loops compute what the same loops do in Python.
"""

import forgetless as fl
from golden.inputs import FEW, N_TASKS, ORDERINGS, SCHEDULES, K, tasks, two_targets

METRICS = ("average_loss", "seen_loss", "forgetting", "drift", "next_loss", "distance", "weights")
METRICS += ("task_losses", "task_forgetting", "task_drift")
TRIALS = {"n_trials": 2, "seed": 5, "record": "last"}


def numbers():
    """Yield all of them."""
    collection = tasks(noise=0.5)
    moving = fl.TaskCollection(collection, noise=0.3, walk=0.2)
    for name, ordering in ORDERINGS.items():
        # The next loss needs one task more than there are steps.
        k = N_TASKS - 1 if name == "without-replacement" else K - 1
        for schedule in FEW:
            yield from both(f"metrics/{name}/{schedule}", collection, SCHEDULES[schedule], k, ordering=ordering)
        options = {"metrics": "average_loss", "ordering": ordering, "average": 2.0}
        yield from both(f"average-2/{name}", collection, "increasing", k, **options)
        trace = fl.simulate(moving, "increasing", k, ordering=ordering, **TRIALS)
        for metric, curve in trace.values.items():
            yield f"simulate/walk-noise/{name}/increasing/{metric}", curve
    for name in ("with-replacement", "weighted", "reshuffling"):
        yield f"sample/{name}", ORDERINGS[name].sample(N_TASKS, 10_000, seed=5)[::99]
    for schedule in FEW:
        yield from both(f"two-targets/{schedule}", two_targets(), SCHEDULES[schedule], K)
    for schedule, value in SCHEDULES.items():
        yield f"expect/noisy/with-replacement/{schedule}", fl.expect(collection, value, K).average_loss
        yield f"worst_case/noisy/with-replacement/{schedule}", fl.worst_case(collection, value, K).worst_case


def both(name, collection, schedule, k, metrics=METRICS, **options):
    """Yield metrics after the last step: exact, and of two runs."""
    exact = fl.expect(collection, schedule, k, metrics=metrics, **options)
    trace = fl.simulate(collection, schedule, k, metrics=metrics, **TRIALS, **options)
    for metric in exact.values:
        yield f"expect/{name}/{metric}", exact.values[metric]
        yield f"simulate/{name}/{metric}", trace.values[metric]
