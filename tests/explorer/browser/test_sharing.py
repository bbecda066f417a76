"""Links, code and numbers: what is taken from the page is what it shows."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

import forgetless as fl

EXPORTED = Path(__file__).parents[1] / "exported.json"

STATES = [
    "",
    "kind=two&angle=40&k=33&p=increasing&c=0.5",
    "kind=two&noise=0.3&k=12&p=fixed",
    "kind=random&d=6&M=5&rows=3&noise=0.2&k=45&p=quarter",
    "kind=random&d=3&M=4&rows=1&k=25&order=cyclic&metric=forgetting&p=ramp&c=2",
    "kind=random&d=3&M=4&rows=2&k=25&order=one&metric=seen_loss&noise=0.1&p=none",
    "kind=rare&rare=3&weight=6.5&cosine=0.5&k=64&metric=seen_loss&p=increasing",
    "kind=rare&k=40&order=one&noise=0.1&p=constant&c=0.2",
    "kind=random&d=4&M=3&k=30&scheme=size&n=5&p=minimax",
    "kind=random&d=4&M=3&k=30&scheme=size&n=3&p=fixed",
    "kind=random&d=4&M=3&k=30&scheme=budget&size=0.4&p=increasing&metric=seen_loss",
]


def test_exported_code_gives_the_number_shown_to_ten_digits(opened):
    for state in STATES:
        page = opened(state)
        scope = {}
        exec(page.code(), scope)
        (loss,) = scope["result"].values.values()
        assert loss[0] == pytest.approx(page.loss(), rel=1e-10), state


def test_the_code_that_make_test_runs_is_that_of_the_page(opened):
    """To write the file again after a change of the page: print(json.dumps(found, indent=1))."""
    stored = json.loads(EXPORTED.read_text(encoding="utf-8"))
    found = {state: opened(state).code() for state in stored}
    assert found == stored, json.dumps(found, indent=1)


def test_a_link_restores_everything(opened):
    for state in (STATES[0], STATES[5], STATES[9], "k=5000&kind=random&p=constant"):
        page = opened(state)
        page.tab.focus("#draw")
        page.tab.keyboard.press("End")
        page.changed(lambda page=page: page.tab.keyboard.press("ArrowUp"))  # from now on it is a list of levels
        page.tab.click("#link")
        link = page.tab.input_value("#out")
        assert len(link) < 20_000
        again = opened(link.split("#")[1])
        assert again.loss() == page.loss()
        assert again.tab.evaluate("[...App.now.heights]") == page.tab.evaluate("[...App.now.heights]")
        page.until("location.hash.length > 1")
        assert page.tab.evaluate("location.hash") == link[link.index("#") :]  # the address is the link


def test_a_damaged_link_opens_the_page_all_the_same(opened):
    damaged = ["k=abc&kind=nothing", "k=1e9", "k=-3&M=0", "p=drawn&l=_~zz*zzzz", "p=drawn&l=%00", "scheme=size&p=none"]
    for state in [*damaged, "%", "p=__proto__", "kind=data"]:
        assert opened(state).loss() >= 0, state


HOSTILE = """</script><script>alert(1)</script>"><img src=x onerror=alert(2)>{{script}}\u202egnp'; DROP"""


def test_words_of_the_user_are_words_and_never_markup(opened, tmp_path):
    tasks = fl.TaskCollection([(np.eye(2), [1.0, 2.0]), (np.ones((1, 2)), [0.5])])
    source = f"tasks = fl.load({HOSTILE!r})"
    page = opened(address=fl.explore(tasks, k=9, source=source, out=tmp_path / "x.html", show=False).as_uri())
    assert source in page.code()
    assert page.tab.evaluate("document.querySelectorAll('img, script').length") == 2
    assert page.loss() == pytest.approx(fl.expect(tasks, fl.schedules.increasing(), 9).average_loss[0], rel=1e-10)


def test_numbers_are_saved(opened):
    page = opened("k=25&kind=random&d=3&M=3")
    page.settle()
    with page.tab.expect_download() as download:
        page.tab.click("#csv")
    rows = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert len(rows) == 26
    assert float(rows[-1]["loss_yours"]) == page.loss()
    assert float(rows[3]["strength"]) == page.tab.evaluate("App.now.heights[2]")
    assert float(rows[3]["gradient"]) == page.tab.evaluate("App.now.slope[2]")
