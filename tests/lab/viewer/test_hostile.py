"""1,000 hostile requests and 40 hostile run directories: nothing leaks or changes."""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import pytest

import longplay
from hostile_runs import DAMAGES, make_hostile_runs
from longplay.lab.report.site.verdicts import verdicts_folder
from viewer_requests import HOST, Viewer, open_viewer

_SECRET = "do not show"


class Opened:
    """Files that Python opens while `is_watching`; a hook cannot be taken away."""

    def __init__(self) -> None:
        self.is_watching = False
        self.paths: list[tuple[str, str | None, int]] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[object, ...]) -> None:
        if self.is_watching and event == "open" and isinstance(args[0], (str, bytes)):
            path, mode, flags = args
            text = path.decode() if isinstance(path, bytes) else str(path)
            self.paths.append((text, mode, flags))  # type: ignore[arg-type]

    @contextmanager
    def watch(self) -> Iterator[list[tuple[str, str | None, int]]]:
        self.paths = []
        self.is_watching = True
        try:
            yield self.paths
        finally:
            self.is_watching = False


@pytest.fixture(scope="module")
def opened() -> Opened:
    return Opened()


def hash_tree(folder: Path) -> dict[str, object]:
    """Name, kind, content and date of everything below a folder."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = None
        if path.is_file() and not path.is_symlink() and state.st_size < 10**7:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        key = str(path.relative_to(folder))
        found[key] = (state.st_mode, state.st_size, state.st_mtime_ns, content)
    return found


def find_outside(paths: list[tuple[str, str | None, int]], *allowed: Path) -> list[str]:
    """Opened files that are neither the runs nor a part of Python or longplay."""
    package = Path(longplay.__file__).parent
    known = [*allowed, package, Path(sys.prefix), Path(sys.base_prefix)]
    known.append(verdicts_folder().parent)
    return [
        text
        for text, _, _ in paths
        if not any(Path(text).resolve().is_relative_to(p.resolve()) for p in known)
        and not text.startswith(("/proc/", "/sys/", "/etc/mime", "/dev/urandom"))
    ]


# --- requests -------------------------------------------------------------------

_SECRETS = (
    "../" * 9 + "etc/passwd",
    "/etc/passwd",
    "C:\\boot.ini",
    "file:///etc/passwd",
)
_ODD = (
    "\0",
    "%00",
    "\r\nX: y",
    "\u202e",
    "𝒳",
    "%c0%ae%c0%ae",
    "%ff",
    "'",
    '"',
    "<",
    "{{7*7}}",
)


def make_requests(run: str, count: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Addresses and options, the same every time."""
    rng = random.Random(16)
    stems = (
        "/", "/news", "/compare", "/compare.csv", "/compare/0/curves.csv", run,
        f"{run}/news", f"{run}/timeline.json", f"{run}/timeline.csv",
        f"{run}/episodes/0", f"{run}/visits/0", f"{run}/frames.png",
        f"{run}/frames.json", "/static/page.js", "/experiments/x", "/runs/", "//",
    )  # fmt: skip
    methods = ("POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "FOO", "", "\r\n")
    hosts = (
        "evil.example",
        "127.0.0.1",
        f"{HOST}.evil",
        f"a@{HOST}",
        "[::",
        "\xff",
        "",
    )
    origins = ("http://evil.example", "null", f"https://{HOST}", "file://", "\xff")
    keys = (
        "frame",
        "from",
        "to",
        "page",
        "run",
        "group",
        "q",
        "rate",
        "episodes",
        "token",
    )
    values = (
        "-1",
        "1e9",
        "NaN",
        "9" * 4500,
        "0x10",
        "٣",
        "",
        "1" * 15,
        *_SECRETS,
        *_ODD,
    )
    for number in range(count):
        address, options = rng.choice(stems), {}
        kind = number % 8
        if kind == 0:
            options["method"] = rng.choice(methods)
        elif kind == 1:
            options["headers"] = {"host": rng.choice(hosts)}
        elif kind == 2:
            options["headers"] = {"origin": rng.choice(origins)}
        elif kind == 3:
            text = rng.choice(_SECRETS) + rng.choice(_ODD)
            address = rng.choice(("/static/", "/runs/", f"{run}/", "/")) + (
                quote(text, safe=rng.choice(("", "/"))) if rng.random() < 0.7 else text
            )
        elif kind == 4:
            pairs = (
                f"{rng.choice(keys)}={rng.choice((quote, str))(rng.choice(values))}"
                for _ in range(rng.randint(1, 5))
            )
            address += "?" + "&".join(pairs)
        elif kind == 5:
            size = rng.choice((10, 1000, 20_000, 200_000))
            address += rng.choice(("?q=", "/")) + rng.choice("x%/.;") * size
        elif kind == 6:
            length = rng.choice(("5", "-1", "9" * 30, "x"))
            options["headers"] = {
                "content-length": length,
                "x": "y" * rng.randint(0, 50_000),
            }
            options["body"] = b"hello" * rng.randint(0, 1000)
        else:
            raw = bytes(rng.randrange(256) for _ in range(rng.randint(1, 60)))
            address = rng.choice(stems) + rng.choice("/?") + raw.decode("latin-1")
        yield address, options


@pytest.mark.exhaustive
def test_thousand_hostile_requests(finished_run, tmp_path, opened):
    viewer = open_viewer(finished_run)
    run = viewer.run_address(finished_run)
    viewer.get(f"{run}/timeline.json")  # imports and scans, once
    viewer.get(f"{run}/frames.png?from=0&to=1")
    before = hash_tree(finished_run)
    statuses = []
    with opened.watch() as paths:
        for address, options in make_requests(run, 1000):
            reply = viewer.get(address, **options)
            statuses.append(reply.status)
            assert b"root:" not in reply.body, address
            assert "access-control-allow-origin" not in reply.headers
            is_page = reply.headers["content-type"].startswith("text/html")
            assert not is_page or b"<h1>" in reply.body
    assert set(statuses) <= {200, 303, 403, 404, 405, 413, 414, 421, 431, 500}
    assert {200, 403, 404, 405, 413, 414, 421} <= set(statuses)
    # What a request asks for wrongly is its own fault, not the server's.
    assert statuses.count(500) < 20
    assert find_outside(paths, finished_run, tmp_path) == []
    assert not any(flags & 3 for path, _, flags in paths if "cache" not in path)
    assert hash_tree(finished_run) == before
    assert viewer.get(run).status == 200


# --- run directories ------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Viewer:
    folder = tmp_path_factory.mktemp("hostile")
    make_hostile_runs(folder, finished_run)
    assert len(DAMAGES) == 40
    return open_viewer(folder / "runs")


def list_addresses(viewer: Viewer, every: int) -> Iterator[str]:
    """The page of every run, and everything that every n-th has."""
    for number, run_id in enumerate(viewer.site.index.read().runs):
        yield f"/runs/{run_id}"
        if number % every:
            continue
        run = f"/runs/{run_id}"
        yield from (run, f"{run}/timeline.json", f"{run}/timeline.csv", f"{run}/news")
        yield f"{run}/timeline.json?from=0&to=50"
        yield from (f"{run}/episodes/0", f"{run}/visits/0")
        yield from (f"{run}/frames.png?from=0&to=8", f"{run}/frames.json?from=0&to=8")
        yield f"/compare?run={run_id}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_forty_hostile_run_directories(hostile: Viewer, opened, every: int):
    (folder,) = {entry.path.parent for entry in hostile.site.index.read().runs.values()}
    assert len(hostile.site.index.read().runs) == 40
    before = hash_tree(folder)
    with opened.watch() as paths:
        first = hostile.get("/")
        replies = {
            address: hostile.get(address) for address in list_addresses(hostile, every)
        }
    assert first.status == 200
    assert first.text.count('name="run"') == 40
    assert {reply.status for reply in replies.values()} == {200, 404, 500}
    for address, reply in (("/", first), *replies.items()):
        check_harmless(address, reply.text if is_text(reply) else "")
    secrets = [path for path, _, _ in paths if "secret" in path or "zero" in path]
    assert secrets == []
    assert find_outside(paths, folder, folder.parent / "cache") == []
    assert hash_tree(folder) == before


def is_text(reply) -> bool:
    return not reply.headers["content-type"].startswith("image/")


class Tags(HTMLParser):
    """The elements of a page, as a browser reads them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def check_harmless(address: str, text: str) -> None:
    assert _SECRET not in text, address
    if not text.lstrip().startswith("<!doctype"):
        return  # JSON and CSV: never read as a page, by their type and nosniff
    for tag, attributes in Tags(text).found:
        assert not any(name.startswith("on") for name in attributes), address
        addresses = [attributes.get(name) or "/" for name in ("href", "src", "action")]
        assert all(a.startswith(("/", "#", "?", "data:,")) for a in addresses), address
        if tag == "script" and attributes.get("type") != "application/json":
            assert (attributes["src"] or "").startswith("/static/"), address
    assert "1337" not in text, address  # 7 * 191: a template was filled
