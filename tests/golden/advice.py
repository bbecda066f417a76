"""Golden numbers of the ranking of schedules, and of the best schedule for given tasks."""

import forgetless as fl
from golden.inputs import K, tasks


def numbers():
    """Yield all of them."""
    for label, collection in (("fitted", tasks()), ("noisy", tasks(noise=0.5))):
        answer = fl.advise(collection, K)
        for option in answer.options:
            yield f"advise/{label}/{option.shape}", option.loss
            yield f"advise/{label}/{option.shape}/scales", option.scales
        yield f"optimal_schedule/{label}", fl.optimal_schedule(collection, 6).loss
        best = fl.optimal_schedule(collection, 6, monotone=True)
        yield f"optimal_schedule/{label}/monotone", best.loss
        best = fl.optimal_schedule(collection, 6, objective="worst_case")
        yield f"optimal_schedule/{label}/worst_case", best.loss
