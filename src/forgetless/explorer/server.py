"""A local server for the page of the explorer, and the results that Python computes for it.

It listens on 127.0.0.1, accepts only requests that name this address (a foreign name that resolves here is rejected,
which stops DNS rebinding), sends the page only for the token, and computes only for requests with the token in a header
that no other site can set, from the page's own origin, as JSON.
"""

import hmac
import json
import math
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from forgetless._core.arrays import Floats, to_numpy
from forgetless.advice.which_lambda import advise
from forgetless.engines.adjoint import loss_gradient
from forgetless.engines.expectation import expect
from forgetless.explorer.page import Explorer, page
from forgetless.explorer.plain import MOST_STEPS, filter_of, ordering_of, tasks_of
from forgetless.guarantees.comparison import compare_bounds
from forgetless.guarantees.upper import upper_bound
from forgetless.orderings import WithReplacement
from forgetless.reporting.text import in_words, printable
from forgetless.tasks import TaskCollection


class Answers:
    """Answers to a page's questions, by the name of what is asked for.

    Parameters
    ----------
    tasks : TaskCollection or None
        Those that questions without tasks are about.
    """

    def __init__(self, tasks: TaskCollection | None) -> None:
        self.tasks = tasks
        self.known = {"curve": self.curve, "compare_bounds": self.compare_bounds, "advise": self.advise}

    def __call__(self, action: str, question: dict[str, Any]) -> dict[str, Any]:
        """Return the answer as plain values; ValueError or TypeError says what is wrong with the question."""
        if action not in self.known:
            raise ValueError(f"there is nothing called {action!r} to ask for; there are {', '.join(self.known)}")
        try:
            return self.known[action](question)
        except (KeyError, AttributeError) as error:
            raise ValueError(f"the question is not complete: {error} is missing") from None

    def _about(self, question: dict[str, Any]) -> tuple[TaskCollection, int]:
        k = question["k"]
        if not isinstance(k, int) or not 1 <= k <= MOST_STEPS:
            raise ValueError(f"k must be a whole number in 1..{MOST_STEPS}, got {k!r}")
        if "tasks" in question:
            return tasks_of(question), k
        if self.tasks is None:
            raise ValueError("the question has no tasks, and there are none here")
        return self.tasks, k

    def curve(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return the exact curve after 0..k steps, and the gradient where there is one."""
        tasks, k = self._about(question)
        filter_, ordering, metric = filter_of(question), ordering_of(question), question["metric"]
        average, steps = question.get("average"), np.arange(k + 1)
        found = expect(tasks, filter_, k, ordering=ordering, metrics=metric, record=steps, average=average)
        slope, note = None, "no gradient for this order, measure or scheme"
        exact = isinstance(ordering, WithReplacement) and metric == "average_loss" and average is None
        if exact and question["scheme"] != "budget":
            (values,) = loss_gradient(tasks, filter_, k).parameters.values()
            slope, note = _listed(values), ""
        return {"loss": _listed(to_numpy(found.values[metric])), "slope": slope, "note": note}

    def compare_bounds(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return every bound that applies to the schedule on these tasks, and its certificate."""
        tasks, k = self._about(question)
        filter_, ordering = filter_of(question), ordering_of(question)
        found = compare_bounds(tasks, filter_, k, ordering=ordering)
        answer: dict[str, Any] = {"title": "Exact losses, and every bound that applies", "text": repr(found)}
        goal = question["metric"]
        fits = tasks.is_realizable() and isinstance(ordering, WithReplacement) and question.get("average") is None
        if fits and goal in ("average_loss", "seen_loss") and tasks.radius > 0:
            own = upper_bound(filter_, k, quantity=goal, radius=tasks.radius, distance=found.distance)
            answer |= {"upper_bound": own.value, "text": f"{own!r}\n\n{answer['text']}"}
        return answer

    def advise(self, question: dict[str, Any]) -> dict[str, Any]:
        """Return ranked schedules for these tasks."""
        tasks, k = self._about(question)
        goal = "seen_loss" if question["metric"] == "seen_loss" else "average_loss"
        found = advise(tasks, k, objective=goal, ordering=ordering_of(question))  # type: ignore[arg-type]
        return {"title": "Schedules ranked by their exact loss", "text": repr(found)}


def _listed(values: Floats) -> list[float | None]:
    """Return numbers for JSON, which knows no NaN."""
    return [float(x) if math.isfinite(x) else None for x in values]


MOST_BYTES = 256 * 2**20
"""Of a question, which may hold a user's tasks."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class ExplorerServer(ThreadingHTTPServer):
    """Serves one explorer; ``address`` is what a browser opens.

    Examples
    --------
    >>> import forgetless as fl
    >>> from forgetless.explorer.server import ExplorerServer
    >>> with ExplorerServer(fl.explore()) as server:
    ...     server.address.startswith("http://127.0.0.1:")
    True
    """

    daemon_threads = True

    def __init__(self, explorer: Explorer, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.token = secrets.token_urlsafe(24)
        held = explorer.tasks is not None
        self.page = page({**explorer.data, "token": self.token, "held": held}, served=True).encode()
        self.answers = Answers(explorer.tasks)
        self.one = threading.Lock()  # computations one after the other, each with all processors

    @property
    def address(self) -> str:
        """The address of the page, with its token."""
        return f"http://127.0.0.1:{self.server_port}/?token={self.token}"

    def hosts(self) -> tuple[str, ...]:
        """Return how a request may name this server."""
        return tuple(f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost"))


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    timeout = 60
    server_version, sys_version = "forgetless", ""

    def do_GET(self) -> None:
        if not self._named():
            return
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path != "/":
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")
        elif not self._known(query.get("token", [""])[0]):
            self._refuse(HTTPStatus.FORBIDDEN, "open the address that forgetless explore printed, with its token")
        else:
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)

    def do_POST(self) -> None:
        if not self._named():
            return
        path, kind = urlsplit(self.path).path, self.headers.get("Content-Type", "").split(";")[0].strip()
        if self.headers.get("Origin", "") not in [f"http://{host}" for host in self.server.hosts()]:
            self._refuse(HTTPStatus.FORBIDDEN, "questions come from the page itself")
        elif not self._known(self.headers.get("X-Forgetless-Token", "")):
            self._refuse(HTTPStatus.FORBIDDEN, "the token is wrong; open the address that forgetless explore printed")
        elif kind != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "questions are JSON")
        elif not path.startswith("/api/"):
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here")
        else:
            self._answer(path.removeprefix("/api/"))

    def _answer(self, action: str) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a question has at most {MOST_BYTES} bytes")
            return
        try:
            question = json.loads(self.rfile.read(int(length)), parse_constant=_no_number)
            if not isinstance(question, dict):
                raise ValueError("a question is an object")
            with self.server.one:
                found = self.server.answers(action, question)
            self._send(HTTPStatus.OK, "application/json", json.dumps(found, allow_nan=False).encode())
        except (ValueError, TypeError, MemoryError, ArithmeticError, RecursionError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, printable(" ".join(str(error).split()), 1000) or type(error).__name__)
        except Exception as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, in_words(error, 1000))

    def _named(self) -> bool:
        if self.headers.get("Host", "") in self.server.hosts():
            return True
        self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this server answers only as 127.0.0.1")
        return False

    def _known(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.server.token.encode())

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        # What was not read of a question would be taken for the next request.
        self.close_connection = True
        self._send(status, "application/json", json.dumps({"error": reason}).encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the token is part of the address."""


def _no_number(text: str) -> None:
    raise ValueError(f"numbers must be finite, got {text}")
