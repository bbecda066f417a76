"""Advice: its numbers against one evaluation at a time, its choice against fine grids, its table, sentence and plot."""

from types import SimpleNamespace

import numpy as np
import pytest

import forgetless as fl
from forgetless.advice import ranked
from support import literal
from support.agreement import expected_on
from support.checks import check_frozen
from support.collections import FAMILIES, collection, random_pairs

s = fl.schedules


def shape_losses(advice):
    return {option.shape: option.loss for option in advice.options}


SENTENCES = {"no regularization": "without regularization", "constant": "with the best constant λ"}


@pytest.mark.parametrize("family", ["plain", "non-realizable", "badly scaled", "two targets", "rank one", "many tasks"])
def test_the_choice_is_as_good_as_a_fine_grid_of_constants(family, rng):
    tasks, k = collection(rng, family), 25
    advice = fl.advise(tasks, k)
    grid = np.concatenate([[0.0], np.geomspace(1e-8, 1e3, 300)]) * tasks.radius**2
    constants = [float(fl.expect(tasks, fl.Ridge(c), k).average_loss[0]) for c in grid]
    assert advice.options[0].loss <= min(constants) * 1.001 + 1e-13
    mine = min(shape_losses(advice)["constant"], shape_losses(advice)["no regularization"])
    assert mine <= min(constants) * 1.001 + 1e-13
    assert advice.best == advice.options[0].schedule
    for option in advice.options[1:]:
        if option.shape in SENTENCES:
            assert f"{option.loss / advice.options[0].loss:.3g} times as much {SENTENCES[option.shape]}" in advice.why


def test_held_out_loss_against_all_orders(rng):
    """The mean over every order of the mean loss of the held-out tasks, by literal steps."""
    tasks = fl.TaskCollection(random_pairs(rng, M=3, d=4, rows=(1, 2)))
    held_out = fl.TaskCollection(random_pairs(rng, M=2, d=4, rows=(3, 6), realizable=False))
    start = rng.standard_normal(4)
    option = fl.advise(tasks.shifted(start), 4, objective=held_out.shifted(start)).options[0]
    filter_, orders = s.resolve(option.schedule, 4, tasks.radius), literal.all_orderings(3, 4)
    truth = expected_on(lambda order: (order, list(held_out)), list(tasks), filter_, orders, start)
    assert option.loss == pytest.approx(truth, rel=1e-9)


def test_fresh_noise_of_tasks_that_one_model_fits_sets_eta(rng):
    noisy = fl.TaskCollection(random_pairs(rng, M=6, d=3, rows=(1, 2)), noise=1.0)
    minimax = next(option for option in fl.advise(noisy, 40).options if option.shape == "minimax")
    losses = [fl.expect(noisy, s.minimax(eta), 40).average_loss[0] for eta in np.linspace(0.02, 0.98, 49)]
    assert minimax.loss <= min(losses) * 1.001
    options = fl.advise(fl.TaskCollection(noisy, noise=1e-9), 40).options  # 1 has no guarantee with noise
    assert next(option for option in options if option.shape == "minimax").schedule.arguments["eta"] == 0.9999


def test_both_minima_of_a_constant_are_tried():
    """At θ = π/16, k = 28 the loss has local minima at 6.15 and 11.3."""
    advice = fl.advise(fl.theory.constructions.two_tasks(np.pi / 16), 28, objective="worst_case")
    assert shape_losses(advice)["constant"] == pytest.approx(fl.theory.two_task_optimum(np.pi / 16, 28)[1], rel=1e-4)


BEST = [(8, 16, 8, 1), (4, 8, 4, 4), (4, 4, 2, 4), *((k, 4, 2, 16) for k in (8, 16, 32, 64))]


@pytest.mark.parametrize(("k", "part", "length", "n_steps"), BEST)
def test_every_length_of_a_ramp_and_every_budget_is_tried(k, part, length, n_steps):
    """At θ = π/4 the best ramp has two steps, whatever k is."""
    advice = fl.advise(fl.theory.constructions.two_tasks(np.pi / part), k, objective="worst_case")
    best = {option.shape: option.schedule for option in advice.options}
    assert best["end ramp"].arguments["length"] * k == length
    assert best["increasing budget"].arguments["n_steps"] == n_steps


@pytest.mark.parametrize("k", [1, 3, 300])
@pytest.mark.parametrize("family", ["plain", "non-realizable"])
def test_nothing_is_compared_that_the_oracle_bound_refuses(k, family, rng):
    """Where labels are noisy η = 1 has no guarantee, and the minimax schedules have a smaller η, the best of many."""
    tasks = collection(rng, family)
    options = {option.shape: option for option in fl.advise(tasks, k).options}
    assert "end ramp" in options
    assert ("fixed budget" in options) == ("fixed, near-optimal" in options) == (k >= 3)
    names = {"minimax", "minimax budget"} if family == "non-realizable" else {"minimax"}
    assert {name for name in options if name.startswith("minimax")} == names
    for name in names:
        scheme, make = ("budget", s.minimax_budget) if "budget" in name else ("ridge", s.minimax)
        eta = options[name].schedule.arguments["eta"]
        assert options[name].loss <= fl.oracle_bound(tasks, k, eta=eta, scheme=scheme).value
        losses = fl.expect(tasks, [make(eta=each) for each in np.linspace(0.01, 0.99, 99)], k).average_loss[:, 0]
        assert family == "plain" or options[name].loss <= 1.002 * losses.min()


ORDERINGS = [
    (None, "average_loss"),
    (None, "seen_loss"),
    (None, "worst_case"),
    (fl.Cyclic(), "seen_loss"),
    (fl.RandomReshuffling(), "average_loss"),
    (fl.FixedOrder([0, 1, 2, 3, 0, 0, 1, 2, 3, 3]), "worst_case"),
]


@pytest.mark.parametrize(("ordering", "objective"), ORDERINGS)
def test_every_loss_is_that_of_one_evaluation(ordering, objective, rng):
    tasks, k = collection(rng, "two targets, non-realizable"), 10
    tasks = tasks.shifted(rng.standard_normal((tasks.n_features, *tasks.target_shape)))
    advice = fl.advise(tasks, k, objective=objective, ordering=ordering)
    for option in advice.options:
        schedule = eval(option.code, {"fl": fl})
        if objective == "worst_case":
            exact = fl.worst_case(tasks, schedule, k, ordering=ordering).worst_case[0]
        else:
            found = fl.expect(tasks, schedule, k, ordering=ordering, metrics=objective)
            exact = found.values[objective][0]
        assert option.loss == pytest.approx(exact, rel=1e-8)
        assert option.loss == min(option.losses)
    assert ("cyclic, Cai & Diakonikolas" in shape_losses(advice)) == isinstance(ordering, fl.Cyclic)


def test_the_table_and_the_sentence(rng):
    tasks = collection(rng, "non-realizable")
    best = np.array(fl.optimal_schedule(tasks, 30).coefficients)
    advice = fl.advise(tasks, 30, also={"mine": lambda k, radius: fl.Ridge(best[np.arange(k)])})
    losses = [option.loss for option in advice.options]
    assert losses == sorted(losses)
    check_frozen(advice)
    check_frozen(advice.options[0], by_value=False)
    first = advice.options[0]
    assert (first.shape, first.code) == ("mine", "also['mine']")
    first_and_last = best[[0, -1]] / tasks.radius**2
    assert advice.table().columns["λ/R²"][0] == " … ".join(f"{each:.3g}" for each in first_and_last)
    assert advice.why in " ".join(repr(advice).split())
    assert advice.to_frame()["loss"].tolist() == losses
    assert advice.table().columns["× best"][1] == losses[1] / losses[0]
    assert "<table>" in advice._repr_html_()


def test_of_equally_good_schedules_the_simplest_leads():
    """One task is solved by the first step, others have nothing to learn: losses are rounding, and have no ratios."""
    for pairs in ([(np.eye(2), [1.0, 2.0])], [(np.zeros((2, 3)), np.zeros(2))] * 2):
        advice = fl.advise(fl.TaskCollection(pairs), 8, also={"still": fl.Ridge(1e9)})
        assert advice.best == fl.Projection()
        assert advice.table().columns["λ/R²"][-1] == "1e+09"
        assert set(advice.table().columns["× best"]) == {None}
        assert "times" not in advice.why
    budget = next(option for option in advice.options if option.shape == "increasing budget")
    assert budget.schedule.arguments["n_steps"] == 1
    # Equal up to a part of 1e-4, or up to rounding of the largest; the order of the simplest first stays.
    for losses, leader in ([1.0002, 1.00009, 1.0, np.inf], 1.00009), ([2e-14, 9e-15, 0.0, 1.0], 9e-15):
        assert ranked([SimpleNamespace(loss=loss) for loss in losses])[0].loss == leader


def test_a_single_cycle_is_ranked_without_the_schedule_that_needs_more(rng):
    advice = fl.advise(collection(rng), 4, ordering="cyclic")
    assert len(advice.options) > 3
    assert "cyclic, Cai & Diakonikolas" not in shape_losses(advice)


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


def test_a_best_scale_beyond_the_grid_is_followed(rng):
    tasks = collection(rng)
    w = np.asarray(tasks.teacher())
    X = rng.standard_normal((30, tasks.n_features))
    advice = fl.advise(tasks, 20, objective=fl.TaskCollection([(X, -X @ w)]))
    still = 0.5 * np.sum((X @ w) ** 2)  # nothing learned at all is best here
    assert advice.options[0].loss < 1.01 * still
    constant = next(option for option in advice.options if option.shape == "constant")
    assert constant.scales[-1] == 2e3**2 * 10 * 20  # three decades further, twice
