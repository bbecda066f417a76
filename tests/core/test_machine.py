"""What does not fit into memory is refused before it is made."""

import pytest

import forgetless as fl
from forgetless._core.validate import check_memory, readable

GiB = 2**30
TASKS = fl.TaskCollection([([[1.0, 0.0]], [1.0]), ([[0.8, 0.6]], [1.4])])


def test_a_refusal_says_how_much_and_what_to_do():
    check_memory(3 * GiB / 8, "this", "do less", 3 * GiB)
    with pytest.raises(MemoryError, match=r"^this needs 3\.01 GiB, of which 3 GiB may be used here; do less$"):
        check_memory(3.01 * GiB / 8, "this", "do less", 3 * GiB)
    with pytest.raises(MemoryError, match="needs"):
        check_memory(float("nan"), "this", "do less")
    assert [readable(n) for n in (12, 2048, 3.5 * 2**20, 44703 * GiB)] == ["12 bytes", "2 KiB", "3.5 MiB", "44,703 GiB"]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: fl.expect(TASKS, fl.schedules.increasing(), 10**9), "a schedule of 1,000,000,000 strengths"),
        (lambda: fl.compare_bounds(TASKS, fl.schedules.increasing(), 10**9), "a schedule of"),
        (lambda: fl.advise(TASKS, 10**9), "a schedule of"),
        (lambda: fl.expect(TASKS, fl.Ridge(1.0), 10**9, record="all"), "a curve of 1,000,000,000 steps"),
        (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 10, n_trials=10**10), "the state of 10,000,000,000 trials"),
        (lambda: fl.simulate(TASKS, fl.Ridge(1.0), 10**5, n_trials=10**5, record="all"), "metrics of 100,000"),
    ],
)
def test_what_does_not_fit_is_refused_before_it_is_made(call, what):
    with pytest.raises(MemoryError, match=what):
        call()
