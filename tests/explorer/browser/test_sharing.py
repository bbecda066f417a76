"""Links, code and files: what is taken from the page is what it shows."""

import csv
import xml.etree.ElementTree as ET

import numpy as np
import pytest

STATES = [
    "",
    "kind=two&angle=40&k=33&p=increasing&c=0.5",
    "kind=two&noise=0.3&k=12&p=fixed",
    "kind=random&d=6&M=5&rows=3&noise=0.2&k=45&p=quarter",
    "kind=random&d=3&M=4&rows=1&k=25&order=cyclic&metric=forgetting&p=ramp&c=2",
    "kind=random&d=3&M=4&rows=2&k=25&order=one&metric=seen_loss&noise=0.1&p=none",
    "kind=rare&rare=3&weight=6.5&cosine=0.5&k=64&metric=seen_loss&p=increasing",
    "kind=rare&k=40&order=one&noise=0.1&p=constant&c=0.2",
    "kind=worst&worst=increasing-64&k=64&p=increasing",
    "kind=worst&worst=fixed-256&k=256&p=fixed",
    "kind=random&d=4&M=3&k=30&scheme=size&n=5&p=increasing",
    "kind=random&d=4&M=3&k=30&scheme=size&n=3&p=fixed&average=2",
    "kind=random&d=4&M=3&k=30&scheme=size&n=1&p=capped&average=0&order=cyclic",
    "kind=random&d=4&M=3&k=30&scheme=budget&size=0.4&p=increasing&metric=seen_loss",
]


@pytest.mark.parametrize("state", STATES)
def test_exported_code_gives_the_number_shown_to_ten_digits(opened, state):
    page = opened(state)
    scope = {}
    exec(page.code(), scope)
    (loss,) = scope["result"].values.values()
    assert loss[0] == pytest.approx(page.loss(), rel=1e-10)


def test_the_code_of_a_drawn_schedule_does_too(opened):
    for scheme in ("ridge", "size", "budget"):
        page = opened(f"kind=random&d=3&M=3&k=17&scheme={scheme}&p=constant")
        page.tab.focus("#draw")
        for key in ("End", "]", "]", "]", "ArrowUp", "ArrowUp", "Home", "PageDown", "0"):
            page.tab.keyboard.press(key)
        page.tab.wait_for_timeout(150)
        assert page.tab.evaluate("App.state.schedule.preset") == "drawn"
        scope = {}
        exec(page.code(), scope)
        assert scope["result"].average_loss[0] == pytest.approx(page.loss(), rel=1e-10)


@pytest.mark.parametrize("state", [*STATES, "k=500&p=increasing", "k=5000&kind=random&p=constant"])
def test_a_link_restores_everything(opened, state):
    page = opened(state)
    page.tab.focus("#draw")
    page.tab.keyboard.press("End")
    page.changed(lambda: page.tab.keyboard.press("ArrowUp"))  # from now on it is a list of levels
    page.tab.click("#link")
    link = page.tab.input_value("#out")
    assert len(link) < 20_000
    again = opened(link.split("#")[1])
    assert again.loss() == page.loss()
    assert again.tab.evaluate("[...App.now.heights]") == page.tab.evaluate("[...App.now.heights]")
    page.until("location.hash.length > 1")
    assert page.tab.evaluate("location.hash") == link[link.index("#") :]  # the address is the link


@pytest.mark.parametrize(
    "state",
    [
        "k=abc&kind=nothing",
        "k=1e9",
        "k=-3&M=0",
        "p=drawn&l=_~zz*zzzz",
        "p=drawn&l=%00",
        "scheme=size&p=none",
        "%",
        "p=__proto__",
    ],
)
def test_a_damaged_link_opens_the_page_all_the_same(opened, state):
    page = opened(state)
    assert page.loss() >= 0


def table_of(rng, n=60, d=3, labels=("b", "a", "c")):
    rows = rng.standard_normal((n, d))
    return ["task,x1,x2,x3,y"] + [
        ",".join(
            [
                labels[i % len(labels)],
                *map(repr, rows[i].tolist()),
                repr(float(rows[i].sum() + 0.1 * rng.standard_normal())),
            ]
        )
        for i in range(n)
    ]


@pytest.mark.parametrize(("mean", "intercept"), [(False, False), (True, True)])
def test_an_uploaded_table_is_read_as_read_tasks_reads_it(opened, tmp_path, monkeypatch, mean, intercept):
    (tmp_path / "mine.csv").write_text("\n".join(table_of(np.random.default_rng(0))))
    page = opened("k=30&order=cyclic")
    page.tab.select_option("#kind", "data")
    page.changed(lambda: page.tab.set_input_files("#file", tmp_path / "mine.csv"))
    for box, wanted in (("#mean", mean), ("#intercept", intercept)):
        if wanted:
            page.changed(lambda box=box: page.tab.check(box))
    assert page.tab.inner_text("#told").startswith("mine.csv: 3 tasks")
    monkeypatch.chdir(tmp_path)
    scope = {}
    code = page.code()
    assert 'read_tasks("mine.csv", task="task", target="y"' in code
    exec(code, scope)
    assert scope["result"].average_loss[0] == pytest.approx(page.loss(), rel=1e-10)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("labels", [np.array([10, 9, 9, 10, 7, 7]), np.array(["ä", "b", "b", "ä", "a", "a"])])
def test_an_archive_is_read_too(opened, tmp_path, monkeypatch, save, labels):
    rng = np.random.default_rng(1)
    X = np.asfortranarray(rng.standard_normal((6, 2)))
    save(tmp_path / "mine.npz", X=X, y=rng.standard_normal(6).astype(np.float32), groups=labels)
    page = opened("k=9&order=cyclic&kind=data")
    page.changed(lambda: page.tab.set_input_files("#file", tmp_path / "mine.npz"))
    monkeypatch.chdir(tmp_path)
    scope = {}
    exec(page.code(), scope)
    assert scope["tasks"].n_tasks == 3
    assert scope["result"].average_loss[0] == pytest.approx(page.loss(), rel=1e-10)


def test_a_pasted_table_is_used(opened):
    page = opened("k=9&kind=data")
    page.tab.click("#paste")
    page.tab.fill("#table", "group;x;target\n2;1;1\n10;0.5;2\n2;2;2.5")
    page.changed(lambda: page.tab.click("#read"))
    assert page.tab.evaluate("App.tasks.tasks.map(t => t.label)") == ["2", "10"]  # as numbers
    scope = {}
    exec(page.code(), scope)
    assert scope["result"].average_loss[0] == pytest.approx(page.loss(), rel=1e-10)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("task,x,y\na,1", "line 2 has 2 values"),
        ("task,x,y\na,1,oops", "line 2: “y” must be a number, but is oops"),
        ("task,x,y\n\na,,2", "line 3: “x” must be a number, but is nothing"),
        ("task,x,y\na,1,inf", "must be a number"),
        ("task,x,x\na,1,2", "several columns are named “x”"),
        ("task,x,y", "no rows"),
        ("1,2,3\n4,5,6", "the first line must name the columns"),
        ('task,x,y\n"a,1,2', "a quote is never closed"),
        ("task,y\na,1", "no feature"),
        ("task,x,y\n,1,2", "line 2 names no task"),
        ("task,y," + ",".join(f"x{i}" for i in range(61)) + "\na,1," + ",".join(["1"] * 61), "61 features"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_with_the_reason(opened, text, reason):
    page = opened("kind=data")
    page.tab.click("#paste")
    page.tab.fill("#table", text)
    page.tab.click("#read")
    page.until("document.getElementById('told').textContent !== ''")
    assert reason in page.tab.inner_text("#told")
    assert page.loss() > 0  # what was there is still there


HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{script}}",
    "\u202egnp",
    "a" * 500,
    "'; DROP",
]


def test_labels_and_names_are_words_and_never_markup(opened, tmp_path):
    rows = "\n".join(f'"{label.replace(chr(34), chr(34) * 2)}",{i + 1},{i},2' for i, label in enumerate(HOSTILE))
    path = tmp_path / "<img src=x onerror=alert(2)>.csv"
    path.write_text(f'"<b>task</b>","<script>x</script>",x2,"</textarea>"\n{rows}', encoding="utf-8")
    page = opened("kind=data&k=5")
    page.changed(lambda: page.tab.set_input_files("#file", path))
    page.tab.select_option("#task", "<b>task</b>")
    page.changed(lambda: page.tab.select_option("#target", "</textarea>"))
    assert sorted(page.tab.evaluate("App.tasks.tasks.map(t => t.label)")) == sorted(HOSTILE)
    assert not page.tab.evaluate(
        "document.querySelectorAll('img, b:not(header b, .drop b), script:not([id=data])').length - 1"
    )
    compile(page.code(), "code", "exec")


def test_ten_megabytes_load_or_are_refused_with_the_reason(opened, tmp_path):
    rng = np.random.default_rng(0)
    lines = [
        ",".join([str(i % 20), *(f"{x:.6f}" for x in row)]) for i, row in enumerate(rng.standard_normal((90_000, 12)))
    ]
    path = tmp_path / "large.csv"
    path.write_text("\n".join(["task,y," + ",".join(f"x{i}" for i in range(11)), *lines]))
    assert 9e6 < path.stat().st_size < 12e6
    page = opened("kind=data&k=20")
    page.tab.set_input_files("#file", path)
    page.until("/tasks|Not used/.test(document.getElementById('told').textContent)", 60)
    assert page.tab.inner_text("#told") == "large.csv: 20 tasks, 11 features."
    assert page.tab.evaluate("App.tasks.tasks.length") == 20
    (tmp_path / "huge.csv").write_bytes(b"task,x,y\n" + b"a,1,2\n" * 6_000_000)
    page.tab.set_input_files("#file", tmp_path / "huge.csv")
    page.until("/Not used/.test(document.getElementById('told').textContent)", 60)
    assert "36 MB; this page reads 32 MB" in page.tab.inner_text("#told")


def saved(page, button, tmp_path):
    with page.tab.expect_download() as download:
        page.tab.click(button)
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_pictures_and_numbers_are_saved(opened, tmp_path):
    page = opened("k=25&kind=random&d=3&M=3")
    page.settle()
    drawing = ET.parse(saved(page, "#svg", tmp_path)).getroot()
    text = ET.tostring(drawing, encoding="unicode")
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert "var(--" not in text
    assert "class=" not in text
    assert any("yours: " in (each.text or "") for each in drawing.iter("{http://www.w3.org/2000/svg}text"))
    picture = saved(page, "#png", tmp_path)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 10_000
    rows = list(csv.DictReader(saved(page, "#csv", tmp_path).read_text().splitlines()))
    assert len(rows) == 26
    assert float(rows[-1]["loss_yours"]) == page.loss()
    assert float(rows[3]["strength"]) == page.tab.evaluate("App.now.heights[2]")
    assert float(rows[3]["gradient"]) == page.tab.evaluate("App.now.slope[2]")


def test_another_link_in_the_same_page_is_followed(opened):
    page = opened("k=20")
    page.changed(lambda: page.tab.evaluate("location.hash = 'k=31&angle=50&p=none'"))
    assert page.tab.evaluate("[App.state.k, App.state.angle, App.state.schedule.preset]") == [31, 50, "none"]


def test_steps_that_would_take_long_are_not_computed_here(opened):
    page = opened("kind=random&d=20&M=20&rows=12&k=5000&metric=forgetting&p=increasing")
    most = page.tab.evaluate("App.state.k")
    assert 5 < most < 200
    assert f"Only {most} steps" in page.tab.inner_text("#status")
