"""One policy for the threads of BLAS: few for small products, all for long ones."""

import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401
import threadpoolctl

import forgetless as fl

TASKS = fl.TaskCollection([(np.eye(4)[t : t + 2], np.ones(2)) for t in range(3)])
CALLS = {
    "expect": lambda tasks, schedule: fl.expect(tasks, schedule, 5),
    "worst_case": lambda tasks, schedule: fl.worst_case(tasks, schedule, 5),
    "loss_gradient": lambda tasks, schedule: fl.loss_gradient(tasks, schedule, 5),
    "compare_bounds": lambda tasks, schedule: fl.compare_bounds(tasks, schedule, 5),
    "advise": lambda tasks, schedule: fl.advise(tasks, 5, also={"own": schedule}),
    "upper_bound": lambda tasks, schedule: fl.upper_bound(schedule, 5),
}


@pytest.mark.parametrize("name", CALLS)
def test_engines_keep_every_blas_to_one_thread(name):
    """Called from inside, a schedule sees one thread of NumPy's BLAS and of SciPy's; afterwards all is as before."""
    seen = []

    def schedule(k, radius):
        info = threadpoolctl.threadpool_info()
        seen.extend(each["num_threads"] for each in info if each["user_api"] == "blas")
        return fl.Ridge(radius * np.arange(1.0, k + 1))

    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        at_most = [each["num_threads"] for each in threadpoolctl.threadpool_info()]
        CALLS[name](TASKS, schedule)
        assert [each["num_threads"] for each in threadpoolctl.threadpool_info()] == at_most
    assert seen
    assert set(seen) == {1}


def test_the_threads_of_blas_are_as_before_whoever_leaves_first():
    """Another thread enters while the first is inside, and stays when that has left."""
    entered, leave = threading.Event(), threading.Event()

    def waits(k, radius):
        entered.set()
        leave.wait(120)
        return fl.Ridge(1.0)

    def starts_the_other(k, radius):
        if not other.is_alive():
            other.start()
        entered.wait(120)
        return fl.Ridge(1.0)

    other = threading.Thread(target=fl.expect, args=(TASKS, waits, 5))
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        at_most = [each["num_threads"] for each in threadpoolctl.threadpool_info()]
        fl.expect(TASKS, starts_the_other, 5)
        leave.set()
        other.join()
        assert [each["num_threads"] for each in threadpoolctl.threadpool_info()] == at_most
