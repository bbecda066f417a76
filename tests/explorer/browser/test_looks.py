"""Widths, colours, names for screen readers, and the tasks and schedules that a page was written with."""

import re

import numpy as np
import pytest

import forgetless as fl

STATES = [(320, ""), (390, "kind=rare&scheme=budget&order=one"), (760, "kind=two&scheme=size"), (1200, "kind=random")]


def test_nothing_is_cut_off_or_wider_than_the_screen(opened):
    for width, state in STATES:
        page = opened(state, width=width, height=844)
        assert page.tab.evaluate("document.documentElement.scrollWidth") <= width
        # Words of controls and of charts lie inside what they stand in.
        cut = page.tab.evaluate(
            """() => [...document.querySelectorAll('button, label, legend, td, th, p, output')].filter(
                 node => node.offsetParent && node.scrollWidth > node.clientWidth + 1 &&
                   getComputedStyle(node).display !== 'inline'
               ).map(node => node.outerHTML.slice(0, 120))"""
        )
        assert cut == []
        outside = page.tab.evaluate(
            """() => [...document.querySelectorAll('svg.chart')].flatMap(svg => {
                 const frame = svg.getBoundingClientRect();
                 return [...svg.querySelectorAll('text')].filter(text => {
                   const box = text.getBoundingClientRect();
                   return getComputedStyle(text).visibility === 'visible' && box.width &&
                     (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1);
                 }).map(text => text.textContent);
               })"""
        )
        assert outside == []


def brightness(colour):
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_words_can_be_read_in_both_colours(opened):
    """A contrast of 4.5 at least, as WCAG asks for."""
    for scheme in ("light", "dark"):
        page = opened(color_scheme=scheme)
        page.settle()
        style = "([s, name]) => getComputedStyle(document.querySelector(s))[name]"
        back = brightness(page.tab.evaluate(style, ["#draw", "backgroundColor"]))
        assert (back > 0.5) == (scheme == "light")
        places = [
            ("body", "color"),
            (".small", "color"),
            ("#draw text", "fill"),
            (".more-word", "fill"),
            (".less-word", "fill"),
        ]
        for place, name in [*places, (".key.constant", "borderTopColor")]:
            front = brightness(page.tab.evaluate(style, [place, name]))
            lighter, darker = max(front, back) + 0.05, min(front, back) + 0.05
            least = 3 if "key" in place else 4.5
            assert lighter / darker >= least, place


def test_every_control_has_a_name_and_can_be_reached_by_keys(opened):
    page = opened("kind=random&order=one")
    unnamed = page.tab.evaluate(
        """() => [...document.querySelectorAll('button, input, select, textarea, svg')].filter(node =>
             !(node.labels && node.labels.length && [...node.labels].some(l => l.textContent.trim())) &&
             !node.getAttribute('aria-label') && !node.textContent.trim()).map(node => node.id)"""
    )
    assert unnamed == []
    seen = set()
    for _ in range(80):
        page.tab.keyboard.press("Tab")
        seen.add(page.tab.evaluate("document.activeElement.id"))
    assert {"draw", "kind", "k", "order", "metric", "scheme", "link", "code", "csv", "reseed", "neworder"} <= seen
    assert page.tab.evaluate("document.documentElement.lang") == "en"


def test_explore_shows_the_schedule_and_tasks_it_was_given(opened, tmp_path):
    rng = np.random.default_rng(3)
    tasks = fl.TaskCollection(
        [(X := rng.standard_normal((40, 100)) @ np.diag(np.arange(100) < 9), X @ np.ones(100)) for _ in range(4)]
    )
    schedule = fl.Ridge(tasks.radius**2 * 10.0 ** rng.uniform(-3, 1, 60))
    path = fl.explore(tasks, schedule, out=tmp_path / "page.html", show=False)
    page = opened(address=path.as_uri())
    assert page.loss() == pytest.approx(fl.expect(tasks, schedule, 60).average_loss[0], rel=1e-9)
    assert "the TaskCollection that fl.explore was called with" in page.code()
    assert not opened().tab.is_visible("#kind [value=data]")


FINAL = "(name) => App.references[name].values[App.state.k]"


def test_the_first_view_makes_the_case_for_increasing_and_says_when_it_does_not_hold(opened):
    page = opened()
    page.settle()
    case = page.tab.locator("#case")
    assert case.is_visible()
    assert "with label noise 0 one model fits all tasks, and no regularization is best" in case.inner_text()
    assert page.tab.evaluate("App.state.schedule.preset") == "increasing"
    none, constant = (page.tab.evaluate(FINAL, name) for name in ("none", "constant"))
    assert page.loss() < 0.55 * constant
    assert page.loss() < 0.1 * none
    page.changed(lambda: page.tab.locator("#noise").fill("0"))
    page.settle()
    assert case.is_hidden()
    none, constant = (page.tab.evaluate(FINAL, name) for name in ("none", "constant"))
    assert none <= min(constant, page.loss(), page.tab.evaluate(FINAL, "theorem"))
    page.changed(lambda: page.tab.click("[data-name=none]"))
    assert page.loss() == none
