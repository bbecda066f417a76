"""The server: what it answers, and to whom it does not."""

import http.client
import json
import socket
import struct
import threading
import time

import numpy as np
import pytest

import forgetless as fl
from forgetless.explorer import requests
from forgetless.explorer import server as servers
from forgetless.explorer.server import MOST_CONNECTIONS, ExplorerServer
from forgetless.explorer.view import explore

RNG = np.random.default_rng(0)
LARGE = fl.TaskCollection([(X := RNG.standard_normal((20, 80)), X @ np.ones(80)) for _ in range(5)])


@pytest.fixture(scope="module")
def server():
    with ExplorerServer(explore(LARGE, k=20, large=True)) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def request(server, method, path, body=None, **headers):
    """Send exactly these headers beside the length; return the status and what came back."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {
        "Host": f"127.0.0.1:{server.server_port}",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    if content is not None and "Content-Length" not in given:
        given["Content-Length"] = str(len(content))
    for name, value in given.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(content)
    answer = connection.getresponse()
    found = answer.status, dict(answer.headers), answer.read()
    connection.close()
    return found


def ask(server, action, question, **changed):
    origin = f"http://127.0.0.1:{server.server_port}"
    headers = {"Origin": origin, "X_Forgetless_Token": server.token, "Content_Type": "application/json", **changed}
    status, _, body = request(server, "POST", f"/api/{action}", question, **headers)
    return status, json.loads(body)


QUESTION = {"k": 8, "order": "with", "metric": "average_loss", "average": None, "scheme": "ridge", "values": [1.0] * 8}
QUESTION |= {"other": None}
TASKS = {"d": 2, "tasks": [{"X": [1.0, 0.0], "y": [1.0]}, {"X": [0.6, 0.8], "y": [0.6], "count": 2}]}


def test_the_page_comes_for_the_token_and_cannot_be_framed(server):
    status, headers, body = request(server, "GET", f"/?token={server.token}")
    assert status == 200
    assert server.token.encode() in body
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=wrong", "/?token=%C3%A9"])
def test_without_the_token_there_is_no_page(server, path):
    status, _, body = request(server, "GET", path)
    assert status == 403
    assert server.token.encode() not in body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "", None, "127.0.0.1.evil.example"])
def test_a_name_that_is_not_ours_is_refused(server, host):
    """DNS rebinding: a stranger's name resolves to this machine, and the browser says that name."""
    status, _, body = request(server, "GET", f"/?token={server.token}", Host=host)
    assert status in (400, 421)
    assert b"<html" not in body
    assert ask(server, "curve", QUESTION, Host=host)[0] in (400, 421)


@pytest.mark.parametrize(
    "changed",
    [
        {"Origin": "http://evil.example"},
        {"Origin": None},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"X_Forgetless_Token": None},
        {"X_Forgetless_Token": "wrong"},
    ],
)
def test_questions_of_other_sites_are_refused(server, changed):
    status, answer = ask(server, "curve", QUESTION, **changed)
    assert status == 403
    assert set(answer) == {"error"}


def test_a_form_of_another_site_is_no_question(server):
    status, _ = ask(server, "curve", QUESTION, Content_Type="text/plain")
    assert status == 415


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "HEAD"])
def test_other_methods_are_not_known(server, method):
    assert request(server, method, "/")[0] == 501


@pytest.mark.parametrize(
    ("action", "body", "reason"),
    [
        ("curve", b"{", "Expecting"),
        ("curve", b"[]", "a request must be an object"),
        ("curve", b'{"k": NaN}', "must be finite"),
        ("curve", b"[" * 100_000, ""),
        ("nothing", QUESTION, "action must be one of"),
        ("curve", {**QUESTION, "k": 10**9}, "k must be"),
        ("curve", {**QUESTION, "values": [1.0] * 3}, "3"),
        ("curve", {**QUESTION, "values": [-1.0] * 8}, "coefficient"),
        ("curve", {**QUESTION, "metric": "beauty"}, "metrics must be"),
        ("curve", {"k": 3}, "not complete"),
        ("curve", {**QUESTION, "d": 2, "tasks": [{"X": [1.0], "y": [1.0]}]}, "X must hold 2 values"),
        ("curve", {**QUESTION, "d": 1, "tasks": []}, "empty collection"),
        ("curve", {**QUESTION, "d": 1, "tasks": [{"X": [1.0], "y": [1.0], "count": 10**15}]}, "copies"),
        (
            "advise",
            {**QUESTION, "d": 1, "tasks": [{"X": [1.0], "y": [1.0], "count": 3 * 10**7}]},
            "at most 60 features",
        ),
        ("curve", {**QUESTION, "d": 1, "tasks": [{"X": [1.0], "y": [1.0]}] * 2001}, "2000 tasks"),
        ("curve", {**QUESTION, "d": 61, "tasks": [{"X": [1.0] * 61, "y": [1.0]}]}, "at most 60 features"),
        ("curve", {**QUESTION, "order": "one", "sequence": [99] * 8}, "99"),
    ],
)
def test_a_bad_question_gets_a_sentence(server, action, body, reason):
    status, answer = ask(server, action, body)
    assert status == 400
    assert reason in answer["error"]
    assert ask(server, "curve", QUESTION)[0] == 200  # and the server goes on


@pytest.mark.parametrize("length", ["-1", "x", str(10**12), "9" * 5000])
def test_a_question_without_an_honest_length_is_refused(server, length):
    assert ask(server, "curve", b"{}", Content_Length=length)[0] == 413


@pytest.mark.parametrize("order", ["with", "reshuffled", "without", "cyclic"])
def test_curves_are_exact_for_tasks_that_only_python_holds(server, order):
    k = 5 if order == "without" else 8
    status, answer = ask(server, "curve", {**QUESTION, "order": order, "k": k, "values": [1.0] * k})
    assert status == 200
    named = {
        "with": fl.WithReplacement,
        "reshuffled": fl.RandomReshuffling,
        "without": fl.WithoutReplacement,
        "cyclic": fl.Cyclic,
    }
    want = fl.expect(LARGE, fl.Ridge(np.ones(k)), k, ordering=named[order](), record=np.arange(k + 1)).average_loss
    np.testing.assert_allclose(answer["loss"], want, rtol=1e-12)
    if order == "with":
        np.testing.assert_allclose(answer["slope"], fl.loss_gradient(LARGE, fl.Ridge(np.ones(k)), k).coefficient)
    else:
        assert answer["slope"] is None


def test_losses_that_are_not_defined_are_null(server):
    _, answer = ask(server, "curve", {**QUESTION, "metric": "seen_loss"})
    assert answer["loss"][0] is None
    assert answer["loss"][1] > 0


def test_python_certifies_and_advises_on_tasks_of_the_page(server):
    status, answer = ask(server, "compare_bounds", {**QUESTION, **TASKS})
    assert status == 200
    assert answer["upper_bound"] == pytest.approx(fl.upper_bound(fl.Ridge(1.0), 8, distance=1.0).value, rel=1e-6)
    assert "bound that applies" in answer["text"]
    status, answer = ask(server, "advise", {**QUESTION, **TASKS})
    assert status == 200
    assert answer["text"].startswith("Which λ?")


def test_no_certificate_for_an_order_that_no_theorem_covers(server):
    _, answer = ask(server, "compare_bounds", {**QUESTION, **TASKS, "order": "cyclic"})
    assert "upper_bound" not in answer


@pytest.mark.parametrize("path", ["//[", "/api/curve//[", "http://[/", "/%zz", "/?token=%ff&" + "a=1&" * 2000])
def test_a_malformed_address_is_a_sentence_and_no_traceback(server, capfd, path):
    headers = {"Origin": f"http://127.0.0.1:{server.server_port}", "X_Forgetless_Token": server.token}
    for method in ("GET", "POST"):
        status, _, body = request(server, method, path, Content_Type="application/json", **headers)
        assert status in (403, 404, 413)
        assert set(json.loads(body)) == {"error"}
    assert capfd.readouterr().err == ""


def abort(connection):
    """Close a connection as a browser does whose tab was closed: at once, with what was not read."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_a_tab_that_closes_leaves_no_traceback(server, capfd, monkeypatch):
    computing, closed = threading.Event(), threading.Event()

    def slow(action, request):
        computing.set()
        closed.wait(30)
        return {"text": "x" * 10**7}

    with monkeypatch.context() as patch:
        patch.setattr(server, "requests", slow)
        body = json.dumps(QUESTION).encode()
        lines = [
            "POST /api/curve HTTP/1.1",
            f"Host: 127.0.0.1:{server.server_port}",
            f"Origin: http://127.0.0.1:{server.server_port}",
            f"X-Forgetless-Token: {server.token}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
        ]
        tab = socket.create_connection(("127.0.0.1", server.server_port))
        tab.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        assert computing.wait(30)
        abort(tab)
        closed.set()
        half = socket.create_connection(("127.0.0.1", server.server_port))
        half.sendall(b"GET / HT")
        abort(half)
        assert ask(server, "curve", QUESTION)[0] == 200
    while server._slots._value < MOST_CONNECTIONS:  # until the threads of both have ended
        time.sleep(0.01)
    assert capfd.readouterr().err == ""


def test_an_unexpected_error_is_one_line(server, capfd):
    try:
        raise RuntimeError("odd")
    except RuntimeError:
        server.handle_error(None, None)
    assert capfd.readouterr().err == "Error: RuntimeError: odd\n"


def test_there_are_not_more_connections_than_the_limit(server):
    idle = [socket.create_connection(("127.0.0.1", server.server_port)) for _ in range(MOST_CONNECTIONS)]
    while server._slots._value:
        time.sleep(0.01)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        request(server, "GET", "/")
    for connection in idle:
        connection.close()
    while not server._slots._value:
        time.sleep(0.01)
    assert request(server, "GET", "/")[0] == 403


def test_a_long_computation_does_not_make_others_wait_for_ever(server, monkeypatch):
    monkeypatch.setattr(servers, "PATIENCE", 0.01)
    assert server._lock.acquire()
    try:
        status, answer = ask(server, "curve", QUESTION)
    finally:
        server._lock.release()
    assert (status, answer) == (503, {"error": "Python is busy with another computation; try again when it has ended"})
    assert ask(server, "curve", QUESTION)[0] == 200


@pytest.mark.parametrize("action", ["curve", "advise"])
def test_a_computation_ends_when_its_time_is_over(server, monkeypatch, action):
    monkeypatch.setattr(requests, "MOST_SECONDS", -1.0)
    status, answer = ask(server, action, {**QUESTION, **TASKS})
    assert status == 400
    assert "the most for a page; use fewer steps or tasks" in answer["error"]


def test_a_port_in_use_is_named(server):
    message = f"port {server.server_port} on 127.0.0.1 is in use by another program; .* --port 0"
    with pytest.raises(OSError, match=message):
        ExplorerServer(explore(), server.server_port)
