"""What does not fit into memory is refused before it is tried."""

import numpy as np
import pytest

import forgetless as fl
from forgetless._validate import check_memory

GiB = 2**30


def test_a_refusal_says_how_much_and_what_to_do():
    check_memory(3 * GiB / 8, "this", "do less", 3 * GiB)
    with pytest.raises(MemoryError, match=r"^this needs 3\.01 GiB, of which 3 GiB may be used here; do less$"):
        check_memory(3.01 * GiB / 8, "this", "do less", 3 * GiB)
    with pytest.raises(MemoryError, match="needs"):
        check_memory(float("nan"), "this", "do less", 3 * GiB)


@pytest.mark.parametrize("call", [fl.expect, fl.worst_case])
def test_sets_of_too_many_tasks(call):
    tasks = fl.TaskCollection([(np.eye(40)[m : m + 1], [1.0]) for m in range(40)])
    with pytest.raises(MemoryError, match=r"chain of 137,846,528,820 states .* use simulate"):
        call(tasks, fl.Ridge(1.0), 20, ordering=fl.WithoutReplacement())


@pytest.mark.parametrize(
    "call",
    [
        lambda: fl.expect(fl.TaskCollection([([[1.0]], [1.0])]), fl.schedules.increasing(), 2**31),
        lambda: fl.ContinualRidge(schedule="minimax", n_tasks=2**31).partial_fit([[1.0]], [1.0]),
    ],
)
def test_schedules_of_too_many_steps(call):
    with pytest.raises(MemoryError, match=r"a schedule of 2,147,483,648 strengths needs 16 GiB"):
        call()
