"""The paths that a sandboxed agent may read and write.

It reads the interpreter, the standard library, installed packages, longplay's code and
shared libraries; it writes its own folder and a cache of compiled code. It reads
neither the emulator and its ROMs, nor the recorded streams and values of the prediction
track, nor any home folder. `--sandbox-allow PATH[:rw]` allows more.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path

from longplay.agents.isolation.landlock import Rule
from longplay.errors import ConfigError

_PACKAGE_DIR = Path(__file__).resolve().parents[2]
_SITE_FOLDERS = {"site-packages", "dist-packages"}
# Never readable: ROMs with their emulator; recorded runs.
_HIDDEN_PREFIXES = ("ale_py", "multi_agent_ale_py", "autorom")
_HIDDEN_SUFFIX = ".longplay"
_HIDDEN_DATA = _PACKAGE_DIR / "reference" / "data"

_LIBRARY_FOLDERS = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/local/lib64",
)
_READABLE = (
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/dev/urandom",
    "/proc/cpuinfo",
    "/proc/meminfo",
)
_WRITABLE = ("/dev/null",)
# How many cores and nodes there are. Beside these are counters that only grow, by which
# an agent could count something for its next life.
_TOPOLOGY = Path("/sys/devices/system")
_TOPOLOGY_FILES = (
    *("cpu/online", "cpu/possible", "cpu/present", "cpu/cpu*/topology"),
    *("cpu/cpu*/cache", "node/online", "node/possible", "node/has_*"),
    *("node/node*/cpulist", "node/node*/cpumap", "node/node*/distance"),
)


def parse_allowed(text: str) -> Rule:
    """Reads `PATH` or `PATH:rw`, as `--sandbox-allow` takes it.

    Raises:
        ConfigError: The path does not exist.
    """
    path, access = (text[:-3], "rw") if text.endswith(":rw") else (text, "r")
    resolved = Path(path).resolve()
    if not path or not resolved.exists():
        raise ConfigError(
            f"--sandbox-allow {text}: expected PATH or PATH:rw of an existing file or "
            "folder, found none"
        )
    return Rule(str(resolved), access)


def list_rules(
    sys_path: Sequence[str], own: Sequence[Rule], allowed: Sequence[str]
) -> list[Rule]:
    """The allow-list of a sandbox.

    Args:
        sys_path: The module search path of the agent's process.
        own: Its own folders.
        allowed: The values of `--sandbox-allow`.
    """
    rules = dict.fromkeys(
        (
            *_list_interpreter(),
            *_list_packages(sys_path),
            *_list_longplay(_PACKAGE_DIR),
            *_list_libraries(),
            *(Rule(path, "r") for path in _READABLE),
            *_list_topology(),
            *(Rule(path, "rw") for path in _WRITABLE),
            *own,
            *(parse_allowed(text) for text in allowed),
        )
    )
    return [rule for rule in rules if Path(rule.path).exists()]


def check_hidden(path: Path, sys_path: Sequence[str], allowed: Sequence[str]) -> None:
    """Checks that a sandboxed agent cannot open a file or folder.

    Raises:
        ConfigError: Names the rule that allows it.
    """
    hidden = path.resolve()
    for rule in list_rules(sys_path, (), allowed):
        place = Path(rule.path).resolve()
        if rule.access != "list" and (
            hidden.is_relative_to(place) or place.is_relative_to(hidden)
        ):
            raise ConfigError(
                f"{hidden}: a sandboxed agent could read it, because {rule.path} is "
                "allowed; move it, or allow less with --sandbox-allow"
            )


def _list_interpreter() -> Iterator[Rule]:
    executable = Path(sys.executable)
    yield Rule(str(executable.resolve()), "rx")
    yield Rule(str(executable.parent.parent / "pyvenv.cfg"), "r")
    standard_library = Path(sysconfig.get_path("stdlib"))
    yield Rule(str(standard_library), "list")
    for entry in sorted(standard_library.iterdir()):
        if entry.name not in _SITE_FOLDERS:
            yield Rule(str(entry), "r")
    for library in sorted((Path(sys.base_prefix) / "lib").glob("*.so*")):
        yield Rule(str(library), "r")


def _list_packages(sys_path: Sequence[str]) -> Iterator[Rule]:
    for folder in map(Path, sys_path):
        if folder.name not in _SITE_FOLDERS or not folder.is_dir():
            continue
        # Imports need to list the names.
        yield Rule(str(folder), "list")
        for entry in sorted(folder.iterdir()):
            if entry.name != _PACKAGE_DIR.name and not _is_hidden(entry):
                yield Rule(str(entry), "r")


def _is_hidden(entry: Path) -> bool:
    name = entry.name.lower()
    return name.startswith(_HIDDEN_PREFIXES) or name.endswith(_HIDDEN_SUFFIX)


def _list_longplay(folder: Path) -> Iterator[Rule]:
    """Longplay's own code, without the targets of the prediction track."""
    yield Rule(str(folder), "list")
    for entry in sorted(folder.iterdir()):
        if entry == _HIDDEN_DATA or _is_hidden(entry):
            continue
        if entry in _HIDDEN_DATA.parents:
            yield from _list_longplay(entry)
        else:
            yield Rule(str(entry), "r")


def _list_topology() -> Iterator[Rule]:
    for name in ("cpu", "node"):
        yield Rule(str(_TOPOLOGY / name), "list")
    for pattern in _TOPOLOGY_FILES:
        yield from (Rule(str(path), "r") for path in sorted(_TOPOLOGY.glob(pattern)))


def _list_libraries() -> Iterator[Rule]:
    for folder in dict.fromkeys(Path(name).resolve() for name in _LIBRARY_FOLDERS):
        for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
            # Python installations keep packages there, possibly the emulator.
            if not entry.name.startswith(("python", "pypy")):
                yield Rule(str(entry), "r")
