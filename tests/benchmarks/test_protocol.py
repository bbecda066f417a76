"""The benchmark's rules, files and words."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from deep import language, report, rivals, suite
from deep.__main__ import main
from deep.methods import METHODS
from deep.protocol import best, counted
from support.deep.pools import idx_files


def plan(name, c=0.5, k=5, given=(), **options):
    method = METHODS[name]
    return method.plan(dict(given) | {method.knob: c}, k, **options)


def test_plans_are_those_of_the_schedules():
    k, c = 5, 0.5
    assert plan("L2 fixed").strengths == (c,) * k
    increasing = [c * (k + 1) / (k - t + 2) for t in range(1, k + 1)]
    assert plan("EWC increasing").strengths == pytest.approx(increasing)
    assert plan("L2 reversed").strengths == pytest.approx(increasing[::-1])
    assert plan("SI linear").strengths == pytest.approx([2 * c * (t - 1) / k for t in range(1, k + 1)])
    assert plan("SI linear", pretrained=True).strengths == pytest.approx([2 * c * t / (k + 1) for t in range(1, k + 1)])
    assert plan("lr decreasing").rates == pytest.approx([1, 0.5 * 5 / 6, 0.5 * 4 / 6, 0.5 * 3 / 6, 0.5 * 2 / 6])
    assert plan("lr inverse", 2.5).rates == pytest.approx([1, 1, 2.5 / 3, 2.5 / 4, 2.5 / 5])
    assert plan("lr inverse", 2.5, pretrained=True).rates == pytest.approx([1, 2.5 / 3, 2.5 / 4, 2.5 / 5, 2.5 / 6])
    cosine = [0.5 * (1 + math.cos(math.pi * t / k)) for t in range(k)]
    assert plan("lr cosine").rates == pytest.approx([1, *(c * each for each in cosine[1:])])
    assert plan("lr cosine", pretrained=True).rates == pytest.approx([c * each for each in cosine])
    assert plan("cosine, power", given={"lr": 0.3}).rates[1:] == pytest.approx([0.3 * e**c for e in cosine[1:]])
    assert plan("steps fixed").steps == (1.0, c, c, c, c)
    assert plan("replay").rates == (c,) * k
    assert plan("finetune").strengths == (0.0,) * k
    assert plan("LwF fixed").distillation == (c,) * k
    assert plan("merge inverse", 2.0).merges == pytest.approx([1, 1, 2 / 3, 2 / 4, 2 / 5])
    assert plan("merge inverse", 2.0, pretrained=True).merges == pytest.approx([1, 2 / 3, 2 / 4, 2 / 5, 2 / 6])
    assert plan("EMA").horizon == c
    both = plan("EWC linear, cosine, EMA", given={"lr": 0.3, "average": 2.0})
    assert both.strengths == plan("EWC linear").strengths
    assert both.rates == plan("lr cosine", 0.3).rates
    assert both.horizon == 2.0


def test_gains_are_paired_and_corrected():
    rng = np.random.default_rng(0)
    base = rng.random(6)
    names = [name for method in METHODS.values() for name in (method.name, method.base) if name]
    shift = {name: 0.01 * i for i, name in enumerate(dict.fromkeys(names))}
    scores = {name: base + shift[name] + 0.01 * rng.random(6) for name in shift}
    record = {"stream": "x", "report": {name: {"score": value.tolist()} for name, value in scores.items()}}
    rows = {row["method"]: row for row in report.gains(record)}
    test = stats.ttest_rel(scores["EWC increasing"], scores["EWC fixed"])
    low, high = test.confidence_interval()
    row = rows["EWC increasing"]
    assert (row["p"], row["low"], row["high"]) == pytest.approx((test.pvalue, 100 * low, 100 * high))
    assert row["gain"] == pytest.approx(100 * np.mean(scores["EWC increasing"] - scores["EWC fixed"]))
    assert set(report.PAIRS) == {
        "L2 increasing", "EWC increasing", "MAS increasing", "SI increasing", "steps decreasing", "lr decreasing"
    }  # fmt: skip
    ordered = sorted((rows[name]["p"], rows[name]["holm"]) for name in report.PAIRS)
    wanted = np.maximum.accumulate([min(1.0, (6 - i) * p) for i, (p, _) in enumerate(ordered)])
    assert [holm for _, holm in ordered] == pytest.approx(wanted)
    assert "holm" not in rows["L2 reversed"]


def test_what_diverged_is_not_chosen():
    record = {"tuning": {"L2 fixed": {"tried": [[1.0, [0.1, 0.2]], [4.0, [0.9, None]], [16.0, [-7.0, 0.9]]]}}}
    assert best(record, "L2 fixed") == 1.0
    assert counted([None, -7.0, 0.5]).tolist() == [-1.0, -1.0, 0.5]
    assert report.near(record, "L2 fixed", points=100.0) == (1.0, 16.0)


def test_the_command_runs_and_resumes(tmp_path):
    """Toy size on the processor: all methods on one stream, stopped once, gone on with."""
    idx_files(tmp_path / "data")
    arguments = ["split-domain", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out"), "--toy"]
    run = CliRunner().invoke
    stopped = run(main, [*arguments, "--minutes", "1e-9"])
    assert stopped.exit_code == 0
    assert "the time is up in split-domain" in stopped.stderr
    done = run(main, [*arguments, "--json"])
    assert done.exit_code == 0
    gains = json.loads(done.stdout)
    assert {row["method"] for row in gains} >= set(report.PAIRS)
    record = json.loads((tmp_path / "out" / "split-domain.json").read_text())
    assert record["phase"] == "done"
    assert set(record["report"]) == set(METHODS)
    for name, method in METHODS.items():
        tried = record["tuning"][name]["tried"]
        assert len(tried) == (1 if method.knob == "none" else 11)
        assert all(len(scores) == len(record["tuning_seeds"]) for _, scores in tried)
        assert record["report"][name]["c"] in [c for c, _ in tried]
        assert len(record["report"][name]["others"]) <= 3
    single = report.untuned([record]).columns
    at = single["pull"].index("EWC increasing") + METHODS["EWC increasing"].grid().index(0.25)
    means = {c: 100 * np.mean(scores) for c, scores in record["tuning"]["EWC increasing"]["tried"]}
    alone = 100 * np.mean(record["tuning"]["finetune"]["tried"][0][1])
    assert single["lost"][at] == pytest.approx(max(means.values()) - means[0.25])
    assert single["above fine-tuning"][at] == pytest.approx(means[0.25] - alone)
    assert report.overview([record]).columns["stream"] == ["split-domain"]
    assert report.overview([record]).facts[0].startswith("of 6 comparisons ")
    before = (tmp_path / "out" / "split-domain.json").stat().st_mtime_ns
    drawn = run(main, [*arguments, "--figures"])
    assert drawn.exit_code == 0
    assert "EWC increasing" in drawn.stdout
    assert (tmp_path / "out" / "gains.png").stat().st_size > 10_000
    assert (tmp_path / "out" / "strengths.png").stat().st_size > 10_000
    assert "One strength for all streams" in (tmp_path / "out" / "table.txt").read_text()
    assert json.loads((tmp_path / "out" / "gains.json").read_text()) == gains
    assert (tmp_path / "out" / "split-domain.json").stat().st_mtime_ns == before
    (tmp_path / "out" / "split-domain.json").write_text("[1, 2")
    with pytest.raises(ValueError, match=r"split-domain.json is not a record of this benchmark"):
        run(main, arguments, catch_exceptions=False)
    record["settings"]["steps"] = 7
    (tmp_path / "out" / "split-domain.json").write_text(json.dumps(record))
    with pytest.raises(ValueError, match="was made with another settings"):
        run(main, arguments, catch_exceptions=False)


def test_language_streams_run_and_resume(tmp_path):
    """A toy transformer with and without adapters on text of two alphabets; runs of one seed do not mix."""
    rng = np.random.default_rng(0)
    size = language.N_TRAIN + 2 * language.N_EVAL
    letters = rng.integers(97, 100, (6, size), dtype=np.uint8) + 10 * np.arange(6, dtype=np.uint8)[:, None]
    np.savez(tmp_path / "text.npz", names=np.arange(6), text=letters)
    options = {"data": tmp_path, "toy": True, "tell": lambda _: None}
    names = ["finetune", "EMA", "EWC linear", "EWC linear, EMA", "merge inverse", "replay"]
    records = suite.bench(["language", "language-lora"], tmp_path / "out", methods=names, **options)
    for record in records:
        assert set(record["report"]) == set(names)
        assert all(len(record["report"][name]["along"][0]) == 2 for name in names)
    small = suite.bench(["language"], tmp_path / "small", methods=names, small=True, **options)[0]
    assert [len(small["tuning"][name]["tried"]) for name in names] == [1, 7, 7, 7, 7, 7]
    assert all(len(row["others"]) == 1 for row in small["report"].values())
    assert rivals.decision([small]).columns["combination"] == ["EWC linear, EMA"]
    few = [names[0], names[2]]
    alone = suite.bench(["language"], tmp_path / "few", methods=few, **options)[0]
    for name in few:
        mine, theirs = (dict(r["tuning"][name]["tried"]) for r in (alone, records[0]))
        assert mine.keys() == theirs.keys()
        for c in mine:
            np.testing.assert_allclose(mine[c], theirs[c], atol=2e-4)
    assert "language-lora" in (report.write(tmp_path / "out")[0]).read_text()
