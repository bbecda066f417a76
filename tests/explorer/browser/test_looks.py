"""Widths, colours, names for screen readers, notebooks, the plane of weights, and a page with Python behind it."""

import re
import threading

import numpy as np
import pytest

import forgetless as fl
from forgetless.explorer import explore
from forgetless.explorer.page import read
from forgetless.explorer.server import ExplorerServer

KINDS = ["", "kind=random&k=120", "kind=data&scheme=size", "kind=worst&k=64", "kind=rare&scheme=budget&order=one"]


@pytest.mark.parametrize("state", KINDS)
@pytest.mark.parametrize("width", [320, 390, 760, 1200])
def test_nothing_is_cut_off_or_wider_than_the_screen(opened, width, state):
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


@pytest.mark.parametrize("width", [390, 1200])
def test_words_of_a_chart_do_not_overlap(opened, width):
    for state in (
        "",
        "kind=random&k=500",
        "kind=random&k=5000&log=1",
        "k=3",
        "scheme=budget&k=37",
        "metric=forgetting&k=40",
    ):
        page = opened(state, width=width)
        overlapping = page.tab.evaluate(
            """() => [...document.querySelectorAll('svg.chart')].flatMap(svg => {
                 const shown = t => t.textContent && getComputedStyle(t).visibility === 'visible';
                 const texts = [...svg.querySelectorAll('text')].filter(shown);
                 const boxes = texts.map(t => t.getBoundingClientRect()), found = [];
                 for (let i = 0; i < boxes.length; i++) for (let j = 0; j < i; j++) {
                   const [a, b] = [boxes[i], boxes[j]];
                   if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3)
                     found.push(`${texts[i].textContent} / ${texts[j].textContent}`);
                 }
                 return found;
               })"""
        )
        assert overlapping == [], state


def brightness(colour):
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (red, green, blue)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_in_both_colours(opened, scheme):
    """A contrast of 4.5 at least, as WCAG asks for."""
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
    for place, name in [
        *places,
        (".task-word.task0", "fill"),
        (".task-word.task1", "fill"),
        (".key.constant", "borderTopColor"),
    ]:
        front = brightness(page.tab.evaluate(style, [place, name]))
        lighter, darker = max(front, back) + 0.05, min(front, back) + 0.05
        least = 3 if "key" in place else 4.5
        assert lighter / darker >= least, place


def test_every_control_has_a_name_and_can_be_reached_by_keys(opened):
    page = opened("kind=data")
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
    assert {"draw", "kind", "k", "order", "metric", "scheme", "link", "code", "play", "scrub", "choose"} <= seen
    assert page.tab.evaluate("document.documentElement.lang") == "en"


def test_the_plane_shows_what_a_step_does(opened):
    page = opened("angle=60&k=10&p=constant&c=1&order=cyclic")
    page.tab.evaluate(
        "document.getElementById('scrub').value = 0; document.getElementById('scrub').dispatchEvent(new Event('input'))"
    )
    assert page.tab.inner_text("#where") == "before the first task: w = 0"
    page.tab.click("#forth")
    # λ = R²: half of the way, for a unit row; the start is 1 from the first line.
    assert page.tab.inner_text("#where") == "step 1: task 1, 50 % of the way; 0.5 from w⋆"
    lengths = page.tab.evaluate(
        """() => ['full', 'made'].map(name => document.querySelector(`#plane .${name}`)).map(
             ({x1, x2, y1, y2}) => [x1, x2, y1, y2].map(length => length.baseVal.value)).map(
             ([a, b, c, d]) => Math.hypot(b - a, d - c))"""
    )
    assert lengths[1] == pytest.approx(lengths[0] / 2)
    page.tab.click("#play")
    page.until("document.getElementById('where').textContent.startsWith('step 3')")
    page.tab.click("#play")
    page.tab.click("#back")
    assert page.tab.inner_text("#where").startswith("step 2: task 2")
    w = np.zeros(2)
    for task in fl.theory.constructions.two_tasks(np.deg2rad(60)):
        w = fl.step(w, task, fl.Ridge(1.0))
    assert page.tab.inner_text("#where").endswith(f"; {np.linalg.norm(w - [1, 0]):.4g} from w⋆")
    other = opened("kind=random&d=5")
    assert not other.tab.is_visible("#plane")


def test_a_notebook_shows_it_in_a_frame_that_can_reach_nothing(browser):
    tasks = fl.theory.constructions.two_tasks(0.5)
    said, tab = [], browser.new_page()
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.set_content(f"<body>{fl.explore(tasks, fl.schedules.fixed(), k=25)._repr_html_()}</body>")
    frame = tab.frames[1]
    frame.wait_for_selector("#results td")
    want = fl.expect(tasks, fl.schedules.fixed(), 25).average_loss[0]
    assert frame.evaluate("App.now.loss[25]") == pytest.approx(want, rel=1e-10)
    assert frame.evaluate("(() => { try { return parent.document.title } catch { return 'nothing' } })()") == "nothing"
    tab.close()
    assert said == []


def test_explore_shows_the_schedule_and_tasks_it_was_given(opened, tmp_path):
    rng = np.random.default_rng(3)
    tasks = fl.TaskCollection(
        [(X := rng.standard_normal((40, 100)) @ np.diag(np.arange(100) < 9), X @ np.ones(100)) for _ in range(4)]
    )
    schedule = fl.Ridge(tasks.radius**2 * 10.0 ** rng.uniform(-3, 1, 60))
    path = fl.explore(tasks, schedule).save(tmp_path / "page.html")
    page = opened(address=path.as_uri())
    assert page.loss() == pytest.approx(fl.expect(tasks, schedule, 60).average_loss[0], rel=1e-9)
    bounds = {each["name"]: each["value"] for each in page.tab.evaluate("App.bounds()")}
    distance = np.linalg.norm(tasks.teacher())
    assert bounds["computed"] == pytest.approx(
        fl.upper_bound(schedule, 60, radius=tasks.radius, distance=distance).value
    )


class Served:
    def __init__(self, page):
        self.server = ExplorerServer(page)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self.server

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def test_python_behind_the_page_certifies_advises_and_knows_other_orders(browser):
    from .conftest import Opened

    with Served(explore(fl.theory.constructions.two_tasks(0.7), fl.Ridge(0.5), k=12)) as server:
        page = Opened(browser.new_page()).open(server.address)
        page.tab.click("#compare_bounds")
        page.until("document.getElementById('answer').textContent.includes('bound that applies')")
        want = fl.upper_bound(fl.Ridge(0.5), 12).value
        bounds = {each["name"]: each["value"] for each in page.tab.evaluate("App.bounds()")}
        assert bounds["computed"] == pytest.approx(want, rel=1e-6)
        page.tab.click("#advise")
        page.until("document.getElementById('answer').textContent.startsWith('Which')")
        page.changed(lambda: page.tab.select_option("#order", "reshuffled"))
        page.until("App.now.note !== 'Python computes …'")
        want = fl.expect(
            fl.theory.constructions.two_tasks(0.7), fl.Ridge(0.5), 12, ordering=fl.RandomReshuffling()
        ).average_loss[0]
        assert page.loss() == pytest.approx(want, rel=1e-10)
        page.changed(
            lambda: page.tab.select_option("#kind", "random")
        )  # tasks of the page go to Python, on this machine
        page.until("App.now.note !== 'Python computes …'")
        assert page.loss() > 0
        assert page.said == []
        assert all(url.startswith((f"http://127.0.0.1:{server.server_port}/", "data:")) for url in page.asked)
        page.tab.close()


def test_tasks_too_large_for_the_page_are_computed_in_python(browser):
    from .conftest import Opened

    rng = np.random.default_rng(0)
    tasks = fl.TaskCollection([(X := rng.standard_normal((30, 90)), X @ np.ones(90)) for _ in range(4)])
    with Served(explore(tasks, k=15, large=True)) as server:
        page = Opened(browser.new_page()).open(server.address)
        page.until("App.now.slope !== null")
        assert page.loss() == pytest.approx(fl.expect(tasks, fl.schedules.increasing(), 15).average_loss[0], rel=1e-10)
        slope = fl.loss_gradient(tasks, fl.schedules.increasing(), 15).coefficient
        np.testing.assert_allclose(page.tab.evaluate("[...App.now.slope]"), slope, rtol=1e-8)
        page.tab.focus("#draw")
        before = page.loss()
        page.changed(lambda: page.tab.keyboard.press("PageDown"))
        page.until(f"App.now.slope !== null && App.now.loss[15] !== {before!r}")
        assert page.said == []
        page.tab.close()


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


def test_links_do_not_depend_on_the_first_view(opened):
    page = opened("k=31&p=none")
    assert page.tab.evaluate("[App.state.kind, App.state.noise]") == ["two", 0]
    page = opened()
    page.changed(lambda: page.tab.select_option("#kind", "worst"))
    assert page.tab.evaluate("App.state.noise") == 0  # other tasks are shown without noise


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("35010.7", "35\u202f010"),
        ("1234567", "1\u202f235\u202f000"),
        ("2.5e7", "2.500·10⁷"),
        ("9876", "9876"),
        ("0.00022676", "0.0002268"),
        ("0.00002", "2.000·10⁻⁵"),
        ("-35010", "-35\u202f010"),
        ("0", "0"),
    ],
)
def test_numbers_are_for_people(opened, value, text):
    script = read("page/plot.js")
    assert opened().tab.evaluate(f"(() => {{ {script}; return Plot.shown({value}); }})()") == text


@pytest.mark.parametrize("k", [1, 2, 3, 7, 50])
def test_axes_count_whole_tasks(opened, k):
    page = opened(f"k={k}&p=none")
    labels = page.tab.evaluate(
        "[...document.querySelectorAll('.axes text[text-anchor=middle]')].map((n) => n.textContent)"
    )
    assert labels
    assert all(label.isdecimal() for label in labels)
