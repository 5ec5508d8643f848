"""Requests that may pass, and the headers of every response.

The server shows files of the person who started it. Other sites in the same browser
must not reach it, so Host and Origin must be its own: a name that an attacker points at
127.0.0.1 is refused. Beyond this machine (`--host`), a token is required, given once in
the address and kept in a cookie. No request has a body or changes anything.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "longplay_token"
_LONGEST_ADDRESS = 16 * 1024
_LONGEST_HEADERS = 32 * 1024

# Scripts only from here. plotly.js writes style rules and exports pictures.
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Attributes:
        port: Port of the server.
        names: Names and addresses of the server in Host headers, in lower case.
        token: Required if given; then any IP address is a name of the server, too.
    """

    port: int
    names: frozenset[str] = frozenset({"127.0.0.1", "localhost", "::1"})
    token: str | None = None

    def admits_host(self, host: str) -> bool:
        """Whether a Host header names this server."""
        try:
            parts = urlsplit(f"//{host}")
            name, port = parts.hostname, parts.port
        except ValueError:
            return False
        is_plain = name is not None and parts.netloc == host and "@" not in host
        if not is_plain or name is None or (80 if port is None else port) != self.port:
            return False
        return name in self.names or (self.token is not None and _is_address(name))

    def admits_token(self, given: str | None) -> bool:
        """Whether a token is the right one, or none is required."""
        if self.token is None:
            return True
        return hmac.compare_digest((given or "").encode(), self.token.encode())


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Refusal:
    """Why a request does not pass."""

    status: int
    reason: str


class Guard:
    """An ASGI application in front of another one."""

    def __init__(self, app: App, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or passes it on."""
        if scope["type"] != "http":
            return  # the server closes a websocket that is not accepted

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _add_headers(message.get("headers", ()))
            await send(message)

        refusal = next(self._find_refusals(scope), None)
        if refusal is not None:
            await _send_text(send_safely, refusal.status, refusal.reason)
        elif not self._access.admits_token(_read_cookie(scope)):
            await self._sign_in(scope, send_safely)
        else:
            await self._app(scope, receive, send_safely)

    def _find_refusals(self, scope: Scope) -> Iterator[Refusal]:
        """The rules that a request breaks."""
        headers = scope["headers"]
        if scope["method"] not in ("GET", "HEAD"):
            yield Refusal(405, "only GET and HEAD: nothing can be changed here")
        address = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if address > _LONGEST_ADDRESS:
            yield Refusal(414, "the address is too long")
        if sum(len(name) + len(value) for name, value in headers) > _LONGEST_HEADERS:
            yield Refusal(431, "the headers are too long")
        if _has_body(headers):
            yield Refusal(413, "a request has no body here")
        hosts = _values(headers, b"host")
        if len(hosts) != 1 or not self._access.admits_host(hosts[0]):
            yield Refusal(421, "Host is not this server; use the address it printed")
        origins = _values(headers, b"origin")
        if origins and origins != [f"http://{hosts[0]}"]:
            yield Refusal(403, "requests of other sites are refused")

    async def _sign_in(self, scope: Scope, send: Send) -> None:
        """Takes the token from the address into a cookie, once."""
        query = parse_qs(scope["query_string"].decode("latin-1"))
        if not self._access.admits_token(query.get("token", [""])[0]):
            reason = "a token is required: open the address that the server printed"
            await _send_text(send, 401, reason)
            return
        # One slash: `//name` would be another site.
        path = "/" + quote(scope["path"].lstrip("/"))
        cookie = f"{COOKIE}={self._access.token}; HttpOnly; SameSite=Strict; Path=/"
        headers = ((b"location", path.encode()), (b"set-cookie", cookie.encode()))
        await _send_text(send, 303, "signed in", headers)


def _values(headers: Any, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in headers if key.lower() == name]


def _has_body(headers: Any) -> bool:
    lengths = _values(headers, b"content-length")
    return bool(_values(headers, b"transfer-encoding")) or set(lengths) - {"0"} != set()


def _read_cookie(scope: Scope) -> str | None:
    try:
        cookies = SimpleCookie("; ".join(_values(scope["headers"], b"cookie")))
    except CookieError:
        return None
    return cookies[COOKIE].value if COOKIE in cookies else None


def _add_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    added = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
    return [*headers, *added]


async def _send_text(
    send: Send, status: int, text: str, headers: tuple[tuple[bytes, bytes], ...] = ()
) -> None:
    body = f"{text}\n".encode()
    own = (
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    )
    allow = ((b"allow", b"GET, HEAD"),) if status == 405 else ()
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*own, *allow, *headers],
        }
    )
    await send({"type": "http.response.body", "body": body})
