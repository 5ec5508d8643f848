"""Asks a viewer's application directly: no socket, no server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from longplay.lab.report.draw.colours import Style
from longplay.lab.viewer.app import make_app
from longplay.lab.viewer.guard import Access, App
from longplay.lab.viewer.index import Index, identify
from longplay.lab.viewer.site import Site
from longplay.scoring.anchors import Anchors
from made_up_anchors import NO_ANCHORS

PORT = 8450
HOST = f"127.0.0.1:{PORT}"


@dataclass(frozen=True)
class Reply:
    """What a viewer answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Viewer:
    """An application and the site behind it."""

    site: Site
    app: App

    def get(self, address: str, **options: Any) -> Reply:
        """Asks as a browser on this machine would; `options` as of `ask`."""
        return asyncio.run(ask(self.app, address, **options))

    def run_address(self, path: Path) -> str:
        return f"/runs/{identify(path.resolve())}"


def open_viewer(
    *paths: Path,
    anchors: Anchors = NO_ANCHORS,
    token: str | None = None,
    styles: Mapping[str, Style] | None = None,
) -> Viewer:
    site = Site(Index(paths), anchors, styles)
    return Viewer(site, make_app(site, Access(PORT, token=token)))


async def ask(
    app: App,
    address: str | bytes,
    *,
    method: str = "GET",
    headers: dict[str, str] | list[tuple[bytes, bytes]] | None = None,
    body: bytes = b"",
) -> Reply:
    """Sends one request; a list of headers is sent as it is, without a Host."""
    raw = address.encode("latin-1", "replace") if isinstance(address, str) else address
    path, _, query = raw.partition(b"?")
    if not isinstance(headers, list):
        given = {"host": HOST, **(headers or {})}
        headers = [(n.encode(), v.encode("latin-1")) for n, v in given.items()]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        # As uvicorn decodes it.
        "path": unquote_to_bytes(path).decode("utf-8", "replace"),
        "raw_path": path,
        "root_path": "",
        "query_string": query,
        "headers": headers,
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", PORT),
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    found = [(n.decode(), v.decode("latin-1")) for n, v in sent[0]["headers"]]
    content = b"".join(message.get("body", b"") for message in sent[1:])
    return Reply(sent[0]["status"], dict(found), content)
