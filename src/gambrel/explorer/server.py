"""The explorer over loopback: pages and answers for whoever holds the token.

Requests whose Host or Origin names anything but this address are refused: a page elsewhere could
otherwise reach the server through a name that resolves here (DNS rebinding). The token comes with
the first address and is then kept in a cookie; answers need it in a header, which no other page can
send.
"""

from __future__ import annotations

import hmac
import secrets
import sys
import threading
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from gambrel.errors import GambrelError, InputError
from gambrel.explorer import uploads
from gambrel.explorer.desk import PageQuestion
from gambrel.explorer.page import page
from gambrel.explorer.sessions import Sessions

HOST: Final = "127.0.0.1"
TOKEN_HEADER: Final = "X-Gambrel-Token"
SESSION_HEADER: Final = "X-Gambrel-Session"
#: Bytes of a question.
_MOST: Final = 1_000_000
#: Seconds in which a client sends its request.
_PATIENCE: Final = 30
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class ExplorerServer(ThreadingHTTPServer):
    """A server of the explorer, listening once it is made.

    Args:
        state: The question that the page opens with: ``verb`` and ``given``.
        port: 0 takes a free one.
        trust: Whether models may be code that is run.

    Raises:
        InputError: The port cannot be used.
    """

    daemon_threads = True

    def __init__(self, state: dict[str, Any], port: int = 0, *, trust: bool = False) -> None:
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InputError(
                f"cannot listen on {HOST}:{port}: {error}. Choose another --port, or 0 for a free "
                "one."
            ) from None
        self.port: int = self.server_address[1]
        self.state = state
        self.token = secrets.token_urlsafe(24)
        self.sessions = Sessions(trust=trust)
        self._first: bytes | None = None
        self._refusal = ""
        self._making = threading.Lock()

    @property
    def address(self) -> str:
        """What to open, the token included."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a request may call this server."""
        return f"{HOST}:{self.port}", f"localhost:{self.port}"

    def refusal(self) -> str:
        """Why the first question has no answer; empty where it has one."""
        self.first_page()
        return self._refusal

    def first_page(self) -> bytes:
        """The page with the answer to the first question in it."""
        with self._making:
            if self._first is None:
                reply = self.sessions.first(msgspec.json.encode({**self.state, "brief": True}))
                engine = {"kind": "server", "token": self.token}
                answer = msgspec.json.decode(reply)
                self._refusal = str(answer.get("error", ""))
                made = page(answer, self.state, engine, "connect-src 'self'; ")
                self._first = made.encode()
            return self._first

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing of a page that went away; anything else as usual."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        """Ends the server and everything it started."""
        self.server_close()
        self.sessions.close()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    server: ExplorerServer
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE
    # An answer goes out at once and whole.
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_GET(self) -> None:
        """The page; the token in its address becomes a cookie."""
        parts = urlsplit(self.path)
        if not self._is_for_us() or parts.path != "/":
            return self._refuse(HTTPStatus.NOT_FOUND, "there is no such page.")
        given = parse_qs(parts.query).get("token", [""])[0]
        if self._is_token(given):
            cookie = f"{self._cookie}={given}; HttpOnly; SameSite=Strict; Path=/"
            return self._send(HTTPStatus.SEE_OTHER, b"", Location="/", Set_Cookie=cookie)
        if not self._is_token(self._kept()):
            hint = "open the address that 'gambrel explore' printed, with its token."
            return self._refuse(HTTPStatus.FORBIDDEN, hint)
        return self._send(HTTPStatus.OK, self.server.first_page(), "text/html; charset=utf-8")

    def do_POST(self) -> None:
        """An answer, or a file that is stored."""
        if not self._is_for_us() or not self._is_token(self.headers.get(TOKEN_HEADER, "")):
            return self._refuse(HTTPStatus.FORBIDDEN, "this request has no valid token.")
        most = {"/ask": _MOST, "/file": uploads.MOST_BYTES}.get(self.path)
        if most is None:
            return self._refuse(HTTPStatus.NOT_FOUND, "there is no such address.")
        size = self.headers.get("Content-Length", "")
        if not size.isdigit():
            return self._refuse(HTTPStatus.LENGTH_REQUIRED, "a request says its length.")
        if int(size) > most:
            return self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{int(size):,} bytes: at most {most:,}."
            )
        try:
            reply = self._answer(self.rfile.read(int(size)))
        except GambrelError as error:
            reply = msgspec.json.encode({"error": str(error)})
        except (OSError, ValueError) as error:
            return self._refuse(HTTPStatus.BAD_REQUEST, f"not a request of a page: {error}")
        return self._send(HTTPStatus.OK, reply)

    def _answer(self, body: bytes) -> bytes:
        session = self.server.sessions.of(self.headers.get(SESSION_HEADER, ""))
        if self.path == "/file":
            return msgspec.json.encode({"model": uploads.store(body, session.folder)})
        request = msgspec.json.decode(body, type=PageQuestion)
        return session.ask(msgspec.json.encode(request), brief=request.brief)

    def _is_for_us(self) -> bool:
        """Whether the request names this server, and comes from its own page."""
        origin = self.headers.get("Origin")
        own = origin is None or origin in {f"http://{host}" for host in self.server.hosts}
        return own and self.headers.get("Host") in self.server.hosts

    @property
    def _cookie(self) -> str:
        """Its name; cookies are shared by all ports of a host."""
        return f"gambrel-{self.server.port}"

    def _kept(self) -> str:
        try:
            cookies = SimpleCookie(self.headers.get("Cookie", ""))
        except CookieError:
            return ""
        return cookies[self._cookie].value if self._cookie in cookies else ""

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.server.token.encode())

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        self.close_connection = True
        self._send(status, msgspec.json.encode({"error": text}), Connection="close")

    def _send(
        self, status: HTTPStatus, body: bytes, kind: str = "application/json", **more: str
    ) -> None:
        self.send_response(status)
        named = {name.replace("_", "-"): value for name, value in more.items()}
        sized = {"Content-Type": kind, "Content-Length": str(len(body))}
        for name, value in (_HEADERS | sized | named).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a terminal full of requests helps nobody."""
