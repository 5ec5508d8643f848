"""The JSONL files of a run are a pure function of suite, seed and agent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import longplay
from playing import play_run

FILES = ("events.jsonl", "episodes.jsonl", "segments.jsonl")
SETTINGS = {"base_visit_frames": 700, "jitter_pct": 0.1}  # as `finished_run` has them
SHORT = {"base_visit_frames": 90, "jitter_pct": 0.1}


def read_bytes(run_dir: Path) -> dict[str, bytes]:
    return {name: (run_dir / name).read_bytes() for name in FILES}


def run_bytes(out: Path, agent: Any = "random", **options: Any) -> dict[str, bytes]:
    result = play_run("stream-smoke-v1", agent, out=out, **options)
    return read_bytes(result.run_dir)


def set_options(settings: dict[str, Any]) -> list[str]:
    return [part for k, v in settings.items() for part in ("--set", f"{k}={v}")]


class Counting:
    """An agent that needs no random numbers."""

    def __init__(self, num_actions: int, seed: int) -> None:
        self.answer = seed % num_actions

    def step(self, obs_rgb, reward, terminated, truncated, info) -> int:
        self.answer = (self.answer + 5) % info["action_space_n"]
        return self.answer


class Talkative(Counting):
    """The same, talking all the time."""

    def step(self, obs_rgb, reward, terminated, truncated, info) -> int:
        print("reward", reward)  # noqa: T201
        print('{"global_frame_idx":0}', file=sys.stderr)  # noqa: T201
        return super().step(obs_rgb, reward, terminated, truncated, info)


def test_same_request_twice_gives_the_same_bytes(finished_run, tmp_path):
    again = run_bytes(tmp_path / "again", overrides=SETTINGS)
    assert again == read_bytes(finished_run)


def test_another_process_elsewhere_gives_the_same_bytes(finished_run, tmp_path, spawn):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    answer = spawn(
        *("run", "stream-smoke-v1", "--agent", "random", "--seed", "0", "--quiet"),
        *("--out", "here", "--json", *set_options(SETTINGS)),
        cwd=elsewhere,
    )
    assert answer.exit_code == 0, answer.stderr
    run_dir = elsewhere / answer.json["runs"][0]["run_dir"]
    assert run_dir.is_relative_to(elsewhere / "here")
    assert read_bytes(run_dir) == read_bytes(finished_run)
    assert answer.json["runs"][0]["score"]["final_score"] == pytest.approx(
        longplay.score_run(finished_run).final_score, abs=0
    )


def test_score_is_the_same_but_for_fps(finished_run, tmp_path):
    again = play_run(
        "stream-smoke-v1", "random", out=tmp_path / "again", overrides=SETTINGS
    )
    first = longplay.read_run(finished_run).score.model_dump(exclude={"fps"})
    assert again.score.model_dump(exclude={"fps"}) == first


def test_another_seed_gives_other_bytes(finished_run, tmp_path):
    other = run_bytes(tmp_path / "other", seed=1, overrides=SETTINGS)
    for name, content in read_bytes(finished_run).items():
        assert other[name] != content, name


@pytest.mark.exhaustive
def test_another_agent_gives_other_bytes(tmp_path):
    first = run_bytes(tmp_path / "first", Counting, overrides=SHORT)
    other = run_bytes(tmp_path / "other", "noop", overrides=SHORT)
    assert first["events.jsonl"] != other["events.jsonl"]


def test_runs_in_one_process_do_not_disturb_each_other(tmp_path):
    first = run_bytes(tmp_path / "first", "random", overrides=SHORT)
    run_bytes(
        tmp_path / "between", Counting, seed=9, overrides={"games": ["pong"]} | SHORT
    )
    assert run_bytes(tmp_path / "again", "random", overrides=SHORT) == first


@pytest.mark.exhaustive
def test_what_an_agent_prints_changes_no_row(tmp_path, capfd):
    quiet = run_bytes(tmp_path / "quiet", Counting, overrides=SHORT)
    loud = play_run(
        "stream-smoke-v1", Talkative, out=tmp_path / "loud", overrides=SHORT
    )
    assert read_bytes(loud.run_dir) == quiet
    # It is kept beside the run instead, every line of it.
    kept = (loud.run_dir / "agent_output.txt").read_text()
    assert kept.count("reward") == kept.count("global_frame_idx") == loud.score.frames
    printed = capfd.readouterr()
    assert "reward" not in printed.out + printed.err
