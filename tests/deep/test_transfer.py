"""Choices on the first tasks of a stream: scores are those of shorter runs, and the choice is the best of them."""

from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from deep import transfer
from deep.methods import METHODS
from deep.streams import STREAMS, make
from deep.suite import TOY
from deep.training import Run, train
from support.deep.pools import idx_files, pool

SPEC = replace(STREAMS["rotated-10"], n_tasks=4, k=4)


def stream(spec):
    return make(spec, [0, 1], pool(), TOY.n, TOY.n_eval, "cpu")


def test_first_tasks_of_a_run_are_the_run_on_the_first_tasks():
    whole, shorter = transfer.measure(stream(SPEC), TOY, (2, 3)), replace(SPEC, k=3)
    last = [each for own in transfer.candidates(4).values() for each in own]
    early = [each for own in transfer.candidates(3).values() for each in own]
    assert [label for label, _, _ in last] == [label for label, _, _ in early] == whole["labels"]
    assert len(last) == 21
    for i in (0, 2, 8, 13, 18):  # of each mechanism one
        _, method, c = last[i]
        runs = [Run(METHODS[method], c, seed) for seed in (0, 1)]
        assert whole["final"][i] == pytest.approx(train(stream(SPEC), runs, TOY, part="test")[0]["score"], abs=1e-6)
        _, method, c = early[i]
        runs = [Run(METHODS[method], c, seed) for seed in (0, 1)]
        along = train(stream(shorter), runs, TOY, part="val", full=True)[0]["along"][:, -1]
        assert whole["early"]["3"][i] == pytest.approx(along, abs=1e-6)


def test_the_best_early_scores_choose():
    early = np.array([[0.5, 0.6], [0.9, 0.1], [0.7, 0.7], [np.nan, 0.8]])
    assert transfer.chosen(early) == ([1, 3], 2)
    assert transfer.chosen(np.array([[-3.0, -2.0], [np.nan, np.inf]])) == ([0, 0], 0)
    record = {"labels": ["none", "a", "b", "c"], "early": {"2": early.tolist()}}
    shown = transfer.table({"s": record | {"final": [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.9, 0.8]]}}).columns
    assert shown["one seed chooses"] == pytest.approx([100 * (0.3 + 0.8) / 2])
    assert shown["all seeds choose"] == pytest.approx([55.0])
    assert shown["best"] == pytest.approx([85.0])
    assert (shown["choice"], shown["in hindsight"]) == (["b"], ["c"])


def test_the_command(tmp_path):
    idx_files(tmp_path / "data")
    arguments = [
        "rotated-10",
        "--data",
        str(tmp_path / "data"),
        "--out",
        str(tmp_path / "out"),
        "--seeds",
        "1",
        "--toy",
    ]
    done = CliRunner().invoke(transfer.main, arguments)
    assert done.exit_code == 0
    assert done.stdout.count("rotated-10") == 2  # after 3 and after 5 tasks
    assert CliRunner().invoke(transfer.main, arguments).stdout == done.stdout
    other = CliRunner().invoke(transfer.main, arguments[:-1])
    assert "was made with another settings" in str(other.exception)
    assert CliRunner().invoke(transfer.main, [*arguments, "--after", "10"]).exit_code == 2
