"""Paths -> a web server that shows them. The only module that imports uvicorn."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from longplay.errors import ConfigError, MissingExtraError
from longplay.scoring.anchors import shipped_anchors

LOCAL = "127.0.0.1"
DEFAULT_PORT = 8450
# Another viewer may have the default port.
_PORTS_TO_TRY = 20
_MOST_CONNECTIONS = 64
# How long a connection may take to send the headers of a request.
_HEADERS_S = 10.0
# How long a client may read nothing of a response.
_READING_S = 20.0


@dataclass(frozen=True)
class ServerOptions:
    """How to serve.

    Attributes:
        host: Address to listen on.
        port: None for the first free one from `DEFAULT_PORT` on.
        styles: File with colours and markers of agents.
    """

    host: str = LOCAL
    port: int | None = None
    styles: Path | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in (LOCAL, "localhost", "::1")


def serve(
    paths: Sequence[Path], options: ServerOptions, announce: Callable[[str], None]
) -> None:
    """Serves pages about the runs at some paths until it is interrupted.

    Args:
        paths: Runs, experiments, studies, packs, or folders of them.
        options: How to serve.
        announce: Called with the address of the first page, once it can be opened.

    Raises:
        NotARunError: A path holds no run.
        ConfigError: The address cannot be used, or the file of styles is not valid.
        MissingExtraError: starlette or uvicorn is not installed.
    """
    try:
        import uvicorn

        from longplay.lab.viewer.app import make_app
    except ImportError as error:
        raise MissingExtraError.of(
            "the viewer needs starlette and uvicorn", "view"
        ) from error
    from longplay.lab.report.draw.colours import read_styles
    from longplay.lab.report.draw.figures import load_plotly
    from longplay.lab.viewer.guard import Access
    from longplay.lab.viewer.index import Index
    from longplay.lab.viewer.site import Site

    styles = None if options.styles is None else read_styles(options.styles)
    site = Site(Index(paths), shipped_anchors(), styles)
    site.read_cards()  # so that the first page opens at once
    with _bind(options) as listening:
        port = listening.getsockname()[1]
        token = None if options.is_local else secrets.token_urlsafe(24)
        names = {
            LOCAL,
            "localhost",
            "::1",
            options.host.lower(),
            socket.gethostname().lower(),
        }
        app = make_app(site, Access(port, frozenset(names), token))
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            http=_make_protocol(),
            server_header=False,
            limit_concurrency=_MOST_CONNECTIONS,
            timeout_keep_alive=5,
        )
        threading.Thread(target=load_plotly, daemon=True).start()
        announce(_address(options.host, port, token))
        uvicorn.Server(config).run(sockets=[listening])


def _make_protocol() -> type[asyncio.Protocol]:
    """HTTP, with time limits for headers and reading: others need the connection."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class TimedProtocol(H11Protocol):
        _limit: asyncio.TimerHandle | None = None
        _look: asyncio.TimerHandle | None = None
        # Bytes that the client had not read at the last look.
        _unread_bytes = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as H11Protocol
            super().connection_made(transport)
            self._watch()
            self._watch_reading()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._stop_watching()
            if self._look is not None:
                self._look.cancel()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._unread_bytes = 0

        def _watch_reading(self) -> None:
            unread_bytes = self.transport.get_write_buffer_size()
            if unread_bytes and unread_bytes == self._unread_bytes:
                self.transport.abort()  # `close` would wait for the client
                return
            self._unread_bytes = unread_bytes
            self._look = self.loop.call_later(_READING_S / 2, self._watch_reading)

        def _watch(self) -> None:
            if self.conn.their_state is not h11.IDLE:
                self._stop_watching()
            elif self._limit is None:
                self._limit = self.loop.call_later(_HEADERS_S, self.transport.close)

        def _stop_watching(self) -> None:
            if self._limit is not None:
                self._limit.cancel()
                self._limit = None

    return TimedProtocol


def _bind(options: ServerOptions) -> socket.socket:
    """A socket that listens; the port is taken before the address is announced."""
    last = DEFAULT_PORT + _PORTS_TO_TRY
    ports = range(DEFAULT_PORT, last) if options.port is None else (options.port,)
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    reason = ""
    for port in ports:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((options.host, port))
            listening.listen(_MOST_CONNECTIONS)
        except OSError as error:
            listening.close()
            reason = str(error.strerror or error)
        else:
            return listening
    raise ConfigError(
        f"cannot listen on {options.host}:{ports[-1]}: {reason}; choose another --port"
    )


def _address(host: str, port: int, token: str | None) -> str:
    if host in ("0.0.0.0", "::"):  # every address of this machine
        host = socket.gethostname()
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")
