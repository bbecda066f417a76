"""The page as text: whole, closed to the outside, and safe against any words in it."""

import base64
import hashlib
import importlib
import json
import operator
import re

import html5lib
import numpy as np
import pytest

import forgetless as fl
from forgetless.explorer.page import ASSETS, SCRIPTS, constants, embedded, page, read, shipped
from forgetless.explorer.plain import filter_of, ordering_of, plain_schedule, plain_tasks, tasks_of


def parts(text):
    """The page's policy, its data, and what its style and script hold."""
    tree = html5lib.parse(text, namespaceHTMLElements=False)
    (policy,) = [each.get("content") for each in tree.iter("meta") if each.get("http-equiv")]
    scripts = list(tree.iter("script"))
    assert len(scripts) == 2
    return policy, json.loads(scripts[0].text), next(tree.iter("style")).text, scripts[1].text


def test_the_page_is_one_small_file_that_asks_for_nothing():
    text = page()
    assert len(text.encode()) <= 300_000
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", text)
    assert "http-equiv" in text
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert "{{" not in re.sub(r"<script>.*", "", text, flags=re.DOTALL)


def test_every_asset_is_in_the_page_and_the_wheel():
    """All of them are files of the package, which the wheel takes whole."""
    files = {str(path.relative_to(ASSETS)) for path in ASSETS.rglob("*") if path.is_file()}
    assert files == {*SCRIPTS, "index.html", "style.css", "worst.json"}


@pytest.mark.parametrize("served", [False, True])
def test_the_policy_allows_this_script_and_style_alone(served):
    policy, _, style, script = parts(page(served=served))
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert rules["connect-src"] == ("'self'" if served else "'none'")
    for name, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    "words", ["</script><script>alert(1)</script>", "<!--", "]]>", "{{script}}", "\u2028", "\ud800", "&lt;"]
)
def test_no_words_end_the_element_they_stand_in(words):
    source = {"kind": "file", "name": words, "task": words, "target": words}
    tasks = fl.theory.constructions.two_tasks(1.0)
    _, data, _, _ = parts(fl.explorer.explore(tasks, k=5, source=source).html)
    assert data["source"] == source
    assert not set("<>&") & set(embedded(source))


def test_numbers_that_are_none_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        embedded({"x": float("nan")})


def test_constants_are_those_of_the_catalogue():
    assert constants() == {"paper": 20.0, "seen": 87.0, "ridge": 1.04, "size": 0.91}


WORST = {"none-64": 0.21264, "none-256": 0.21338, "fixed-64": 0.44649, "fixed-256": 0.57376}
WORST |= {"increasing-64": 0.95194, "increasing-256": 0.97916}


def test_worst_collections_in_the_page_have_their_values():
    assert {known["name"] for known in shipped()} == set(WORST)
    for known in shipped():
        pairs = []
        for row, count in zip(known["rows"], known["counts"], strict=True):
            X = np.atleast_2d(row)
            pairs += [(X, X @ known["teacher"])] * count
        loss = fl.expect(fl.TaskCollection(pairs), known["schedule"], known["k"]).average_loss[0]
        assert known["k"] * loss == pytest.approx(WORST[known["name"]], rel=1e-4)


# ---- tasks and schedules as plain values


def collection(rng, n=4, rows=3, d=5, noise=0.2):
    w = rng.standard_normal(d)
    return fl.TaskCollection(
        [(X := rng.standard_normal((rows, d)), X @ w + noise * rng.standard_normal(rows)) for _ in range(n)]
    )


@pytest.mark.parametrize(("rows", "d"), [(3, 5), (9, 4), (3000, 4), (2, 200)])
def test_plain_tasks_have_the_same_losses(rows, d):
    """Also where only the singular values are kept, or the coordinates are those of the joint span."""
    tasks = collection(np.random.default_rng(rows), rows=rows, d=d)
    plain = plain_tasks(tasks)
    assert plain["d"] <= 60
    again = tasks_of(json.loads(embedded(plain)))
    for metric in ("average_loss", "seen_loss"):
        want, found = (fl.expect(each, fl.Ridge(1.0), 12, metrics=metric).values[metric] for each in (tasks, again))
        np.testing.assert_allclose(found, want, rtol=1e-10)
    assert again.radius == pytest.approx(tasks.radius)


def test_copies_are_tasks_of_their_own():
    plain = {"d": 1, "tasks": [{"X": [1.0], "y": [2.0], "count": 3}, {"X": [2.0], "y": [1.0]}]}
    assert tasks_of(plain).n_tasks == 4


@pytest.mark.parametrize(
    "schedule",
    [
        fl.Projection(),
        fl.Ridge(0.3),
        fl.Ridge(np.linspace(0, 2, 7)),
        fl.schedules.increasing(scale=0.7),
        fl.schedules.fixed(),
        fl.schedules.end_ramp(),
        fl.GradientDescent(3, 0.1),
        fl.GradientDescent(2, np.linspace(0.01, 0.2, 7)),
        fl.GradientDescent(np.arange(1, 8), 0.05),
        fl.schedules.fixed_budget(2),
    ],
)
def test_plain_schedules_are_the_same_filters(schedule):
    k, radius = 7, 2.0
    plain = plain_schedule(schedule, k, radius)
    own, square = plain["schedule"], radius**2
    if own["preset"] != "given":
        want = {"none": fl.Projection(), "increasing": fl.schedules.increasing(scale=own.get("scale", 1.0))}[
            own["preset"]
        ]
        assert fl.schedules.resolve(want, k, radius).factors(1.3) == pytest.approx(
            fl.schedules.resolve(schedule, k, radius).factors(1.3)
        )
        return
    unit = {"ridge": square, "size": 1 / square, "budget": 1.0}[plain["scheme"]]
    other = {"ridge": None, "size": plain.get("n"), "budget": plain.get("size", 0) / square}[plain["scheme"]]
    values = [unit * value for value in own["values"]]
    found = filter_of({"scheme": plain["scheme"], "values": values, "other": other})
    for xi in (0.01, 0.4, 3.9):
        want = np.broadcast_to(fl.schedules.resolve(schedule, k, radius).factors(xi), (k,))
        np.testing.assert_allclose(np.broadcast_to(found.factors(xi), (k,)), want, rtol=1e-12)


def test_orders_by_name():
    assert isinstance(ordering_of({"order": "reshuffled"}), fl.RandomReshuffling)
    assert ordering_of({"order": "one", "sequence": [0, 1, 1]}).sample(2, 3).tolist() == [0, 1, 1]
    with pytest.raises(ValueError, match="order must be one"):
        ordering_of({"order": "sideways"})


def test_the_python_code_of_the_page_uses_names_that_exist():
    scripts = read(*SCRIPTS)
    names = set(re.findall(r"\bfl((?:\.[A-Za-z_]\w*)+)\(", scripts))
    assert {".expect", ".theory.constructions.two_tasks"} <= names
    for name in names:
        operator.attrgetter(name[1:])(fl)
    for module, imported in re.findall(r"from (forgetless[.\w]*) import (\w+)", scripts):
        getattr(importlib.import_module(module), imported)
