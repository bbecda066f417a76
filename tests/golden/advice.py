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
        for end, options in (("", {}), ("/monotone", {"monotone": True}), ("/worst_case", {"objective": "worst_case"})):
            yield f"optimal_schedule/{label}{end}", fl.optimal_schedule(collection, 6, **options).loss
