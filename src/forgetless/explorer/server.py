"""A local HTTP server of the page and of the computations it requests.

It listens on 127.0.0.1 and rejects requests with another host name (DNS rebinding). The page is
sent only with the token in its address; computations need the token in a header, which no other
site can set, and the page's own origin.
"""

import errno
import hmac
import json
import secrets
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from forgetless._core.text import error_text, printable
from forgetless.explorer.page import page
from forgetless.explorer.requests import Requests
from forgetless.explorer.view import Explorer

MOST_BYTES = 64 * 2**20
"""Most bytes of a request, which may hold the tasks."""

MOST_CONNECTIONS = 32
"""Connections that are served at a time; a browser has up to six."""

PATIENCE = 5.0
"""Seconds for which a request waits for the computation of another one."""

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class BusyError(Exception):
    """Another computation takes long."""


class ExplorerServer(ThreadingHTTPServer):
    """Server of one explorer at ``address``.

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
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            reason = (
                "is in use by another program"
                if error.errno == errno.EADDRINUSE
                else f"failed: {error.strerror}"
            )
            raise OSError(
                f"port {port} on 127.0.0.1 {reason}; choose another one, or --port 0 for any that"
                " is free"
            ) from None
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.token = secrets.token_urlsafe(24)
        held = explorer.tasks is not None
        self.page = page({**explorer.data, "token": self.token, "held": held}, served=True).encode()
        self.requests = Requests(explorer.tasks)
        self._lock = threading.Lock()  # computations one after the other, each with all processors

    @property
    def address(self) -> str:
        """The address of the page, with its token."""
        return f"http://127.0.0.1:{self.server_port}/?token={self.token}"

    def compute(self, action: str, request: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request; BusyError if another one takes long."""
        if not self._lock.acquire(timeout=PATIENCE):
            raise BusyError("Python is busy with another computation; try again when it has ended")
        try:
            return self.requests(action, request)
        finally:
            self._lock.release()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own; close it if there are too many."""
        if self._slots.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that the browser closed; report other errors in one line."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError | TimeoutError):
            sys.stderr.write(f"Error: {error_text(error, 1000)}\n")

    def hosts(self) -> tuple[str, ...]:
        """Return the host names of valid requests."""
        return tuple(f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost"))


class _Handler(BaseHTTPRequestHandler):
    server: ExplorerServer
    timeout = 60
    server_version, sys_version = "forgetless", ""

    def do_GET(self) -> None:
        if not self._check_host():
            return
        path, _, query = self.path.partition("?")
        if path != "/":
            self._reject(HTTPStatus.NOT_FOUND, "there is nothing here")
        elif not self._is_token(parse_qs(query).get("token", [""])[0]):
            self._reject(
                HTTPStatus.FORBIDDEN,
                "open the address that forgetless explore printed, with its token",
            )
        else:
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)

    def do_POST(self) -> None:
        if not self._check_host():
            return
        path, kind = (
            self.path.partition("?")[0],
            self.headers.get("Content-Type", "").split(";")[0].strip(),
        )
        if self.headers.get("Origin", "") not in [f"http://{host}" for host in self.server.hosts()]:
            self._reject(HTTPStatus.FORBIDDEN, "requests must come from the page itself")
        elif not self._is_token(self.headers.get("X-Forgetless-Token", "")):
            self._reject(
                HTTPStatus.FORBIDDEN,
                "the token is wrong; open the address that forgetless explore printed",
            )
        elif kind != "application/json":
            self._reject(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "requests must be JSON")
        elif not path.startswith("/api/"):
            self._reject(HTTPStatus.NOT_FOUND, "there is nothing here")
        else:
            self._compute(path.removeprefix("/api/"))

    def _compute(self, action: str) -> None:
        length = self.headers.get("Content-Length", "")
        # int() rejects very long texts
        if not length.isdecimal() or len(length) > 12 or int(length) > MOST_BYTES:
            self._reject(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a request has at most {MOST_BYTES} bytes"
            )
            return
        try:
            request = json.loads(self.rfile.read(int(length)), parse_constant=_no_number)
            if not isinstance(request, dict):
                raise ValueError("a request must be an object")
            result = self.server.compute(action, request)
        except BusyError as error:
            self._reject(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except (
            ValueError,
            TypeError,
            MemoryError,
            ArithmeticError,
            RecursionError,
            TimeoutError,
        ) as error:
            self._reject(
                HTTPStatus.BAD_REQUEST,
                printable(" ".join(str(error).split()), 1000) or type(error).__name__,
            )
        except Exception as error:
            self._reject(HTTPStatus.INTERNAL_SERVER_ERROR, error_text(error, 1000))
        else:
            self._send(
                HTTPStatus.OK, "application/json", json.dumps(result, allow_nan=False).encode()
            )

    def _check_host(self) -> bool:
        if self.headers.get("Host", "") in self.server.hosts():
            return True
        self._reject(HTTPStatus.MISDIRECTED_REQUEST, "this server answers only as 127.0.0.1")
        return False

    def _is_token(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.server.token.encode())

    def _reject(self, status: HTTPStatus, reason: str) -> None:
        # Unread bytes of the body would be taken for the next request.
        self.close_connection = True
        self._send(status, "application/json", json.dumps({"error": reason}).encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {
            **_HEADERS,
            "Content-Type": kind,
            "Content-Length": str(len(content)),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the token is part of the address."""


def _no_number(text: str) -> None:
    raise ValueError(f"numbers must be finite, got {text}")
