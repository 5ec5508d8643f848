"""Tries, in forked processes, what the kernel must deny."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from longplay.agents.isolation import landlock
from longplay.agents.isolation.landlock import Rule, SandboxError
from longplay.agents.isolation.levels import Isolation
from longplay.agents.isolation.sandbox import list_rules, parse_allowed
from longplay.errors import ConfigError

ABI = landlock.find_abi()
needs_landlock = pytest.mark.skipif(
    ABI < landlock.LEAST_ABI, reason=f"this kernel has Landlock ABI {ABI}, not 3"
)

# Restricts itself, tries each expression, prints what happened.
TRY = """
import json, os, socket, sys
from longplay.agents.isolation import landlock, seccomp
rules, expressions = json.loads(sys.argv[1])
landlock.forbid_new_privileges()
landlock.drop_capabilities()
landlock.restrict_files(landlock.Rule(*rule) for rule in rules)
os.close(seccomp.install_filter())  # nobody decides about other processes
for expression in expressions:
    try:
        eval(expression)
        print("done")
    except Exception as error:
        print(type(error).__name__)
"""


def try_out(rules: list[tuple[str, str]], expressions: list[str]) -> list[str]:
    given = json.dumps([rules, expressions])
    answer = subprocess.run(
        [sys.executable, "-c", TRY, given],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return answer.stdout.split()


@needs_landlock
def test_every_right_is_denied_unless_a_rule_allows_it(tmp_path: Path) -> None:
    for name in ("read", "write", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
    rules = [(f"{tmp_path}/read", "r"), (f"{tmp_path}/write", "rw")]
    at = repr(str(tmp_path) + "/")
    table = [
        (f"open({at} + 'read/file').read()", "done"),
        (f"os.listdir({at} + 'read')", "done"),
        (f"open({at} + 'read/file', 'w')", "PermissionError"),
        (f"os.truncate({at} + 'read/file', 0)", "PermissionError"),
        (f"os.unlink({at} + 'read/file')", "PermissionError"),
        (f"os.mkdir({at} + 'read/new')", "PermissionError"),
        (f"os.symlink('/', {at} + 'read/link')", "PermissionError"),
        (f"open({at} + 'other/file')", "PermissionError"),
        (f"os.listdir({at} + 'other')", "PermissionError"),
        (f"open({at} + 'write/new', 'w').write('x')", "done"),
        (f"os.truncate({at} + 'write/file', 0)", "done"),
        (f"os.rename({at} + 'write/new', {at} + 'write/newer')", "done"),
        (f"os.rename({at} + 'write/newer', {at} + 'other/new')", "PermissionError"),
        (f"os.link({at} + 'other/file', {at} + 'write/link')", "OSError"),  # EXDEV
        (f"os.mkfifo({at} + 'write/fifo')", "done"),
        (f"os.mknod({at} + 'write/disk', 0o60600, 0x800)", "PermissionError"),
        ("open('/etc/passwd')", "PermissionError"),
        ("os.listdir('/')", "PermissionError"),
        (f"open('/proc/{os.getpid()}/environ')", "PermissionError"),
        ("os.execv('/bin/sh', ['sh', '-c', 'exit 0'])", "PermissionError"),
    ]
    assert try_out(rules, [e for e, _ in table]) == [outcome for _, outcome in table]


@needs_landlock
def test_privileges_sockets_and_other_processes_are_out_of_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        table = [
            (f"socket.create_connection(('127.0.0.1', {port}))", "PermissionError"),
            ("socket.socket(socket.AF_INET, socket.SOCK_DGRAM)", "PermissionError"),
            ("socket.socket(socket.AF_UNIX)", "PermissionError"),
            ("socket.socketpair()", "done"),
            ("os.setuid(12345)", "PermissionError"),
            ("os.chroot('/')", "PermissionError"),
            ("os.nice(-5)", "PermissionError"),
        ]
        # Without a keeper there is no answer, and no signal.
        table.append((f"os.kill({os.getpid()}, 0)", "OSError"))
        outcomes = try_out([], [e for e, _ in table])
    assert outcomes == [outcome for _, outcome in table]


def test_missing_landlock_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "find_abi", lambda: 2)
    with pytest.raises(SandboxError, match=r"ABI 3 or later .* found ABI 2 in Linux"):
        landlock.check_available()
    monkeypatch.setattr(landlock, "find_abi", lambda: 0)
    with pytest.raises(SandboxError, match="found none, or it is switched off"):
        landlock.check_available()
    with pytest.raises(ConfigError, match="--isolate sandbox: a sandbox needs Landl"):
        Isolation("sandbox").check_available()
    with pytest.raises(SandboxError, match="a sandbox needs Landlock"):
        landlock.restrict_files([])


@pytest.mark.parametrize("abi", [3, 4, 5, 6, 7, 8])
def test_rights_by_version(abi: int) -> None:
    expected = {3: 0x7FFF, 4: 0x7FFF}.get(abi, 0xFFFF)
    assert landlock._handled_rights(abi) == expected


def test_rule_for_a_missing_path_is_an_error() -> None:
    with pytest.raises(SandboxError, match="cannot allow /no/such/path: No such file"):
        landlock._add_rule(-1, Rule("/no/such/path", "r"), 0xFFFF)


# --- the allow-list -----------------------------------------------------------------


def test_allow_list_hides_emulator_and_reference_values(tmp_path: Path) -> None:
    import ale_py

    import longplay

    rules = list_rules(sys.path, [Rule(str(tmp_path), "rw")], [])
    package = Path(longplay.__file__).parent
    hidden = [
        package / "reference" / "data",
        Path(ale_py.__file__).parent,
        Path.home(),
        Path("/etc"),
        Path("/proc"),
        Path("/tmp"),
    ]
    readable = [Path(rule.path) for rule in rules if rule.access != "list"]
    for place in hidden:
        above = [path for path in readable if path == place or path in place.parents]
        assert above == [], place
    assert Rule(str(tmp_path), "rw") in rules
    assert Rule(str(package / "agents"), "r") in rules
    assert Rule(str(package / "reference" / "guide.py"), "r") in rules


def test_allowed_paths_are_parsed(tmp_path: Path) -> None:
    assert parse_allowed(str(tmp_path)) == Rule(str(tmp_path), "r")
    assert parse_allowed(f"{tmp_path}:rw") == Rule(str(tmp_path), "rw")
    for text in ("", ":rw", f"{tmp_path}/nothing", f"{tmp_path}:rx"):
        with pytest.raises(ConfigError, match="--sandbox-allow"):
            parse_allowed(text)


REFUSED_OPTIONS = [
    ({"level": "jail"}, "--isolate: expected none, process, sandbox, found 'jail'"),
    ({"level": "none", "variables": ("A",)}, "--agent-env: only with --isolate"),
    ({"level": "none", "step_timeout_s": 1.0}, "--step-timeout: only with --isolate"),
    ({"level": "none", "memory_bytes": 1}, "--agent-memory: only with --isolate"),
    ({"level": "process", "allowed": ("/",)}, "--sandbox-allow: only with --isolate"),
    ({"level": "sandbox", "allowed": ("/nope",)}, "--sandbox-allow /nope: expected"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED_OPTIONS)
def test_refused_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Isolation(**options)  # type: ignore[arg-type]


def test_warnings_name_what_the_level_does_not_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert "this runs as root" in (Isolation("process").warning or "")
    assert Isolation("sandbox").warning is None
    allowed = Isolation("sandbox", allowed=(f"{tmp_path}:rw",)).warning
    assert f"may also access {tmp_path}:rw" in (allowed or "")
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert Isolation("process").warning is None
