"""Addresses -> pages. The only module that imports starlette.

/                                  all runs; ?group=agent
/news                              what changed there
/studies/<id>                      one study; <id>/news as above, of experiments, too
/experiments/<id>                  one experiment
/runs/<id>                         one run; ?page= of its episodes
/runs/<id>/timeline.json           its figure; .csv for the numbers; ?from=&to= for
                                   finer bins of some frames
/runs/<id>/news                    what was added to a run in progress
/runs/<id>/agent_output.txt        what its agent printed
/runs/<id>/episodes/<n>?frame=     an episode, frame by frame; visits/<n> likewise
/runs/<id>/frames.png?from=&to=    replayed frames; .json for their rows
/compare?run=<id>&run=<id>         figures of `longplay compare`
/static/<name>                     style sheet, script, plotly.js
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from functools import cache, wraps

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from longplay.lab.report.draw.figures import plotly_script
from longplay.lab.report.site.pages import dump_json, read_static
from longplay.lab.report.site.sections import draw_all
from longplay.lab.viewer import (
    compare_page,
    episode_page,
    experiment_page,
    list_page,
    run_page,
    study_page,
)
from longplay.lab.viewer.cards import READ_ERRORS
from longplay.lab.viewer.guard import Access, App, Guard
from longplay.lab.viewer.index import RunEntry
from longplay.lab.viewer.kept import PageNotFoundError
from longplay.lab.viewer.replays import Chunk
from longplay.lab.viewer.site import Site

_log = logging.getLogger(__name__)

_HTML = "text/html; charset=utf-8"
_CSV = "text/csv; charset=utf-8"
_JSON = "application/json"
# A whole number in an address; more digits are not a frame of any run.
_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)

# Pages made at the same time: each thread has memory of its own.
_MOST_THREADS = 3

_STATIC = {
    "style.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "plotly.min.js": "text/javascript; charset=utf-8",
}

Handler = Callable[[Request], Response]


def make_app(site: Site, access: Access) -> App:
    """The application of a viewer, guarded."""
    return Guard(Starlette(routes=_Pages(site).routes()), access)


class _Pages:
    """One method per address."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._threads = CapacityLimiter(_MOST_THREADS)

    def routes(self) -> list[Route]:
        """The table of addresses."""
        handlers: dict[str, Handler] = {
            "/": self.list_runs,
            "/news": self.list_news,
            "/studies/{id}": self.study,
            "/studies/{id}/news": self.study_news,
            "/experiments/{id}": self.experiment,
            "/experiments/{id}/news": self.experiment_news,
            "/experiments/{id}/{number}/{kind}.csv": self.experiment_csv,
            "/runs/{id}": self.run,
            "/runs/{id}/news": self.run_news,
            "/runs/{id}/agent_output.txt": self.agent_output,
            "/runs/{id}/timeline.json": self.timeline,
            "/runs/{id}/timeline.csv": self.timeline_csv,
            "/runs/{id}/episodes/{number}": self.episode,
            "/runs/{id}/visits/{number}": self.visit,
            "/runs/{id}/frames.png": self.pixels,
            "/runs/{id}/frames.json": self.rows,
            "/compare": self.compare,
            "/compare.csv": self.compare_csv,
            "/compare/{number}/{kind}.csv": self.figure_csv,
            "/static/{name}": self.static,
            "/{rest:path}": self.nothing,
        }
        return [
            Route(path, self._guard_errors(handler))
            for path, handler in handlers.items()
        ]

    def _guard_errors(
        self, handler: Handler
    ) -> Callable[[Request], Awaitable[Response]]:
        """Errors of a handler become pages; the server stays up."""

        @wraps(handler)
        async def handle(request: Request) -> Response:
            try:
                return await run_sync(handler, request, limiter=self._threads)
            except PageNotFoundError as error:
                return self._message(404, "Not found", str(error))
            except READ_ERRORS as error:
                return self._message(500, "This cannot be shown", str(error))
            except Exception:
                _log.exception("a page failed: %r", request.url.path)
                return self._message(500, "This cannot be shown", "see the server log")

        return handle

    def _message(self, status: int, title: str, text: str) -> Response:
        body = self._site.render("message.html", title=title, text=text)
        return Response(body, status, media_type=_HTML)

    # --- runs -------------------------------------------------------------------

    def list_runs(self, request: Request) -> Response:
        group = request.query_params.get("group", "")
        return _page(list_page.render_list(self._site, group))

    def list_news(self, request: Request) -> Response:
        return _json(list_page.list_news(self._site))

    def _find_run(self, request: Request) -> RunEntry:
        return self._site.find_run(request.path_params["id"])

    def run(self, request: Request) -> Response:
        page = _read_number(request.query_params.get("page", "1"))
        return _page(run_page.render_run(self._site, self._find_run(request), page))

    def run_news(self, request: Request) -> Response:
        after = {
            name: _read_number(request.query_params.get(name, "0"))
            for name in ("rate", "episodes", "metrics")
        }
        return _json(run_page.run_news(self._site, self._find_run(request), after))

    def agent_output(self, request: Request) -> Response:
        return Response(
            run_page.read_agent_output(self._find_run(request)),
            media_type="text/plain; charset=utf-8",
            headers={"cache-control": "no-store"},
        )

    def timeline(self, request: Request) -> Response:
        entry, frames = self._find_run(request), _read_zoom(request)
        return _json(run_page.timeline_figure(self._site, entry, frames))

    def timeline_csv(self, request: Request) -> Response:
        entry, frames = self._find_run(request), _read_zoom(request)
        return _csv(run_page.timeline_csv(self._site, entry, frames))

    # --- frames -----------------------------------------------------------------

    def episode(self, request: Request) -> Response:
        return self._clip(request, "episode")

    def visit(self, request: Request) -> Response:
        return self._clip(request, "visit")

    def _clip(self, request: Request, kind: str) -> Response:
        number = _read_number(request.path_params["number"])
        given = request.query_params.get("frame")
        frame = None if given is None else _read_number(given)
        entry = self._find_run(request)
        return _page(episode_page.render_clip(self._site, entry, kind, number, frame))

    def _chunk(self, request: Request) -> Chunk:
        return self._site.replays.read(self._find_run(request), _read_range(request))

    def pixels(self, request: Request) -> Response:
        return Response(self._chunk(request).picture, media_type="image/png")

    def rows(self, request: Request) -> Response:
        return _json(episode_page.chunk_to_json(self._chunk(request)))

    # --- experiments and comparisons --------------------------------------------

    def study(self, request: Request) -> Response:
        entry = self._site.find_study(request.path_params["id"])
        return _page(study_page.render_study(self._site, entry))

    def study_news(self, request: Request) -> Response:
        entry = self._site.find_study(request.path_params["id"])
        return _json(study_page.study_news(self._site, entry))

    def experiment(self, request: Request) -> Response:
        entry = self._site.find_experiment(request.path_params["id"])
        return _page(experiment_page.render_experiment(self._site, entry))

    def experiment_news(self, request: Request) -> Response:
        entry = self._site.find_experiment(request.path_params["id"])
        return _json(experiment_page.experiment_news(self._site, entry))

    def experiment_csv(self, request: Request) -> Response:
        entry = self._site.find_experiment(request.path_params["id"])
        return self._figure(request, list(entry.runs), experiment_page.draw_experiment)

    def compare(self, request: Request) -> Response:
        ids = request.query_params.getlist("run")
        return _page(compare_page.render_comparison(self._site, ids))

    def compare_csv(self, request: Request) -> Response:
        ids = request.query_params.getlist("run")
        return _csv(compare_page.comparison_csv(self._site, ids))

    def figure_csv(self, request: Request) -> Response:
        ids = request.query_params.getlist("run")
        entries = compare_page.find_entries(self._site, ids)
        return self._figure(request, entries, draw_all)

    def _figure(
        self, request: Request, entries: list[RunEntry], draw: compare_page.Drawer
    ) -> Response:
        number = _read_number(request.path_params["number"])
        kind = request.path_params["kind"]
        return _csv(compare_page.figure_csv(self._site, entries, draw, number, kind))

    # --- the rest ---------------------------------------------------------------

    def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _STATIC:
            raise PageNotFoundError("there is no such file")
        # Ours change with longplay; plotly.js is large and changes with its version.
        is_ours = name != "plotly.min.js"
        headers = {"cache-control": "no-cache" if is_ours else "max-age=3600"}
        return Response(_read_asset(name), media_type=_STATIC[name], headers=headers)

    def nothing(self, request: Request) -> Response:
        raise PageNotFoundError("there is no such page")


@cache
def _read_asset(name: str) -> bytes:
    if name == "plotly.min.js":
        return plotly_script().encode()
    return read_static(name)


def _read_number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise PageNotFoundError("expected a whole number in the address")
    return int(text)


def _read_range(request: Request) -> range:
    """The frames in an address: from ?from= up to, but not including, ?to=."""
    start, end = (
        _read_number(request.query_params.get(name, "")) for name in ("from", "to")
    )
    return range(start, end)


def _read_zoom(request: Request) -> range | None:
    if not {"from", "to"} & request.query_params.keys():
        return None
    frames = _read_range(request)
    if not frames:
        raise PageNotFoundError("expected a first frame before the last one")
    return frames


def _page(body: bytes) -> Response:
    return Response(body, media_type=_HTML, headers={"cache-control": "no-store"})


def _csv(text: str) -> Response:
    return Response(text, media_type=_CSV, headers={"cache-control": "no-store"})


def _json(document: dict[str, object]) -> Response:
    body = dump_json(document, allow_nan=False, separators=(",", ":"))
    return Response(body, media_type=_JSON, headers={"cache-control": "no-store"})
