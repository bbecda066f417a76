"""The page as text: whole, closed to the outside, safe against any words in it; and the code that it writes."""

import base64
import hashlib
import json
import operator
import re
import webbrowser
from pathlib import Path

import html5lib
import numpy as np
import pytest

import forgetless as fl
from forgetless.explorer import ASSETS

EXPORTED = json.loads(Path(__file__).with_name("exported.json").read_text(encoding="utf-8"))
"""Code that the page writes, by the state in its address; the browser's tests compare it with the page."""

TASKS = fl.theory.constructions.two_tasks(0.7)


def parts(text):
    """The page's policy, its data, and what its style and script hold."""
    tree = html5lib.parse(text, namespaceHTMLElements=False)
    (policy,) = [each.get("content") for each in tree.iter("meta") if each.get("http-equiv")]
    scripts = list(tree.iter("script"))
    assert len(scripts) == 2
    return policy, json.loads(scripts[0].text), next(tree.iter("style")).text, scripts[1].text


def page_of(tmp_path, *arguments, **options):
    return fl.explore(*arguments, out=tmp_path / "page.html", show=False, **options).read_text(encoding="utf-8")


def test_the_page_is_one_small_file_that_asks_for_nothing(tmp_path):
    text = page_of(tmp_path)
    assert len(text.encode()) <= 200_000
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", text)
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert "{{" not in re.sub(r"<script>.*", "", text, flags=re.DOTALL)
    policy, _, style, script = parts(text)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for name, part in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert "unsafe" not in policy


def test_no_words_end_the_element_they_stand_in(tmp_path):
    words = "</script><script>alert(1)</script><!-- ]]> {{script}} \u2028 \ud800 &lt;"
    text = page_of(tmp_path, TASKS, k=5, source=words)
    assert parts(text)[1]["source"] == words
    inside = text.split('<script id="data" type="application/json">')[1].split("</script>")[0]
    assert not set("<>&") & set(inside)


@pytest.mark.parametrize(("rows", "d"), [(3, 5), (9, 4), (1250, 4), (1251, 4), (2, 200)])
def test_tasks_in_the_page_have_the_same_losses(rows, d, tmp_path):
    """Also where only the singular values are kept, or the coordinates are those of the joint span."""
    rng = np.random.default_rng(rows)
    w = rng.standard_normal(d)
    pairs = [(X := rng.standard_normal((rows, d)), X @ w + 0.2 * rng.standard_normal(rows)) for _ in range(4)]
    tasks = fl.TaskCollection(pairs)
    _, data, _, _ = parts(page_of(tmp_path, tasks, k=12))
    plain = data["tasks"]
    assert plain["d"] <= 60
    is_literal = d <= 60 and rows <= 1250  # up to 20,000 numbers, which the code of the page holds
    assert (data["source"] is None) == is_literal
    assert d > 60 or (len(plain["tasks"][0]["X"]) == rows) == is_literal
    again = fl.TaskCollection([(np.reshape(task["X"], (-1, plain["d"])), task["y"]) for task in plain["tasks"]])
    floor = np.mean([task["floor"] for task in plain["tasks"]])
    want, found = (fl.expect(each, fl.Ridge(1.0), 12).average_loss[0] for each in (tasks, again))
    assert found + floor == pytest.approx(want, rel=1e-10)
    assert again.radius == pytest.approx(tasks.radius)


def filter_of(plain, k, radius):
    """The filter of a state of the page."""
    own, square = plain["schedule"], radius**2
    if own["preset"] == "none":
        return fl.Projection()
    if own["preset"] == "increasing":
        return fl.schedules.increasing(scale=own["scale"])(k, radius)
    values = np.array(own["values"])
    if plain["scheme"] == "ridge":
        return fl.Ridge(values * square)
    if plain["scheme"] == "size":
        return fl.GradientDescent(plain["n"], values / square)
    return fl.GradientDescent(values.astype(int), plain["size"] / square)


@pytest.mark.parametrize(
    "schedule",
    [
        fl.Projection(),
        fl.Ridge(0.3),
        fl.Ridge(np.linspace(0, 2, 7)),
        fl.schedules.increasing(scale=0.7),
        fl.schedules.end_ramp(),
        fl.GradientDescent(3, 0.1),
        fl.GradientDescent(2, np.linspace(0.01, 0.2, 7)),
        fl.GradientDescent(np.arange(1, 8), 0.05),
    ],
)
def test_schedules_in_the_page_are_the_same_filters(schedule, tmp_path):
    state = parts(page_of(tmp_path, TASKS, schedule, 7))[1]["state"]
    found, want = filter_of(state, 7, TASKS.radius), fl.schedules.resolve(schedule, 7, TASKS.radius)
    for xi in (0.01, 0.4, 3.9):
        np.testing.assert_allclose(
            np.broadcast_to(found.table(xi), (7,)), np.broadcast_to(want.table(xi), (7,)), rtol=1e-12
        )


def test_it_is_written_and_opened(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    path = fl.explore(TASKS, fl.Ridge(np.ones(30)), out=tmp_path / "mine.html")
    assert opened == [path.as_uri()]
    assert parts(path.read_text(encoding="utf-8"))[1]["state"]["k"] == 30
    assert fl.explore(k=5000).suffix == ".html"
    assert len(opened) == 2


RNG = np.random.default_rng(0)
WIDE = fl.TaskCollection([(X := RNG.standard_normal((30, 90)), X @ np.ones(90)) for _ in range(4)])
MANY = fl.TaskCollection([(X := RNG.standard_normal((50, 50)), X @ np.ones(50)) for _ in range(110)])

BAD = [
    (lambda: fl.explore([1]), TypeError, "wrap pairs as fl.TaskCollection"),
    (lambda: fl.explore(schedule=fl.Ridge(1.0)), TypeError, "schedule needs tasks"),
    (
        lambda: fl.explore(fl.TaskCollection([(np.eye(2), np.eye(2))])),
        ValueError,
        "must have one target and neither noise nor walk.*got 2",
    ),
    (lambda: fl.explore(WIDE), ValueError, "at most 60 coordinates.*got 90"),
    (lambda: fl.explore(TASKS, k=5001), ValueError, "k must be at most 5000"),
    (lambda: fl.explore(TASKS, k=0), ValueError, "k must be at least 1"),
    (lambda: fl.explore(MANY, show=False), ValueError, r"fit into a page of 5 MB, these take 5\.\d"),
    (
        lambda: fl.explore(TASKS, fl.GradientDescent(np.array([1, 2]), np.array([0.1, 0.2]))),
        ValueError,
        "one n_steps or one step_size",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[case[2] for case in BAD])
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("state", EXPORTED)
def test_exported_code_runs_and_gives_the_number_in_its_comment(state):
    code, scope = EXPORTED[state], {}
    exec(code, scope)
    (loss,) = scope["result"].values.values()
    assert loss[0] == pytest.approx(float(code.rsplit("# ", 1)[1]), rel=1e-10)


def test_the_python_code_of_the_page_uses_names_that_exist():
    names = set()
    for path in ASSETS.rglob("*.js"):
        names |= set(re.findall(r"\bfl((?:\.[A-Za-z_]\w*)+)\(", path.read_text(encoding="utf-8")))
    assert {".expect", ".theory.constructions.two_tasks", ".schedules.minimax"} <= names
    for name in names:
        operator.attrgetter(name[1:])(fl)
