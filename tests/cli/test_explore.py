"""``forgetless explore``: a page written, or served until Ctrl-C."""

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path

import numpy as np
import pytest

from forgetless import cli
from forgetless.cli import schedules


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    rows = "".join(f"{i % 3},{x},{y},{x - y}\n" for i, (x, y) in enumerate(rng.standard_normal((30, 2))))
    path = tmp_path / "data.csv"
    path.write_text(f"task,x1,x2,y\n{rows}")
    return path


def test_a_page_is_written_with_the_tasks_inside(table, capsys):
    out = table.with_name("page.html")
    words = [
        "explore",
        str(table),
        "--task",
        "task",
        "--target",
        "y",
        "--k",
        "40",
        "--schedule",
        "fixed",
        "--out",
        str(out),
    ]
    assert cli.main(words) == 0
    assert str(out) in capsys.readouterr().out
    text = out.read_text(encoding="utf-8")
    assert '"kind":"file"' in text
    assert '"k":40' in text
    assert '"token"' not in text.split("<script>")[0]
    assert cli.main(["explore", "--out", str(out)]) == 0


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["explore", "--task", "t"], 2, "--task needs a FILE"),
        (["explore", "nowhere.csv"], 1, "there is no file"),
        (["explore", "data.csv"], 1, "choose the task, with --task NAME"),
        (["explore", "data.csv", "--task", "task", "--target", "y", "--schedule", "nothing"], 2, "no schedule"),
        (["explore", "--k", "0"], 2, "--k"),
        (["explore", "--out", "nowhere/page.html"], 1, "there is no folder"),
    ],
)
def test_what_cannot_be_shown_is_refused(table, monkeypatch, capsys, words, code, message):
    monkeypatch.chdir(table.parent)
    assert cli.main(words) == code
    assert message in capsys.readouterr().err


def test_the_token_is_in_no_command_that_others_could_see(monkeypatch):
    opened = []

    def note(address):
        path = Path(address.removeprefix("file://"))
        opened.append((address, path.read_text(), path.parent.stat().st_mode & 0o077))

    monkeypatch.setattr(webbrowser, "open", note)
    with schedules._opened("http://127.0.0.1:1/?token=secret"):
        pass
    ((address, text, others),) = opened
    assert "secret" not in address
    assert 'content="0;url=http://127.0.0.1:1/?token=secret"' in text
    assert others == 0
    assert not Path(address.removeprefix("file://")).exists()


def test_it_serves_until_ctrl_c(table):
    words = ["explore", str(table), "--task", "task", "--target", "y", "--no-browser"]
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "forgetless", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        address = process.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{32}", address)
        with urllib.request.urlopen(address) as answer:
            assert b"Draw the regularization" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.split("?")[0])
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
        assert (process.returncode, said.strip()) == (0, "stopped")
    finally:
        process.kill()
        process.communicate()


def test_a_port_in_use_is_one_sentence(capsys):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert cli.main(["explore", "--no-browser", "--port", str(port)]) == 1
    err = capsys.readouterr().err
    assert err.startswith(
        f"Error: port {port} on 127.0.0.1 is in use by another program; choose another one, or --port 0"
    )
    assert err.count("\n") == 1
