"""Exact expectations against enumeration of every order, with Gaussian algebra for noise and walks."""

import numpy as np
import pytest

import forgetless as fl
from support import literal
from support.agreement import LAWS, METRICS, NAMES, agree, expected, expected_on, orders_of
from support.collections import FAMILIES, SMALL, random_pairs


def problem(rng, k, **options):
    """Three tasks seen from a random start, and strengths of k steps."""
    pairs = random_pairs(rng, **{**options, "M": 3})
    start = rng.standard_normal((pairs[0][0].shape[1], *pairs[0][1].shape[1:]))
    return pairs, start, fl.TaskCollection(pairs).shifted(start), fl.Ridge(rng.uniform(0.05, 2.0, k))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("law", LAWS)
def test_every_metric(family, law, rng):
    """Also the loss on the next task, and on tasks that are not learned, in and outside the span of those that are."""
    (ordering, k), options = LAWS[law], FAMILIES[family]
    pairs, start, tasks, filter_ = problem(rng, k, **options)
    others = random_pairs(rng, **{**options, "rows": (2, 16), "realizable": False})
    given = fl.metrics.loss_on(fl.TaskCollection(others).shifted(start))
    ending = law == "an epoch"  # after which there is no next task
    names = (*NAMES, given, *([] if ending else ["next_loss"]))
    found = fl.expect(tasks, filter_, k, ordering=ordering, metrics=names)
    agree(found, expected(pairs, filter_, orders_of(ordering, 3, k), start), rel=1e-10)
    truth = expected_on(lambda order: (order, others), pairs, filter_, orders_of(ordering, 3, k), start)
    assert found.values["loss_on"][0] == pytest.approx(truth, rel=1e-11)
    if not ending:
        longer = orders_of(ordering, 3, k + 1)
        truth = expected_on(lambda order: (order[:-1], [pairs[order[-1]]]), pairs, filter_, longer, start)
        assert found.next_loss[0] == pytest.approx(truth, rel=1e-10)
        assert found.errors["next_loss"] < 1e-8


@pytest.mark.parametrize("options", [{}, {"targets": 2}, {"targets": 2, "realizable": False}], ids=str)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("r", [0, 1, 1.5, 2])
def test_averages_of_iterates(r, law, options, rng):
    ordering, k = LAWS[law]
    pairs, start, tasks, filter_ = problem(rng, k, **options)
    found = fl.expect(tasks, filter_, k, ordering=ordering, average=r, metrics=METRICS)
    agree(found, expected(pairs, filter_, orders_of(ordering, 3, k), start, average=r), METRICS, rel=1e-10)
    both = [fl.expect(tasks, filter_, k, ordering=ordering, average=each, record=[0, 1]) for each in (r, None)]
    np.testing.assert_allclose(both[0].average_loss, both[1].average_loss, rtol=1e-12)


@pytest.mark.parametrize("options", SMALL, ids=str)
@pytest.mark.parametrize(("noise", "walk"), [(0.3, 0.0), (0.0, 0.4), (0.5, 0.2)])
@pytest.mark.parametrize("law", ["uniform", "draws"])
def test_noise_and_walks(options, noise, walk, law, rng):
    ordering, k = LAWS[law][0], 3
    pairs, start, tasks, _ = problem(rng, k, **options)
    filters = [fl.Ridge(rng.uniform(0.1, 2.0, k)), fl.GradientDescent(2, 0.3 / tasks.radius**2), fl.Projection()]
    filter_, moved = filters[int(rng.integers(3))], fl.TaskCollection(pairs, noise=noise, walk=walk).shifted(start)
    names = [each for each in NAMES if not (walk and "drift" in each)]  # which a moving teacher does not have
    found = fl.expect(moved, filter_, k, ordering=ordering, metrics=(*names, "next_loss"))
    truth = expected(pairs, filter_, orders_of(ordering, 3, k), start, noise=noise, walk=walk)
    agree(found, truth, names, rel=1e-10)
    chances = np.array(ordering.probabilities or [1 / 3] * 3)
    assert found.next_loss[0] == pytest.approx(chances @ truth["task_losses"], rel=1e-10)
    assert max(found.errors.values()) < 1e-8
    alone = fl.expect(moved, filter_, k, ordering=ordering)
    assert alone.average_loss[0] == pytest.approx(truth["average_loss"], rel=1e-11)


def test_noise_and_walks_of_weak_tasks_far_from_their_joint_solution(rng):
    """Where terms cancel around the joint solution, the state consists of outputs."""
    pairs = [(np.array([[1, 0.7]]), np.array([1.0])), (np.array([[3e-5, -1e-4]]), np.array([1.0]))]
    names, filter_ = ("average_loss", "seen_loss", "distance"), fl.Ridge(0.5)
    found = fl.expect(fl.TaskCollection(pairs, noise=0.1, walk=0.3), filter_, 3, metrics=names)
    truth = expected(pairs, filter_, literal.all_orderings(2, 3), np.zeros(2), noise=0.1, walk=0.3)
    agree(found, truth, names, rel=1e-9)
