"""Labels and names of strangers: in a terminal, in pages and in figures they are words, never commands."""

import contextlib
import io
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import html5lib
import numpy as np
import pytest

import forgetless as fl
from forgetless import cli
from support.cli import run

HOSTILE = [
    "[/]",
    "[bold red]x[/bold red]",
    "$\\frac{$",
    "\x1b]0;PWNED\x07\x1b[31m",
    "a\x00b",
    "\x9b2J",
    "\u202eevil",
    "<script>alert(1)</script>",
    "'; drop",
    "_hidden",
    "x" * 10_000,
    "名前",
    "line\u2028break",
    "%s{0}",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table whose tasks, and one of whose features, have hostile names."""
    import pandas

    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("hostile")
    X = rng.standard_normal((len(HOSTILE) * 6, 2))
    columns = {"[/]\x1b[31mf": X[:, 0], "<b>g": X[:, 1], "y": X @ [1.0, -2.0], "t": np.repeat(HOSTILE, 6)}
    pandas.DataFrame(columns).to_parquet(folder / "data.parquet")
    return folder / "data.parquet"


def in_terminal(folder, *words):
    """Run a command in a pseudo-terminal, with both outputs, and return its exit code and all it wrote."""
    leader, follower = pty.openpty()
    command = [Path(sys.executable).parent / "forgetless", *words]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, cwd=folder, env=environment)
    os.close(follower)
    limit = threading.Timer(120, process.kill)
    limit.start()
    written = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while part := os.read(leader, 65536):
            written += part
    os.close(leader)
    limit.cancel()
    return process.wait(120), written.decode()


COMMANDS = [
    ("fit", "data.parquet", "--task", "t", "--target", "y", "--out", "m.safetensors", "--report", "r.html"),
    ("predict", "m.safetensors", "data.parquet"),
    ("show", "m.safetensors"),
    ("explore", "data.parquet", "--task", "t", "--target", "y", "--no-browser", "--out", "page.html"),
    ("evaluate", "m.safetensors", "data.parquet"),
    ("reproduce", "reduction", "--out", "results"),
]


@pytest.mark.parametrize(
    "commands", [COMMANDS[:4], pytest.param(COMMANDS, marks=pytest.mark.long)], ids=["few", "every"]
)
def test_commands_in_a_terminal(table, commands):
    assert {command[0] for command in COMMANDS} == {name for lines in cli.GROUPS.values() for name in lines}
    for words in commands:
        code, text = in_terminal(table.parent, *words)
        assert code == 0, text[-2000:]
        harmless(text)


PLAIN = [name for name in HOSTILE if name.isprintable() and len(name) <= 60]
"""Names that are shown as they are."""


def harmless(text):
    assert "Traceback" not in text
    for code in ("\x1b]0;", "\x00", "\x9b", "\u202e", "\u2028"):
        assert code not in text
    assert "x" * 100 not in text


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "data.parquet", "--task", "\x1b[31mno", "--target", "y", "--out", "m.safetensors"),
        ("fit", "\x1b[31m.csv", "--task", "t", "--target", "y", "--out", "m.safetensors"),
        ("explore", "data.parquet", "--task", "t", "--target", "y", "--schedule", "\x1b]0;PWNED\x07"),
        ("explore", "--\x1b[31m"),
        ("no\x1b[31m",),
    ],
)
def test_mistakes_repeated_in_messages(table, words):
    code, text = in_terminal(table.parent, *words)
    assert code in (1, 2)
    assert "\x1b" not in text
    assert "Error: " in text
    assert "\\x1b" in text or "No such option: --" in text  # click 8.1 leaves control characters out


def test_a_report_and_its_figure_hold_labels_as_words(table, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run(capsys, "fit", table, "--task", "t", "--target", "y", "--out", "m", "--report", "r.html")
    assert (code, err) == (0, "")
    text = (tmp_path / "r.html").read_text()
    page = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(text)
    assert not list(page.iter("script"))
    assert {"".join(cell.itertext()) for cell in page.iter("td")} >= set(PLAIN)
    harmless(text)


@pytest.mark.filterwarnings("ignore:Glyph")
@pytest.mark.parametrize("name", HOSTILE)
def test_labels_are_drawn_as_they_are(name):
    import matplotlib as mpl

    mpl.use("Agg")
    curves = fl.expect(fl.TaskCollection([([[1.0]], [1.0])]), {name: 1.0, "other": 2.0}, 3, record="all")
    ax = curves.plot()
    ax.figure.savefig(io.BytesIO(), format="png")
    shown = ax.get_legend().get_texts()[0].get_text().strip().replace("\\$", "$")
    assert (shown == name) == (name in PLAIN)
    harmless(shown)
    mpl.pyplot.close(ax.figure)


def test_a_terminal_that_knows_few_letters():
    command = [Path(sys.executable).parent / "forgetless", "explore", "--format≥"]
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    assert done.returncode == 2, done.stderr
    assert b"\\u2265" in done.stderr


@pytest.mark.parametrize("place", ["no/such/out", ".", "/dev/null", "pipe", "kept"])
@pytest.mark.parametrize("words", ["fit --out", "fit --out m.safetensors --report", "predict m.safetensors --out"])
def test_no_work_is_done_for_places_that_cannot_be_written(table, capsys, tmp_path, monkeypatch, place, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").write_text("mine")
    (tmp_path / "kept").chmod(0o444)
    os.mkfifo(tmp_path / "pipe")
    begun = []
    for name in ("tables.read.TableFile", "io.load"):
        monkeypatch.setattr(f"forgetless.{name}", lambda *_, **__: begun.append(1))
    roles = ("--task", "t", "--target", "y") if words.startswith("fit") else ()
    code, _, err = run(capsys, *words.split(), place, table, *roles)
    assert code in (1, 2)
    assert not begun
    assert "Error: " in err
    assert (tmp_path / "kept").read_text() == "mine"
