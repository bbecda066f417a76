"""Advice: its numbers against one evaluation at a time, its choice against fine grids, its words against the facts."""

import itertools
import json

import numpy as np
import pytest

import forgetless as fl
from forgetless.advice import _ranking
from forgetless.advice._losses import Losses
from forgetless.advice._shapes import Curve, Shape, shapes
from forgetless.schedules import planned_for
from support import literal
from support.collections import FAMILIES, random_pairs

s = fl.schedules


def collection(rng, family="plain", **changes):
    return fl.TaskCollection(random_pairs(rng, **{**FAMILIES[family], **changes}))


def shape_losses(advice):
    return {option.shape: option.loss for option in advice.options}


@pytest.mark.parametrize("family", ["plain", "non-realizable", "badly scaled", "two targets", "rank one", "many tasks"])
def test_the_choice_is_as_good_as_a_fine_grid_of_constants(family, rng):
    tasks, k = collection(rng, family), 25
    advice = fl.advise(tasks, k)
    grid = np.concatenate([[0.0], np.geomspace(1e-8, 1e3, 300)]) * tasks.radius**2
    constants = [float(fl.expect(tasks, fl.Ridge(c), k).average_loss[0]) for c in grid]
    assert advice.options[0].loss <= min(constants) * 1.001 + 1e-13
    mine = min(shape_losses(advice)["constant"], shape_losses(advice)["no regularization"])
    assert mine <= min(constants) * 1.001 + 1e-13
    assert advice.best is advice.options[0].schedule


@pytest.mark.parametrize("family", ["plain", "two targets, non-realizable"])
def test_every_number_of_the_table_is_that_of_one_evaluation(family, rng):
    tasks, k = collection(rng, family), 12
    start = rng.standard_normal((tasks.n_features, *tasks.target_shape))
    advice = fl.advise(tasks, k, start=start)
    for option in advice.options:
        exact = fl.expect(tasks, option.schedule, k, start=start, metrics=("average_loss", "seen_loss"))
        assert option.average_loss == option.loss == pytest.approx(exact.average_loss[0], rel=1e-8)
        assert option.seen_loss == pytest.approx(exact.seen_loss[0], rel=1e-8)
        assert option.worst_case == pytest.approx(fl.worst_case(tasks, option.schedule, k).loss, rel=1e-8, abs=1e-14)


@pytest.mark.parametrize("objective", ["average_loss", "seen_loss", "worst_case", "validation"])
def test_objectives_rank_by_their_own_column(objective, rng):
    tasks = collection(rng, "non-realizable")
    advice = fl.advise(tasks, 10, objective=objective, validation=random_pairs(rng, M=2, d=6))
    losses = [option.loss for option in advice.options]
    assert losses == [getattr(option, objective) for option in advice.options]
    assert all(a <= b * (1 + 3e-4) for a, b in itertools.pairwise(losses))


def test_held_out_loss_against_all_orders(rng):
    """The mean over every order of the mean loss of the held-out tasks, by literal steps."""
    tasks = fl.TaskCollection(random_pairs(rng, M=3, d=4, rows=(1, 2)))
    held_out = fl.TaskCollection(random_pairs(rng, M=2, d=4, rows=(3, 6), realizable=False))
    start = rng.standard_normal(4)
    option = fl.advise(tasks, 4, objective="validation", validation=held_out, start=start).options[0]
    filter_ = s.resolve(option.schedule, 4, tasks.radius)
    expected = 0.0
    for order, probability in literal.all_orderings(3, 4):
        w = start
        for t, m in enumerate(order):
            w = fl.step(w, tasks[m], filter_.at(t))
        expected += probability * np.mean([task.loss(w) for task in held_out])
    assert option.loss == pytest.approx(expected, rel=1e-9)


def test_held_out_rows_in_every_form(rng):
    tasks = collection(rng)
    first, second = random_pairs(rng, M=2, d=6)
    both = fl.TaskCollection([first, second])
    expected = fl.advise(tasks, 5, validation=both).table
    assert fl.advise(tasks, 5, validation=[first, second]).table == expected
    assert fl.advise(tasks, 5, validation=(first, second)).table == expected
    one = fl.advise(tasks, 5, validation=[first]).table
    assert one != expected
    assert fl.advise(tasks, 5, validation=first).table == one
    assert fl.advise(tasks, 5, validation=(first[0].tolist(), first[1].tolist())).table == one


@pytest.mark.parametrize("objective", ["average_loss", "seen_loss", "worst_case", "validation"])
def test_other_array_libraries(objective, rng):
    import array_api_strict as xp

    pairs, held_out = random_pairs(rng, realizable=False), random_pairs(rng, M=1, d=6)
    tables = []
    for convert in (np.asarray, xp.asarray):
        tasks = fl.TaskCollection([(convert(X), convert(y)) for X, y in pairs])
        rows = [(convert(X), convert(y)) for X, y in held_out]
        tables.append(fl.advise(tasks, 6, objective=objective, validation=rows).table)
        if objective != "seen_loss":
            tables[-1].append({"loss": fl.optimal_schedule(tasks, 4, objective=objective, validation=rows).loss})
    for mine, theirs in zip(*tables, strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-9)


@pytest.mark.parametrize(
    "ordering", [fl.Cyclic(), fl.RandomReshuffling(), fl.FixedOrder([0, 1, 2, 3, 0, 0, 1, 2, 3, 3])]
)
def test_other_orderings(ordering, rng):
    tasks = collection(rng)
    held_out = random_pairs(rng, M=1, d=6)
    advice = fl.advise(
        tasks, 10, ordering=ordering, validation=None if ordering == fl.RandomReshuffling() else held_out
    )
    for option in advice.options:
        exact = fl.expect(tasks, option.schedule, 10, ordering=ordering).average_loss[0]
        assert option.loss == pytest.approx(exact, rel=1e-9)
    assert ("cyclic, Cai & Diakonikolas" in shape_losses(advice)) == isinstance(ordering, fl.Cyclic)


def test_without_replacement(rng):
    advice = fl.advise(collection(rng, M=5), 5, ordering=fl.WithoutReplacement(), objective="worst_case")
    assert advice.options[0].loss <= shape_losses(advice)["constant"]


def test_both_minima_of_a_constant_are_tried():
    """At θ = π/16, k = 28 the loss has local minima at 6.15 and 11.3."""
    advice = fl.advise(fl.theory.constructions.two_tasks(np.pi / 16), 28, objective="worst_case")
    assert shape_losses(advice)["constant"] == pytest.approx(fl.theory.two_task_optimum(np.pi / 16, 28)[1], rel=1e-4)


def test_of_equally_good_schedules_the_simplest_leads():
    advice = fl.advise(fl.TaskCollection([(np.eye(2), [1.0, 2.0])]), 8)
    assert advice.best == fl.Projection()
    assert "regularization gains nothing" in advice.why


@pytest.mark.parametrize("k", [1, 2, 3])
def test_few_steps(k, rng):
    advice = fl.advise(collection(rng), k)
    assert ("fixed, near-optimal" in shape_losses(advice)) == (k >= 3)


def test_tasks_without_information():
    advice = fl.advise(fl.TaskCollection([(np.zeros((2, 3)), np.zeros(2))] * 2), 5)
    assert advice.best == fl.Projection()
    assert advice.options[0].loss == 0
    assert repr(advice)


# What is said of the choice ----------------------------------------------------------------------------------------


def test_the_flat_range_is_where_the_loss_stays_within_a_tenth(rng):
    tasks = collection(rng, "non-realizable", M=10)
    option = next(o for o in fl.advise(tasks, 40).options if o.shape == "constant")
    low, high = option.flat
    assert low < option.scale < high
    for end in (low, high):
        loss = fl.expect(tasks, fl.Ridge(end * tasks.radius**2), 40).average_loss[0]
        assert loss == pytest.approx(1.1 * option.loss, rel=0.02)


def test_flat_ranges_interpolate_and_end_where_the_grid_does():
    curve = Curve(Shape("x", lambda c: fl.Ridge(c), np.ones(1)), np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 1.2]))
    low, high = curve.within(1.1)
    assert low == 1.0
    assert high == pytest.approx(2 * np.sqrt(2))


@pytest.mark.parametrize("family", ["plain", "non-realizable"])
def test_a_wrong_horizon_costs_what_is_said(family, rng):
    tasks, k = collection(rng, family), 20
    advice = fl.advise(tasks, k)
    ramp = advice.best
    assert isinstance(ramp, s.end_ramp)
    for name, plan in {"half": k // 2, "twice": 2 * k}.items():
        # What would have been advised for the wrong horizon, among ramps as long and scales a factor of 2 apart …
        ramps = [s.end_ramp(ramp.length, float(f"{ramp.scale * 2.0**power:.4g}")) for power in range(-4, 5)]
        wrong = min(ramps, key=lambda other: fl.expect(tasks, other, plan).average_loss[0])
        coefficients = wrong(plan, tasks.radius).coefficient
        # … cut off where fewer steps come, its last strength held where more do.
        held = np.concatenate([coefficients, np.full(max(0, k - plan), coefficients[-1])])[:k]
        loss = fl.expect(tasks, fl.Ridge(held), k).average_loss[0]
        assert advice.horizon[name] == pytest.approx(loss / advice.options[0].loss, rel=1e-9)
    assert planned_for(s.fixed(), 2, 4, 1.0) is None
    assert planned_for(fl.Ridge(1.0), 2, 4, 1.0) == fl.Ridge(1.0)


def test_a_constant_for_another_horizon_is_another_constant():
    tasks = fl.theory.constructions.two_tasks(np.pi / 16)
    advice = fl.advise(tasks, 16, objective="worst_case")
    constant = next(option for option in advice.options if option.shape == "constant")
    problem = Losses(tasks, 16, fl.WithReplacement(), None, None, "worst_case")
    curves, _, _ = _ranking.compare(problem, lambda: None)
    ratios = _ranking.wrong_horizon(problem, constant, curves)
    # λ⋆ is about 3.0 for 8 steps, 6.4 for 16 and 1.65 for 32.
    assert ratios["half"][1] > 1.02 * constant.loss
    assert ratios["twice"][1] > 1.05 * constant.loss


@pytest.mark.parametrize(("x", "y"), [(1e8, 1.0), (1e-8, 1.0), (1.0, 1e-7), (1.0, 1e7), (1e6, 1e-6)])
@pytest.mark.parametrize("objective", ["average_loss", "worst_case"])
def test_units_do_not_change_the_advice(x, y, objective, rng):
    pairs = random_pairs(rng, **FAMILIES["non-realizable"])
    k = 40
    first = fl.advise(fl.TaskCollection(pairs), k, objective=objective)
    other = fl.advise(fl.TaskCollection([(x * X, y * t) for X, t in pairs]), k, objective=objective)
    assert [option.shape for option in other.options] == [option.shape for option in first.options]
    scale = x * x if objective == "worst_case" else y * y
    assert other.options[0].loss == pytest.approx(scale * first.options[0].loss, rel=1e-6)


def test_tasks_of_zeros_get_some_advice():
    advice = fl.advise(fl.TaskCollection([(np.zeros((2, 3)), np.ones(2))]), 5)
    assert advice.options[0].loss == pytest.approx(1.0)


def test_a_best_scale_beyond_the_grid_is_followed(rng):
    tasks = collection(rng)
    w = np.asarray(tasks.teacher())
    X = rng.standard_normal((30, tasks.n_features))
    advice = fl.advise(tasks, 20, objective="validation", validation=(X, -X @ w))
    still = 0.5 * np.sum((X @ w) ** 2)  # nothing learned at all is best here
    assert advice.options[0].loss < 1.01 * still


def test_no_regularization_says_how_weak_constants_may_be(rng):
    tasks, k = fl.theory.constructions.two_tasks(np.pi / 3), 40
    advice = fl.advise(tasks, k, objective="worst_case")
    none = next(option for option in advice.options if option.shape == "no regularization")
    assert none.flat[0] == 0.0
    loss = fl.worst_case(tasks, fl.Ridge(none.flat[1] * tasks.radius**2), k).loss
    assert loss <= 1.1 * none.loss


def test_it_prints_a_table_and_code_that_gives_the_schedules(rng):
    for family in ("plain", "non-realizable"):
        advice = fl.advise(collection(rng, family), 30)
        lines = repr(advice).splitlines()
        assert max(len(line) for line in lines) <= 100
        assert advice.options[0].code in repr(advice).replace("\n", " ")
        for option in advice.options:
            assert eval(option.code, {"fl": fl}) == option.schedule
        assert ("noise-aware" in shape_losses(advice)) == (family == "non-realizable")
        assert json.loads(json.dumps(advice.to_dict()))["table"][0]["schedule"] == advice.options[0].code
        frame = advice.to_frame()
        assert frame["loss"].tolist() == [row["loss"] for row in advice.table]


@pytest.mark.parametrize("family", ["plain", "non-realizable", "two targets, non-realizable"])
def test_the_model_in_code_learns_as_advised(family, rng):
    """Met in the order of the advice, the tasks lead to the loss that is stated."""
    tasks, k = collection(rng, family), 9
    for ordering, indices in ((fl.Cyclic(), [m % tasks.n_tasks for m in range(k)]), (fl.FixedOrder([1] * k), [1] * k)):
        advice = fl.advise(tasks, k, ordering=ordering)
        model = eval(advice.model_code(), {"fl": fl})
        for m in indices:
            model.partial_fit(*tasks[m])
        loss = fl.metrics.average_loss(tasks, model.coef_.T)
        assert loss == pytest.approx(advice.options[0].loss, rel=1e-8, abs=1e-13)


def test_the_plot_shows_every_shape_and_its_best(rng):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    advice = fl.advise(collection(rng, "non-realizable"), 30)
    _, ax = plt.subplots()
    assert advice.plot(ax) is ax
    titles = [text.get_text() for text in ax.get_legend().get_texts()]
    searched = ["constant", "minimax, noise", "increasing", "increasing budget", "end ramp"]
    assert titles == [*searched, "no regularization", "least possible"]
    assert advice.plot() is not ax
    plt.close("all")


def test_progress_is_told(rng):
    told = []
    fl.advise(collection(rng), 5, progress=lambda done, total, what: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1][0] <= told[-1][1]


def test_a_loss_of_zero_is_not_compared(rng):
    one = fl.TaskCollection([(np.eye(3), np.ones(3))])
    said = repr(fl.advise(one, 10, objective="worst_case"))
    assert "e+1" not in said
    assert "over 1 task," in said
    assert fl.advise(one, 1).horizon.keys() <= {"twice"}


# At the border ----------------------------------------------------------------------------------------------------

X, y = np.eye(2), np.ones(2)
TASKS = fl.TaskCollection([(X, y), (2 * X, y)])


class Elsewhere(fl.orderings.Ordering):
    def blocks(self, n_tasks, k, n_trials, rng):
        yield np.zeros((n_trials, k), np.uint8)


BAD = [
    (lambda: fl.advise([(X, y)], 5), TypeError, "wrap pairs as fl.TaskCollection"),
    (lambda: fl.advise(TASKS, 0), ValueError, "k must be at least 1, got 0"),
    (lambda: fl.advise(TASKS, 5, objective="best"), ValueError, "seen_loss, worst_case, validation, got 'best'"),
    (lambda: fl.advise(TASKS, 5, also=[fl.Ridge(1.0)]), TypeError, "also must be a dict of schedules by name"),
    (lambda: fl.advise(TASKS, 5, also={5: fl.Ridge(1.0)}), TypeError, "also must be a dict of schedules by name"),
    (lambda: fl.advise(TASKS, 5, also={"constant": fl.Ridge(1.0)}), ValueError, "compared anyway, got constant"),
    (lambda: fl.advise(TASKS, 5, also={"noise-aware": fl.Ridge(1.0)}), ValueError, "compared anyway, got noise-aware"),
    (lambda: fl.advise(TASKS, 5, objective="validation"), ValueError, "give validation="),
    (lambda: fl.advise(TASKS, 5, validation=(np.eye(3), np.ones(3))), ValueError, "has 3 features.*the tasks have 2"),
    (lambda: fl.advise(TASKS, 5, validation=[(X, np.ones((2, 1)))]), ValueError, r"shape \(1,\)"),
    (lambda: fl.advise(TASKS, 5, ordering=1), TypeError, "ordering must be an Ordering"),
    (lambda: fl.advise(TASKS, 5, ordering=Elsewhere()), TypeError, "no exact expectation"),
    (lambda: fl.advise(TASKS, 5, ordering=fl.WithoutReplacement()), ValueError, "k must be at most"),
    (lambda: fl.advise(TASKS, 5, n_trials=1), ValueError, "n_trials must be at least 2"),
    (lambda: fl.advise(TASKS, 5, n_trials=9, objective="worst_case"), ValueError, "which no runs sample"),
    (lambda: fl.advise(TASKS, 5, seed=-1), ValueError, "seed must be at least 0"),
    (lambda: fl.advise(TASKS, 5, start=np.ones(3)), ValueError, "start must have shape"),
    (
        lambda: fl.advise(TASKS, 5, objective="validation", validation=(X, y), ordering=fl.RandomReshuffling()),
        TypeError,
        "needs draws with replacement, a cycle or a sequence",
    ),
    (lambda: s.end_ramp(length=1.5), ValueError, r"length must lie in \(0, 1\], got 1.5"),
    (lambda: s.end_ramp(length=0), ValueError, "length must be positive"),
    (lambda: s.end_ramp(scale=-1), ValueError, "scale must be nonnegative"),
    (lambda: s.noise_aware()(1, 1.0), ValueError, "k must be at least 2 for schedules.noise_aware"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[case[2] for case in BAD])
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_the_shapes_are_those_promised():
    names = [shape.name for shape in shapes(TASKS, 50, fl.Cyclic())]
    assert names == [
        "no regularization",
        "constant",
        "fixed, near-optimal",
        "fixed budget",
        "increasing, theorem",
        "minimax",
        "capped budget",
        "minimax, noise",
        "increasing",
        *["increasing budget"] * 3,
        *["end ramp"] * 6,
        "cyclic, Cai & Diakonikolas",
    ]


def test_an_own_schedule_may_know_its_horizon_only(rng):
    """The best coefficients as a plain function that fails for any other number of steps."""
    tasks = collection(rng, "non-realizable")
    best = np.array(fl.optimal_schedule(tasks, 12).coefficients)
    advice = fl.advise(tasks, 12, also={"mine": lambda k, radius: fl.Ridge(best[np.arange(k)])})
    assert advice.options[0].shape == "mine"
    assert advice.horizon == {}
    assert advice.options[0].code == "also['mine']"


def test_the_average_stands_below_the_ranking(rng):
    """It needs no k, and is no schedule: the best of these is advised, and every claim about them stays true."""
    pairs = random_pairs(rng, M=3, d=3, rows=(1, 2), realizable=False)
    tasks = fl.TaskCollection(pairs)
    found = fl.advise(tasks, 8)
    exact = fl.expect(tasks, fl.Projection(), 8, average=2).average_loss[0]
    assert found.average.loss == pytest.approx(exact, rel=1e-12)
    assert found.to_dict()["average"]["schedule"] == "fl.Projection()"
    assert "–  no regularization, t²-average" in repr(found)
    assert len(found.table) == len(found.options)
    claim = next(claim for claim in found.claims if claim.about == "average")
    assert claim.low <= exact / found.options[0].loss <= claim.high
    worst = fl.advise(tasks, 8, objective="worst_case", ordering=fl.RandomReshuffling()).average
    ordered = fl.worst_case(tasks, fl.Projection(), 8, ordering=fl.RandomReshuffling(), average=2)
    assert worst.loss == pytest.approx(ordered.loss, rel=1e-12)
    assert fl.advise(tasks, 8, objective="seen_loss").average is None
    sampled = fl.advise(tasks, 8, objective="seen_loss", n_trials=200).average
    assert sampled is None or sampled.error > 0
