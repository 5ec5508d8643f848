"""The parts of a page about runs of one suite: figures, settings, provenance.

Report and viewer share them, so that both show the same.
"""

from __future__ import annotations

import csv
import io
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longplay.contract.documents import AgentIsolation
from longplay.errors import ConfigError
from longplay.lab.analysis.labels import describe_seeds
from longplay.lab.analysis.runs import MeasuredRun
from longplay.lab.report.draw.drawings import (
    KINDS,
    Drawing,
    Shown,
    draw,
    drawing_to_csv,
)
from longplay.lab.report.tables import NOTHING, Cell, TextTable

# A run -> its trust level: claimed, replayed or re-executed.
TrustReader = Callable[[MeasuredRun], str]

# A table behind a figure has at most so many rows; its CSV file has all.
_MOST_ROWS = 600


@dataclass(frozen=True)
class PageFigure:
    """A figure on a page.

    Attributes:
        id: Of its element.
        title: Above it.
        caption: Below it.
        data: `{data, layout}` of plotly.js.
        files: Name -> address of files beside it.
        table: Its numbers, where the page has no file with them.
    """

    id: str
    title: str
    caption: str
    data: dict[str, Any]
    files: dict[str, str]
    table: TextTable | None = None


def draw_all(shown: Shown) -> list[Drawing]:
    """The figures that these runs can have."""
    drawings = []
    for kind in KINDS:
        try:
            drawings.append(draw(kind, shown))
        except ConfigError:  # says that there is nothing to draw; the notes say why
            continue
    return drawings


def table_drawing(drawing: Drawing) -> TextTable:
    """The numbers of a figure."""
    columns, *rows = csv.reader(io.StringIO(drawing_to_csv(drawing)))
    more = f", the first {_MOST_ROWS} of {len(rows)}" if len(rows) > _MOST_ROWS else ""
    return TextTable(
        f"numbers of the figure{more}",
        tuple(columns),
        tuple(tuple(map(_number_cell, row)) for row in rows[:_MOST_ROWS]),
        names=2,
    )


def _number_cell(text: str) -> Cell:
    try:
        value = float(text)
    except ValueError:
        return Cell(text or NOTHING, text or None)
    return Cell(f"{value:.6g}", value)


def table_agent_differences(
    runs: Mapping[str, Sequence[MeasuredRun]],
) -> TextTable | None:
    """Settings in which the agents differ; None if they do not."""
    configs = {
        label: members[0].config.agent.config
        for label, members in runs.items()
        if members and members[0].config.agent is not None
    }
    return table_differences(configs)


def table_differences(given: Mapping[str, Mapping[str, Any]]) -> TextTable | None:
    """Settings in which some configs differ; None if they do not.

    Args:
        given: Heading of a column -> a config, nested or not.
    """
    configs = {label: _flatten(config) for label, config in given.items()}
    names = sorted({name for config in configs.values() for name in config})
    rows = []
    for name in names:
        values = [config.get(name) for config in configs.values()]
        if len({json.dumps(value) for value in values}) > 1:
            rows.append((Cell(name, name), *_setting_cells(values)))
    if not rows:
        return None
    return TextTable("settings that differ", ("setting", *configs), tuple(rows))


def _flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _setting_cells(values: Sequence[Any]) -> list[Cell]:
    """Values cut to a readable length, unless that makes different ones look alike."""
    texts = [NOTHING if value is None else str(value) for value in values]
    cut = [text if len(text) <= 24 else f"{text[:23]}…" for text in texts]
    shown = cut if len(set(cut)) == len(set(texts)) else texts
    return [Cell(text, whole) for text, whole in zip(shown, texts, strict=True)]


def table_provenance(
    runs: Mapping[str, Sequence[MeasuredRun]], trust: TrustReader
) -> TextTable:
    """Who and what made every run."""
    columns = (
        "agent",
        "seed",
        "isolation",
        "trust",
        "agent id",
        "chain head",
        "commit",
        "longplay",
        "ale-py",
        "numpy",
    )
    rows = [
        (Cell(label, label), *(Cell(text, text) for text in _origin_of(run, trust)))
        for label, members in runs.items()
        for run in members
    ]
    return TextTable("provenance", columns, tuple(rows))


def _origin_of(run: MeasuredRun, trust: TrustReader) -> list[str]:
    config = run.config
    versions = config.versions or {}
    commit = (config.git.commit if config.git else None) or "–"
    is_dirty = bool(config.git and config.git.is_dirty)
    return [
        "–" if run.seed is None else str(run.seed),
        run.agent.isolation,
        trust(run),
        (run.agent.agent_id or "–")[:8],
        run.identity[:8],
        commit[:8] + ("+" if is_dirty else ""),
        *(versions.get(name, "–") for name in ("longplay", "ale_py", "numpy")),
    ]


def run_command(label: str, runs: Sequence[MeasuredRun]) -> str:
    """The command that makes the runs of an agent again."""
    config = runs[0].config
    words = ["longplay", "run"]
    words.append(config.config_given.suite if config.config_given else "SUITE")
    agent = config.agent.config if config.agent is not None else {}
    words += ["--agent", str(agent.get("file") or runs[0].agent.name)]
    if agent:
        for name, value in (agent.get("args") or {}).items():
            words += ["--agent-arg", f"{name}={_plain(value)}"]
    if config.config_given is not None:
        for name, value in config.config_given.overrides.items():
            words += ["--set", f"{name}={_plain(value)}"]
    seeds = describe_seeds([run.seed for run in runs]).replace("–", "-")
    words += ["--seeds", seeds.replace(" ", "")]
    words += _isolation_words(config.agent_isolation or AgentIsolation())
    return f"{shlex.join(words)}  # {label}"


def _isolation_words(isolation: AgentIsolation) -> list[str]:
    words = [] if isolation.level == "none" else ["--isolate", isolation.level]
    # Paths are those of the machine that played.
    words += [w for _ in isolation.allowed for w in ("--sandbox-allow", "PATH")]
    words += [w for name in isolation.variables for w in ("--agent-env", name)]
    if isolation.step_timeout_s is not None:
        words += ["--step-timeout", f"{isolation.step_timeout_s:g}"]
    if isolation.memory_bytes is not None:
        words += ["--agent-memory", f"{isolation.memory_bytes / 10**9:g}"]
    return words


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
