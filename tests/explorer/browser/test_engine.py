"""The engine in JavaScript, run in Chromium, against fl.expect, fl.loss_gradient and the definitions."""

import numpy as np
import pytest

import forgetless as fl
from forgetless.explorer import ASSETS, ENGINE
from support.explored import expected, in_python, random_case, slopes

RUN = """cases => cases.map(c => {
  const owner = c.tasks.flatMap((task, m) => Array(task.count).fill(m));
  const tasks = c.tasks.map(t => ({...t, X: Float64Array.from(t.X.flat()), y: Float64Array.from(t.y), n: t.y.length}));
  const plan = {...c, values: Float64Array.from(c.values), order: c.order && c.order.map(i => owner[i])};
  const prob = Engine.problem(tasks, c.d), found = Engine.gradient(prob, plan);
  return {loss: [...found.loss], slope: [...found.slope], curve: [...Engine.curve(prob, plan)]};
})"""


@pytest.fixture(scope="module")
def run(browser):
    """A page with the engine alone."""
    page = browser.new_page()
    scripts = "\n".join((ASSETS / "engine" / f"{name}.js").read_text(encoding="utf-8") for name in ENGINE)
    # One script: constants of one are not seen from another that is evaluated later.
    page.evaluate(f"() => {{ {scripts}\nwindow.Engine = Engine; }}")
    yield lambda cases: page.evaluate(RUN, cases)
    page.close()


def test_curves_and_gradients_are_those_of_python(run):
    """270 problems: every scheme, order and metric, any ranks and norms, noise, copies, far solutions.

    After them 210 problems for which fl.loss_gradient is made: with draws and the average loss, of λ and of γ in turn.
    """
    rng = np.random.default_rng(0)
    cases = [random_case(rng, number) for number in [*range(270), *(27 * i + i % 2 for i in range(210))]]
    for case, found in zip(cases, run(cases), strict=True):
        want, error = expected(case)
        loss = np.array(found["loss"], dtype=float)
        np.testing.assert_array_equal(found["curve"], found["loss"])
        tasks, filter_, _ = in_python(case)
        start = fl.metrics.average_loss(tasks, np.zeros(tasks.n_features))
        # Forgetting is a difference of losses, and zero after one step: then 1e-14 of the loss that there was.
        allowed = 1e-9 * np.maximum(np.abs(want), 1e-5 * start)
        np.testing.assert_array_equal(np.isnan(loss), np.isnan(want))
        assert np.all((np.abs(loss - want) <= allowed) | np.isnan(want)), case
        if case["scheme"] != "budget" and case["order"] is None and case["metric"] == "average_loss" and error < 1:
            (slope,) = fl.loss_gradient(tasks, filter_, case["k"]).parameters.values()
            # Below 1e-280 the engine in JavaScript calls it zero. A loss that is all rounding (1) has no digits.
            assert np.max(np.abs(slope - found["slope"])) <= 1e-8 * np.max(np.abs(slope)) + 1e-250, case


def test_every_gradient_is_that_of_the_definition(run):
    """All orders enumerated, complex steps: also where fl.loss_gradient has none (seen tasks, orders)."""
    rng = np.random.default_rng(11)
    cases = [random_case(rng, number, few=True) for number in range(108)]
    for case, found in zip(cases, run(cases), strict=True):
        want = slopes(case)
        assert np.max(np.abs(want - found["slope"])) <= 1e-8 * np.max(np.abs(want)), case


def test_gradients_keep_their_digits_where_losses_vanish(run):
    """What is antisymmetric in a moment does not shrink with it: each is formed as one half and mirrored."""
    rng = np.random.default_rng(1)
    w = rng.standard_normal(7)
    pairs = [(X := rng.standard_normal((n, 7)), X @ w) for n in (1, 2, 3, 4, 3, 2, 1)]
    lam = 10.0 ** rng.uniform(-3, 0, 300)
    case = {"tasks": [{"X": X.tolist(), "y": y.tolist(), "count": 1} for X, y in pairs], "d": 7, "k": 300}
    case |= {"scheme": "ridge", "values": lam.tolist(), "other": None, "order": None, "metric": "average_loss"}
    (found,) = run([case])
    want = fl.loss_gradient(fl.TaskCollection(pairs), fl.Ridge(lam), 300)
    assert want.loss < 1e-20
    assert found["loss"][-1] == pytest.approx(want.loss, rel=1e-9)
    assert np.max(np.abs(want.coefficient - found["slope"])) <= 1e-8 * np.max(np.abs(want.coefficient))
