"""Forty damaged or malicious run directories, made from a sound one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRIPT = "<script>window.pwned = 1</script>"
HANDLER = '"><img src=x onerror="window.pwned=1">'
LINK = "javascript:window.pwned=1"
TEMPLATE = "{{ 7 * 191 }}{% for x in range(9) %}pwned{% endfor %}"
CLOSING = "</script><script>window.pwned=1</script>"
PLOTLY_LINK = '<a href="javascript:window.pwned=1">click</a>'

Damage = Callable[[Path], None]


def _edit(name: str, change: Callable[[Any], Any]) -> Damage:
    def damage(run_dir: Path) -> None:
        path = run_dir / name
        document = json.loads(path.read_text())
        change(document)
        path.write_text(json.dumps(document))

    return damage


def _set(name: str, **values: Any) -> Damage:
    return _edit(name, lambda document: document.update(values))


def _rename_agent(text: str) -> Damage:
    config = {"_type": f"agents.{text}", "file": f"{text}.py", "args": {text: text}}
    return _edit("config.json", lambda found: found["agent"].update(config=config))


def _write(name: str, content: bytes) -> Damage:
    return lambda run_dir: (run_dir / name).write_bytes(content) and None


def _link(name: str, target: str) -> Damage:
    def damage(run_dir: Path) -> None:
        (run_dir / name).unlink(missing_ok=True)
        (run_dir / name).symlink_to(target.format(outside=run_dir.parent / "outside"))

    return damage


def _pipe(name: str) -> Damage:
    def damage(run_dir: Path) -> None:
        (run_dir / name).unlink(missing_ok=True)
        os.mkfifo(run_dir / name)

    return damage


def _folder(name: str) -> Damage:
    def damage(run_dir: Path) -> None:
        (run_dir / name).unlink(missing_ok=True)
        (run_dir / name).mkdir()

    return damage


def _rows(name: str, change: Callable[[list[bytes]], list[bytes]]) -> Damage:
    def damage(run_dir: Path) -> None:
        path = run_dir / name
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(True))))

    return damage


def _row(name: str, line: int, **values: Any) -> Damage:
    def change(lines: list[bytes]) -> list[bytes]:
        row = json.dumps({**json.loads(lines[line]), **values}).encode() + b"\n"
        return [*lines[:line], row, *lines[line + 1 :]]

    return _rows(name, change)


def _grow(name: str, size: int) -> Damage:
    return lambda run_dir: os.truncate(run_dir / name, size)


def _many_visits(config: dict[str, Any]) -> None:
    visit = config["schedule"][0]
    config["schedule"] = [{**visit, "visit_idx": n} for n in range(20_000)]


def _all(*damages: Damage) -> Damage:
    def damage(run_dir: Path) -> None:
        for one in damages:
            one(run_dir)

    return damage


_NOT_COMPLETE = _all(
    _set("status.json", state="RUNNING", pid=os.getpid()),
    lambda run_dir: (run_dir / "score.json").unlink(),
)

DAMAGES: dict[str, Damage] = {
    "script in the agent's name": _rename_agent(SCRIPT),
    "handler in the agent's name": _rename_agent(HANDLER),
    "link in the agent's name": _rename_agent(PLOTLY_LINK),
    "template in the agent's name": _rename_agent(TEMPLATE),
    "end of a script in the agent's name": _rename_agent(CLOSING),
    "script in the suite": _set("config.json", suite=SCRIPT),
    "script in a game": _edit(
        "config.json", lambda found: found["schedule"][0].update(game_id=HANDLER)
    ),
    "script in all games": _set("config.json", games=[SCRIPT, HANDLER, LINK]),
    "script in versions": _edit(
        "config.json", lambda found: found["versions"].update({SCRIPT: HANDLER})
    ),
    "script in settings": _edit(
        "config.json", lambda found: found["config_effective"].update({SCRIPT: HANDLER})
    ),
    "script in the git commit": _set(
        "config.json", git={"commit": SCRIPT, "is_dirty": True, "remote_url": LINK}
    ),
    "script in an error": _set(
        "status.json",
        state="FAILED",
        error={"type": SCRIPT, "message": HANDLER, "frame": 1, "game": CLOSING},
    ),
    "script in a metric": _write(
        "metrics.jsonl",
        json.dumps({"global_frame_idx": 5, "visit_idx": 0, CLOSING: 1.0}).encode()
        + b"\n",
    ),
    "script in an episode": _row("episodes.jsonl", 0, game_id=CLOSING),
    "script in an ended_by": _row("episodes.jsonl", 0, ended_by=SCRIPT),
    "script in a row": _row("events.jsonl", 7, game_id=SCRIPT),
    "huge numbers": _row("episodes.jsonl", 0, **{"return": 1e308, "length": 2**62}),
    "episode beyond the run": _row(
        "episodes.jsonl", 0, start_global_frame_idx=2**61, end_global_frame_idx=2**62
    ),
    "episode that ends before it starts": _row(
        "episodes.jsonl", 0, start_global_frame_idx=50, end_global_frame_idx=2
    ),
    "config of garbage": _write("config.json", os.urandom(4096)),
    "config cut short": lambda run_dir: os.truncate(run_dir / "config.json", 500),
    "config nested deep": _write("config.json", b"[" * 100_000),
    "config with a huge number": _write("config.json", b'{"a":' + b"9" * 20_000 + b"}"),
    "config of 300 MB": _grow("config.json", 300_000_000),
    "score of 300 MB": _grow("score.json", 300_000_000),
    "20,000 visits": _edit("config.json", _many_visits),
    "visits of a trillion frames": _edit(
        "config.json", lambda found: found["schedule"][0].update(visit_frames=2**40)
    ),
    "score of other types": _set("score.json", final_score="high", frames=None),
    "status of another pid": _set("status.json", state="RUNNING", pid=10**30),
    "config is a link out": _link("config.json", "{outside}/secret.json"),
    "events is a link out": _link("events.jsonl", "{outside}/secret.json"),
    "status is a link to itself": _link("status.json", "status.json"),
    "metrics is a link to a device": _link("metrics.jsonl", "/dev/zero"),
    "events is a pipe": _pipe("events.jsonl"),
    "config is a pipe": _pipe("config.json"),
    "score is a folder": _folder("score.json"),
    "events of one endless line": _all(
        _NOT_COMPLETE, _write("events.jsonl", b"x" * 9_000_000)
    ),
    "events of another run": _all(
        _NOT_COMPLETE, _row("events.jsonl", 3, visit_idx=99, visit_frame_idx=2**60)
    ),
    "actions out of range": _rows(
        "events.jsonl",
        lambda lines: [
            line.replace(b'decided_action_idx":', b'decided_action_idx":99')
            for line in lines
        ],
    ),
    "binary rows": _all(_NOT_COMPLETE, _write("events.jsonl", os.urandom(10_000))),
}


def make_hostile_runs(folder: Path, sound_run: Path) -> dict[str, Path]:
    """Every kind of damage -> its run directory, and a secret beside them."""
    outside = folder / "runs" / "outside"
    outside.mkdir(parents=True)
    found = {}
    for number, (name, damage) in enumerate(DAMAGES.items()):
        run_dir = folder / "runs" / f"{number:02}"
        shutil.copytree(sound_run, run_dir)
        damage(run_dir)
        found[name] = run_dir
    shutil.move(outside, folder / "outside")
    secret = json.dumps({"secret": "do not show"})
    (folder / "outside" / "secret.json").write_text(secret)
    for run_dir in found.values():
        for path in run_dir.iterdir():
            if path.is_symlink() and "outside" in str(path.readlink()):
                path.unlink()
                path.symlink_to(folder / "outside" / "secret.json")
    return found
