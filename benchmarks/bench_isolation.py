"""The speed of isolated agents against agents in the referee's process.

Only the playing is measured (`wall_time_s` of run_summary.json): a run also takes about
a second to start the agent's interpreter twice.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import NamedTuple

from bare import Row, make_settings, temporary_folder

_LEVELS = ("none", "process", "sandbox")


class Subject(NamedTuple):
    """A run to isolate, and its goal on two free cores."""

    name: str
    suite_id: str
    goal: str
    agent: str = "random"


_LOOKING = str(Path(__file__).parent / "looking_agent.py")
_SUBJECTS = (
    Subject("streaming", "stream-3x2-v1", "≥ 0.9"),
    Subject("streaming, every frame shown", "stream-3x2-v1", "≥ 0.9", _LOOKING),
    Subject("streaming, linear Sarsa(λ)", "stream-3x2-v1", "≥ 1.1", "linear-sarsa"),
    Subject("control", "control-smoke-v1", "≥ 0.85"),
)


def bench_isolation(trials: int, visit_frames: int) -> list[Row]:
    """Runs at `process` and `sandbox` against runs at `none`, in turns."""
    return [
        row
        for subject in _SUBJECTS
        for row in _bench_subject(trials, visit_frames, subject)
    ]


def _bench_subject(trials: int, visit_frames: int, subject: Subject) -> list[Row]:
    is_control = subject.suite_id.startswith("control")
    length = visit_frames // 4 if is_control else visit_frames
    ratios: dict[str, list[float]] = {level: [] for level in _LEVELS[1:]}
    for trial in range(trials):
        order = _LEVELS if trial % 2 else tuple(reversed(_LEVELS))
        seconds = {level: _play_s(subject, length, level) for level in order}
        for level, found in ratios.items():
            found.append(seconds["none"] / seconds[level])
            shown = f"{subject.name}, {level}, trial {trial}: {found[-1]:.3f}"
            print(f"  {shown}", flush=True)
    return [
        (
            f"{subject.name}, {level} / in process (3 visits of {length:,})",
            subject.goal,
            f"{statistics.median(found):.3f}  ({min(found):.3f} … {max(found):.3f})",
        )
        for level, found in ratios.items()
    ]


def _play_s(subject: Subject, visit_frames: int, level: str) -> float:
    """Seconds of playing."""
    from longplay.agents.isolation.levels import Isolation
    from longplay.agents.isolation.remote import load_agent_at
    from longplay.contract.rundir import RunDirectory
    from longplay.plan import plan_run
    from longplay.runs.session import Session

    plan = plan_run(subject.suite_id, 1000, make_settings(visit_frames))
    agent = load_agent_at(Isolation(level), subject.agent)  # type: ignore[arg-type]
    with temporary_folder() as folder:
        Session(plan, agent, folder / "run").run()
        summary = RunDirectory(folder / "run").summary
        assert summary is not None
        return summary.wall_time_s
