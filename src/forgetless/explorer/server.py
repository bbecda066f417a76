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
from forgetless.reporting.text import error_text, printable
from forgetless.tasks import TaskCollection


class Computations:
    """Computations that a page requests by name.

    Parameters
    ----------
    tasks : TaskCollection or None
        Tasks of requests that send none.
    """

    def __init__(self, tasks: TaskCollection | None) -> None:
        self.tasks = tasks
        self._actions = {"curve": self.curve, "compare_bounds": self.compare_bounds, "advise": self.advise}

    def __call__(self, action: str, request: dict[str, Any]) -> dict[str, Any]:
        """Return the result as plain values; ValueError or TypeError if the request is invalid."""
        if action not in self._actions:
            raise ValueError(f"there is no computation {action!r}; there are {', '.join(self._actions)}")
        try:
            return self._actions[action](request)
        except (KeyError, AttributeError) as error:
            raise ValueError(f"the request is not complete: {error} is missing") from None

    def _tasks_and_steps(self, request: dict[str, Any]) -> tuple[TaskCollection, int]:
        k = request["k"]
        if not isinstance(k, int) or not 1 <= k <= MOST_STEPS:
            raise ValueError(f"k must be a whole number in 1..{MOST_STEPS}, got {k!r}")
        if "tasks" in request:
            return tasks_of(request), k
        if self.tasks is None:
            raise ValueError("the request has no tasks, and there are none here")
        return self.tasks, k

    def curve(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the exact curve after 0..k steps, and the gradient where there is one."""
        tasks, k = self._tasks_and_steps(request)
        filter_, ordering, metric = filter_of(request), ordering_of(request), request["metric"]
        average, steps = request.get("average"), np.arange(k + 1)
        expectation = expect(tasks, filter_, k, ordering=ordering, metrics=metric, record=steps, average=average)
        slope, note = None, "no gradient for this order, measure or scheme"
        exact = isinstance(ordering, WithReplacement) and metric == "average_loss" and average is None
        if exact and request["scheme"] != "budget":
            (values,) = loss_gradient(tasks, filter_, k).parameters.values()
            slope, note = _listed(values), ""
        return {"loss": _listed(to_numpy(expectation.values[metric])), "slope": slope, "note": note}

    def compare_bounds(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return every bound that applies to the schedule on these tasks, and its certificate."""
        tasks, k = self._tasks_and_steps(request)
        filter_, ordering = filter_of(request), ordering_of(request)
        comparison = compare_bounds(tasks, filter_, k, ordering=ordering)
        result: dict[str, Any] = {"title": "Exact losses, and every bound that applies", "text": repr(comparison)}
        goal = request["metric"]
        fits = tasks.is_realizable() and isinstance(ordering, WithReplacement) and request.get("average") is None
        if fits and goal in ("average_loss", "seen_loss") and tasks.radius > 0:
            bound = upper_bound(filter_, k, quantity=goal, radius=tasks.radius, distance=comparison.distance)
            result |= {"upper_bound": bound.value, "text": f"{bound!r}\n\n{result['text']}"}
        return result

    def advise(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return ranked schedules for these tasks."""
        tasks, k = self._tasks_and_steps(request)
        goal = "seen_loss" if request["metric"] == "seen_loss" else "average_loss"
        advice = advise(tasks, k, objective=goal, ordering=ordering_of(request))  # type: ignore[arg-type]
        return {"title": "Schedules ranked by their exact loss", "text": repr(advice)}


def _listed(values: Floats) -> list[float | None]:
    """Return numbers for JSON, which has no NaN."""
    return [float(x) if math.isfinite(x) else None for x in values]


MOST_BYTES = 256 * 2**20
"""Largest request, which may hold a user's tasks."""

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
        self.computations = Computations(explorer.tasks)
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
        if not self._is_local():
            return
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path != "/":
            self._reject(HTTPStatus.NOT_FOUND, "there is nothing here")
        elif not self._is_token(query.get("token", [""])[0]):
            self._reject(HTTPStatus.FORBIDDEN, "open the address that forgetless explore printed, with its token")
        else:
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)

    def do_POST(self) -> None:
        if not self._is_local():
            return
        path, kind = urlsplit(self.path).path, self.headers.get("Content-Type", "").split(";")[0].strip()
        if self.headers.get("Origin", "") not in [f"http://{host}" for host in self.server.hosts()]:
            self._reject(HTTPStatus.FORBIDDEN, "requests must come from the page itself")
        elif not self._is_token(self.headers.get("X-Forgetless-Token", "")):
            self._reject(HTTPStatus.FORBIDDEN, "the token is wrong; open the address that forgetless explore printed")
        elif kind != "application/json":
            self._reject(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "requests must be JSON")
        elif not path.startswith("/api/"):
            self._reject(HTTPStatus.NOT_FOUND, "there is nothing here")
        else:
            self._compute(path.removeprefix("/api/"))

    def _compute(self, action: str) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MOST_BYTES:
            self._reject(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {MOST_BYTES} bytes")
            return
        try:
            request = json.loads(self.rfile.read(int(length)), parse_constant=_no_number)
            if not isinstance(request, dict):
                raise ValueError("a request must be an object")
            with self.server.one:
                result = self.server.computations(action, request)
            self._send(HTTPStatus.OK, "application/json", json.dumps(result, allow_nan=False).encode())
        except (ValueError, TypeError, MemoryError, ArithmeticError, RecursionError) as error:
            self._reject(HTTPStatus.BAD_REQUEST, printable(" ".join(str(error).split()), 1000) or type(error).__name__)
        except Exception as error:
            self._reject(HTTPStatus.INTERNAL_SERVER_ERROR, error_text(error, 1000))

    def _is_local(self) -> bool:
        if self.headers.get("Host", "") in self.server.hosts():
            return True
        self._reject(HTTPStatus.MISDIRECTED_REQUEST, "this server answers only as 127.0.0.1")
        return False

    def _is_token(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.server.token.encode())

    def _reject(self, status: HTTPStatus, reason: str) -> None:
        # The unread rest of a request would be taken for the next request.
        self.close_connection = True
        self._send(status, "application/json", json.dumps({"error": reason}).encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the token is part of the address."""


def _no_number(text: str) -> None:
    raise ValueError(f"numbers must be finite, got {text}")
