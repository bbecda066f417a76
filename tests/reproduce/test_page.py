"""The report of ``forgetless reproduce``: complete, right, and replaced as a whole or not at all."""

import json
import re
import signal
import subprocess
import sys
from pathlib import Path

import html5lib
import matplotlib as mpl
import numpy as np
import pytest

import forgetless as fl
from forgetless import cli, reproduce
from forgetless.reproduce import figures
from support import literal
from support.cli import run

mpl.use("Agg")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report") / "of" / "results"
    assert cli.main(["reproduce", "--out", str(folder)]) == 0
    return folder


def test_the_report_is_complete_and_valid(made):
    horizons = {"figure": range(1, 1025), "rates": 2 ** np.arange(2, 11), "unregularized": 2 ** np.arange(2, 11)}
    for part in figures.PARTS:
        assert (made / f"{part}.csv").stat().st_size > 100
        columns = json.loads((made / f"{part}.json").read_text())["columns"]
        assert set(columns.get("k", ())) == set(horizons.get(part, ()))
        assert len(columns.get("t", [0] * 24)) == 24
        assert set(columns.get("fitted on k", ["128..1024"])) == {"128..1024"}
        assert (made / f"{part}.csv").read_text().split("\n")[0].split(",")[0] == next(iter(columns))
    for name in ("figure", "unregularized", "reduction", *(f"rates-{i}" for i in range(1, 7))):
        assert (made / f"{name}.png").read_bytes()[:4] == b"\x89PNG"
        assert (made / f"{name}.pdf").read_bytes()[:4] == b"%PDF"
        assert b"Type3" not in (made / f"{name}.pdf").read_bytes()  # fonts are embedded as fonts
    text = (made / "report.html").read_text()
    parser = html5lib.HTMLParser(strict=True)
    parser.parse(text)
    assert text.count("<img alt=") == text.count("<img") == 1 + len(figures.SHOWN) + 1 + 1
    assert text.count('type="checkbox" aria-label="enlarge the figure"') == text.count("<img")
    assert "prefers-color-scheme:dark" in text
    assert "viewport" in text
    for part in figures.PARTS:
        assert f"forgetless reproduce {part}" in text
    for absent in ("http://", "https://", "^{", "_{"):
        assert absent not in text
    assert "c<sub>k+1</sub>" in text
    assert "C(k) = e<sup>2 − 1/(4 ln k)</sup>" in text


def test_every_name_in_the_report_is_explained(made):
    """Families, schedules and what is measured, by the words that stand in tables and figures."""
    text = (made / "report.html").read_text()
    said = text[text.index('id="terms"') :]
    said = said[: said.index("</section>")]
    names = [name.split(",")[0] for name in (*reproduce.FAMILIES, *reproduce.SCHEDULES)]
    for word in (*names, "worst-case loss", "some tasks", "upper bound", "λ⋆", "θ"):
        assert word in said, word


def rows_of(table):
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows()]


def test_numbers_of_the_report_against_independent_computations():
    """A sample of the rates by literal enumeration of all orders, and of the figure by a fine grid."""
    for row in rows_of(reproduce.rates(range(2, 4))):
        k = row["k"]
        if row["family"] != "two tasks, π/16" and (row["family"], k) != ("unseen task", 4):
            continue
        tasks = reproduce.FAMILIES[row["family"]](k)
        filter_ = fl.schedules.resolve(reproduce.SCHEDULES[row["schedule"]], k, tasks.radius)
        unlabelled = [(task.X, 0 * task.X) for task in tasks]
        V, H = np.zeros((2, 2)), sum(task.X.T @ task.X for task in tasks) / tasks.n_tasks
        for order, probability in literal.all_orderings(tasks.n_tasks, k):
            product = literal.run(unlabelled, order, literal.step_of(filter_), np.eye(2))[-1]
            V += probability * product.T @ H @ product
        assert row["loss"] == pytest.approx(0.5 * np.linalg.eigvalsh(V)[-1], rel=1e-9)
    for row in rows_of(reproduce.optimum(200))[10::100]:
        grid = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 5000)])
        losses = fl.theory.two_task_loss(row["theta"], grid, row["k"])
        assert row["loss"] <= losses.min() * (1 + 1e-9)
    for row in rows_of(reproduce.unregularized(range(2, 4))):
        k = row["k"]
        assert row["increasing, published"] == pytest.approx(20 * k / (k + 1))
        chains = [fl.theory.constructions.jump_chain(n, k).claim(fl.Projection(), k) for n in range(1, 6)]
        assert row["no regularization, some tasks"] == k * max(chains)
        for name, schedule in (("no regularization", "none"), ("fixed, λ = 3R²/7", 3 / 7)):
            assert row[name] == pytest.approx(k * fl.upper_bound(schedule, k).value)
        assert row["any algorithm, some tasks"] == pytest.approx(0.5 * (k / (k + 1)) ** (k + 1))


def test_slopes_are_those_of_the_last_points_and_facts_name_the_best():
    rates = reproduce.rates(range(2, 6))
    measured, table = rows_of(rates), reproduce.slopes(rates, last=3)
    for row in rows_of(table):
        part = [each for each in measured if all(each[name] == row[name] for name in ("family", "schedule"))]
        x, z = (np.log([max(each[name], 1e-300) for each in part[-3:]]) for name in ("k", "loss"))
        assert row["slope"] == pytest.approx(np.cov(x, z)[0, 1] / np.var(x, ddof=1))
        assert (row["fitted on k"], row["k·loss at the end"]) == ("8..32", 32 * part[-1]["loss"])
        assert row["k·loss at the end"] <= min(row["k·bound at the end"], row["k·upper bound at the end"])
        assert row["k·bound at the end"] == 32 * part[-1]["bound"] <= 16
    for family, fact in zip(reproduce.FAMILIES, table.facts, strict=True):
        ranges = re.findall(r"(?:with|,) ([a-z ]+) \(k = (\d+)(?:\.\.(\d+))?\)", fact)
        best = {int(k): name for name, first, last in ranges for k in (first, last or first)}
        assert {4, 32} <= best.keys()
        for k, name in best.items():
            part = [each for each in measured if (each["family"], each["k"]) == (family, k)]
            assert name == min(part, key=lambda each: each["loss"])["schedule"]


def test_families_are_of_the_sizes_that_are_stated():
    for kind in ("fixed", "increasing"):
        assert np.min(fl.schedules.resolve(reproduce.SCHEDULES[f"{kind} budget"], 64, 1.0).n_steps) == 4
    made = {name: family(16) for name, family in reproduce.FAMILIES.items()}
    random = {"random, rank 1": (20, 10, 1), "random, rank 3": (10, 20, 3), "ill-conditioned": (12, 8, 2)}
    for name, size in random.items():
        assert (made[name].n_tasks, made[name].n_features, max(made[name].ranks)) == size
        np.testing.assert_allclose(made[name].radii, 1.0)
        columns = np.linalg.norm(np.concatenate([task.X for task in made[name]]), axis=0)
        assert (columns[-1] < 0.1 * columns[0]) == (name == "ill-conditioned")
    for n in (16, 64):
        np.testing.assert_allclose(made[f"two tasks, π/{n}"][1].X, [[np.cos(np.pi / n), np.sin(np.pi / n)]])


def test_figures_draw_their_tables():
    optimum, rates = reproduce.optimum(100), reproduce.rates(range(2, 4))
    lines = list(figures.plot_optimum(optimum).get_lines())
    for at, line in enumerate(lines):
        if line.get_label().startswith("θ = "):
            curve = optimum.where(angle=line.get_label()[4:]).columns
            k, theta, best = (np.array(curve[name]) for name in ("k", "theta", "coefficient"))
            np.testing.assert_array_equal(line.get_ydata(), np.where(best > 0, best, np.nan))
            if best[-1] == 0:
                drop = lines[at + 1]  # at the lower end of the axis, and not cut off there
                assert (drop.get_xdata()[0], drop.get_clip_on()) == (1 + k[best > 0].max(), False)
                assert drop.get_ydata()[0] == drop.axes.get_ylim()[0]
                drop, zero = ((1 + k[at]) * theta[0] ** 2 for at in (best.argmax(), np.flatnonzero(best)[-1]))
                fact = f"θ = {line.get_label()[4:]}: drops at kθ² = {drop:.2f}, exactly 0 from kθ² = {zero:.2f} on"
                assert fact in optimum.facts
            guide = lines[at + 1 + (best[-1] == 0)]
            assert guide.get_xdata().tolist() == k[k * theta**2 <= 1].tolist()
            np.testing.assert_allclose(guide.get_ydata(), guide.get_xdata() / np.log(1 / np.tan(theta[0] / 2)))
    lines = figures.plot_rates(rates, "unseen task").get_lines()
    assert 1e-8 < lines[0].axes.get_ylim()[0] < 1 / 64
    drawn = {line.get_label(): line.get_ydata().tolist() for line in lines}
    assert drawn.pop("1/k") == [1 / 4, 1 / 8]
    assert drawn.pop("lower bound 1/(8k)") == [1 / 32, 1 / 64]
    assert drawn == {name: rates.where(family="unseen task", schedule=name).columns["loss"] for name in drawn}
    losses = rates.columns["loss"]
    losses[:] = [1e-10 * each for each in losses]  # as of tasks that are solved exactly
    assert figures.plot_rates(rates, "unseen task").get_ylim()[0] == 1e-8
    path = reproduce.reduction(5)
    first, *_, solution = figures.plot_reduction(path).get_lines()
    assert first.get_xydata().T.tolist() == [[0, *path.columns[name][:5]] for name in ("w1", "w2")]
    assert solution.get_xydata().tolist() == [[1.0, -0.6]]


def test_paths_are_those_of_literal_steps():
    table, order = reproduce.reduction(40), np.random.default_rng(5).integers(3, size=40)
    rows = [np.array([[np.cos(angle), np.sin(angle)]]) for angle in (0.2, 1.1, 2.3)]
    pairs = [(X, X @ [1.0, -0.6]) for X in rows]
    budget = fl.schedules.increasing_budget(5, scale=2 / 3)(40, 1.0)
    for scheme, filter_ in (("explicit L2", fl.Ridge(41 / 1.5 / np.arange(41, 1, -1))), ("step budget", budget)):
        path = literal.run(pairs, order, literal.step_of(filter_), np.zeros(2))
        part = table.where(scheme=scheme).columns
        for at, names in ((0, ("w1", "descent1")), (1, ("w2", "descent2"))):
            for name in names:
                np.testing.assert_allclose(part[name], path[:, at], rtol=1e-9, atol=1e-12)
        assert part["t"] == list(range(1, 41))
    assert all(float(fact.split()[-1]) < 1e-12 for fact in table.facts)


def test_a_part_has_a_folder_of_its_own(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "reproduce", "reduction", "--json")
    assert (code, Path(json.loads(out)["report"]).exists()) == (0, True)
    assert [path.name for path in tmp_path.iterdir()] == ["results-reduction"]
    files = sorted(path.name for path in (tmp_path / "results-reduction").iterdir())
    assert files == [*(f"reduction.{kind}" for kind in ("csv", "json", "pdf", "png")), "report.html"]
    (tmp_path / "results-reduction" / "notes.txt").write_text("mine")
    code, _, err = run(capsys, "reproduce", "reduction")
    assert (code, "notes.txt" in err) == (1, True)
    assert (tmp_path / "results-reduction" / "notes.txt").read_text() == "mine"
    code, _, err = run(capsys, "reproduce", "reduction", "--out", tmp_path / "results-reduction" / "notes.txt")
    assert (code, "is a file" in err) == (1, True)


# Stops with a half-written report and says so, then waits for its signal. A shell's background jobs ignore SIGINT, and
# hand that down; without the first line the process would stay there for ever.
HALF_WRITTEN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from forgetless.reproduce import figures
from forgetless.cli import run

def stopped(*_, **__):
    print("half-written", flush=True)
    sys.stdin.read()

figures._draw = stopped
run()
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_interruption_leaves_the_old_report(how, tmp_path):
    folder, before = tmp_path / "results", {"report.html": b"old page", "reduction.csv": b"old numbers"}
    folder.mkdir()
    for name, content in before.items():
        (folder / name).write_bytes(content)
    command = [sys.executable, "-c", HALF_WRITTEN, "reproduce", "reduction", "--out", folder]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True) as process:
        try:
            assert process.stdout.readline() == "half-written\n"
            (scratch,) = tmp_path.glob(".results-*")
            assert sorted(path.name for path in (scratch / "fresh").iterdir()) == ["reduction.csv", "reduction.json"]
            process.send_signal(how)
            _, said = process.communicate()
        finally:
            process.kill()
    assert (process.returncode, said.strip()) == ((130, "interrupted") if how == signal.SIGINT else (-9, ""))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert scratch.exists() == (how == signal.SIGKILL)  # after which nothing can tidy up
