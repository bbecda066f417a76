"""Drawing by mouse, finger and keys; what is shown beside it."""

import numpy as np
import pytest

import forgetless as fl


def box_of(page):
    return page.tab.locator("#draw").bounding_box()


def drag(page, points):
    box = box_of(page)
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    page.tab.mouse.move(*places[0])
    page.tab.mouse.down()
    for place in places[1:]:
        page.changed(lambda place=place: page.tab.mouse.move(*place, steps=4))
    page.changed(page.tab.mouse.up)


def test_a_drag_changes_the_steps_below_it_and_the_loss_shown_is_that_of_expect(opened):
    page = opened("kind=random&d=5&M=4&rows=2&k=80&p=constant&c=1")
    before, heights = page.loss(), page.tab.evaluate("[...App.now.heights]")
    drag(page, [(0.3, 0.2), (0.5, 0.3), (0.6, 0.4)])
    after = page.tab.evaluate("[...App.now.heights]")
    moved = np.flatnonzero(np.not_equal(heights, after))
    assert page.loss() != before
    assert 10 < len(moved) < 40
    np.testing.assert_array_equal(moved, np.arange(moved[0], moved[-1] + 1))
    scope = {}
    exec(page.code(), scope)
    assert scope["result"].average_loss[0] == pytest.approx(page.loss(), rel=1e-10)


def test_a_finger_draws_too(opened):
    page = opened("k=40", width=390, height=844, has_touch=True, is_mobile=True)
    box, before = box_of(page), page.loss()
    client = page.tab.context.new_cdp_session(page.tab)

    def touch(kind, x, y):
        points = [] if kind == "touchEnd" else [{"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]}]
        client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 0.3, 0.3)
    page.changed(lambda: touch("touchMove", 0.6, 0.4))
    touch("touchEnd", 0.6, 0.4)
    page.tab.wait_for_timeout(100)
    assert page.tab.evaluate("App.state.schedule.preset") == "drawn"
    assert page.loss() != before
    assert page.tab.evaluate("scrollY") == 0  # the finger drew, it did not scroll


def test_keys_draw_and_a_screen_reader_hears_it(opened):
    page = opened("k=30&p=constant&c=1")
    page.tab.focus("#draw")
    for key in ("Home", "ArrowRight", "ArrowRight", "]", "]"):
        page.tab.keyboard.press(key)
    page.changed(lambda: page.tab.keyboard.press("ArrowUp"))
    heights = np.array(page.tab.evaluate("[...App.now.heights]"))
    np.testing.assert_allclose(heights[:6], 10**0.1)
    np.testing.assert_array_equal(heights[6:], 1.0)
    assert page.tab.get_attribute("#draw", "aria-valuenow") == "3"
    said = page.tab.get_attribute("#draw", "aria-valuetext")
    assert said.startswith("step 3 of 30: λ = 1.259 R²; ")
    assert said.endswith("λ here would lower the loss")
    page.changed(lambda: page.tab.keyboard.press("0"))
    assert page.tab.evaluate("App.now.heights[2]") == 0
    page.changed(lambda: page.tab.click("#undo"))
    page.changed(lambda: page.tab.click("#undo"))
    assert page.tab.evaluate("[...App.now.heights]") == [1.0] * 30


def test_the_best_constant_and_the_optimum_are_no_worse_than_what_they_are_compared_with(opened):
    for scheme, order in (("ridge", "with"), ("size", "cyclic"), ("budget", "one")):
        page = opened(f"kind=random&d=4&M=4&rows=1&k=30&noise=0.4&scheme={scheme}&order={order}")
        page.settle()
        last = "name => App.references[name].values[App.state.k]"
        constant, theorem, optimum = (page.tab.evaluate(last, name) for name in ("constant", "theorem", "optimum"))
        assert optimum <= min(constant, theorem) * (1.02 if scheme == "budget" else 1 + 1e-9)
        if scheme == "ridge":
            tasks = page.tab.evaluate("App.tasks.tasks.map(t => [[...t.X], [...t.y]])")
            tasks = fl.TaskCollection([(np.reshape(X, (1, 4)), y) for X, y in tasks])
            best = fl.optimal_schedule(tasks, 30)
            assert constant == pytest.approx(best.best_constant_loss, rel=1e-3)
            assert optimum == pytest.approx(best.loss, rel=0.02)
        page.changed(lambda page=page: page.tab.click("[data-name=optimum]"))
        assert page.loss() == pytest.approx(optimum, rel=0.01)


def test_guarantees_are_those_of_the_catalogue_and_are_left_out_where_they_do_not_hold(opened):
    page = opened("kind=random&k=50&p=increasing")
    bounds = {each["name"]: each["value"] for each in page.tab.evaluate("App.bounds()")}
    radius, distance = page.tab.evaluate("[App.prob.radius, App.prob.distance]")
    catalogue, unit = fl.theory.catalogue, radius**2 * distance**2
    assert bounds["paper"] == pytest.approx(catalogue["increasing"].at(50) * unit)
    assert bounds["computed"] == pytest.approx(catalogue["increasing, every k"].at(50) * unit)
    assert page.loss() <= bounds["computed"]
    for change in ("noise=0.5", "order=cyclic", "metric=forgetting", "scheme=budget"):
        other = opened(f"kind=random&k=50&{change}")
        assert other.tab.evaluate("App.bounds()") == []
        assert "guarantee" in other.tab.inner_text("#status")
