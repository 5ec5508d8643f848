"""Probes of whole runs, experiments and packs: planned, played, continued, judged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import longplay
from longplay.contract.rundir import ROW_FILES
from longplay.errors import (
    AgentLoadError,
    CannotVerifyError,
    ConfigError,
    DocumentError,
    IncompleteRunError,
)
from longplay.experiments.experiment import Experiment, plan_seeds
from longplay.experiments.job import RayPlace
from longplay.experiments.probing import (
    ProbeRequest,
    Probing,
    find_probed_runs,
)
from longplay.lab.analysis.runs import RunReader
from longplay.lab.probes.reading import read_probes as read_run_probes
from longplay.runs.options import RunOptions
from longplay.verify.pack import pack_run, unpack_run
from longplay.verify.verification import reexecute, verify_run

SUITE = "control-smoke-v1"
SETTINGS = {"games": ["qbert", "pong"], "base_visit_frames": 60, "num_cycles": 2}
STATES = ["fresh", "visit-0", "visit-1", "visit-2", "visit-3"]
# Two games after every visit: the suite has no others.
SMALL: dict[str, Any] = {"branches": 2, "frames": 20}

# A learner of sorts: what it does depends on what it saw, and it draws numbers.
AGENT = """
import json, random
from pathlib import Path

class Agent:
    def __init__(self, num_actions, seed):
        self.total, self.num_actions = 0, num_actions

    def step(self, obs_rgb, reward, terminated, truncated, info):
        self.total += int(obs_rgb[::9, ::9].sum()) + int(100 * reward) + terminated
        return (self.total + random.randrange(3)) % self.num_actions
"""
SAVING = (
    AGENT
    + """
    def save(self, directory):
        (Path(directory) / "total.json").write_text(json.dumps(self.total))

    def load(self, directory):
        self.total = json.loads((Path(directory) / "total.json").read_text())
"""
)


def play(out: Path, agent: Path | str, keep: str = "visits", seeds: int = 1) -> Path:
    """An experiment of seeds from 1000 on."""
    plans = plan_seeds(SUITE, range(1000, 1000 + seeds), SETTINGS)
    options = RunOptions(keep_agent=keep)  # type: ignore[arg-type]
    experiment = replace(Experiment.create(plans, str(agent), out=out), options=options)
    for result in experiment.run_sequentially():
        assert result.state == "COMPLETED", result.error
    return out


def run_of(experiment: Path) -> Path:
    (run_dir,) = (experiment / "episodes").iterdir()
    return run_dir


def read_probes(folder: Path) -> dict[str, bytes]:
    """What must not depend on how probes were played."""
    return {
        f"{state}/{name}": (folder / state / name).read_bytes()
        for state in STATES
        for name in (*ROW_FILES, "probe.json")
    }


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agent") / "saving.py"
    path.write_text(SAVING)
    return path


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory, agent: Path) -> Path:
    """An experiment of two runs with all their probes. Not to be changed."""
    out = play(tmp_path_factory.mktemp("probed") / "exp", agent, seeds=2)
    results = longplay.probe(out, agent=str(agent), **SMALL)
    assert [len(result.probes) for result in results] == [5, 5]
    assert all(result.is_valid for result in results)
    return out


def probes_of(experiment: Path) -> Path:
    return sorted((experiment / "probes").iterdir())[0]


def test_every_state_of_every_run_is_probed(probed: Path) -> None:
    runs = sorted(path.name for path in (probed / "episodes").iterdir())
    assert sorted(path.name for path in (probed / "probes").iterdir()) == runs
    for folder in (probed / "probes").iterdir():
        states = {path.name for path in folder.iterdir() if path.is_dir()}
        assert states == set(STATES)
        config = longplay.read_run(folder / "visit-1").config
        played = [(visit.game_id, visit.cycle_idx) for visit in config.schedule]
        assert played == [("qbert", 0), ("qbert", 1), ("pong", 0), ("pong", 1)]


def test_branches_of_a_game_have_the_same_emulator_seeds(probed: Path) -> None:
    folder = probes_of(probed)
    seeds = {longplay.read_run(folder / s).config.emulator_seeds for s in STATES}
    assert len(seeds) == 1
    (shared,) = seeds
    assert shared is not None and len(set(shared)) == 4


def test_nothing_is_played_twice(probed: Path, agent: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in probed.rglob("*") if p.suffix}
    results = longplay.probe(probed, agent=str(agent), **SMALL)
    assert [result.probes for result in results] == [(), ()]
    assert before == {p: p.stat().st_mtime_ns for p in before}


def test_other_probes_are_not_mixed(probed: Path, agent: Path) -> None:
    with pytest.raises(ConfigError, match=r"fresh has another probe.*branches is 2"):
        longplay.probe(probed, agent=str(agent), branches=3, frames=20)


def test_files_of_others_are_not_removed(
    tmp_path: Path, probed: Path, agent: Path
) -> None:
    run_dir = sorted((probed / "episodes").iterdir())[0]
    other = tmp_path / run_dir.name / "fresh" / "thesis.tex"
    other.parent.mkdir(parents=True)
    other.write_text("results")
    with pytest.raises(ConfigError, match=r"it has thesis.tex, which no probe writes"):
        longplay.probe(run_dir, agent=str(agent), out=tmp_path, **SMALL)
    assert other.read_text() == "results"


@pytest.mark.exhaustive
def test_states_that_were_not_kept_are_made_again(
    tmp_path: Path, probed: Path, agent: Path
) -> None:
    out = play(tmp_path / "exp", agent, keep="none")
    assert not (run_of(out) / "agent").exists()
    told: list[str] = []
    request = ProbeRequest(agent=str(agent), **SMALL)
    runs = find_probed_runs([out], request)
    assert runs[0].making_s > 0
    (result,) = Probing(runs, tell=told.append).play()
    assert result.is_valid
    assert any("playing it again takes about" in line for line in told)
    assert read_probes(result.directory) == read_probes(probes_of(probed))
    config = longplay.read_run(result.directory / "visit-0").config
    assert config.probe is not None and config.probe.state_sha256 is None
    assert find_probed_runs([out], request)[0].making_s == 0
    verdict = reexecute(result.directory / "visit-2", str(agent))
    assert verdict.level == "re-executed"


@pytest.mark.exhaustive
def test_pack_is_probed_like_its_run(tmp_path: Path, probed: Path, agent: Path) -> None:
    pack = tmp_path / "run.longplay"
    pack_run(sorted((probed / "episodes").iterdir())[0], pack)
    (result,) = longplay.probe(pack, agent=str(agent), **SMALL)
    assert result.directory == tmp_path / "probes" / "run"
    assert read_probes(result.directory) == read_probes(probes_of(probed))
    # Continued without a second replay.
    shutil.rmtree(result.directory / "visit-1")
    pack.write_bytes(pack.read_bytes())
    (again,) = longplay.probe(pack, agent=str(agent), **SMALL)
    assert [played.run_dir.name for played in again.probes] == ["visit-1"]
    assert read_probes(result.directory) == read_probes(probes_of(probed))


@pytest.mark.exhaustive
def test_probes_on_ray_give_the_same_bytes(
    tmp_path: Path, probed: Path, agent: Path
) -> None:
    request = ProbeRequest(agent=str(agent), out=tmp_path / "ray", **SMALL)
    results = Probing(find_probed_runs([probed], request)).play_on_ray(RayPlace(2))
    assert all(result.is_valid and len(result.probes) == 5 for result in results)
    for folder in (probed / "probes").iterdir():
        assert read_probes(tmp_path / "ray" / folder.name) == read_probes(folder)


@pytest.mark.exhaustive
@pytest.mark.parametrize("level", ["process", "sandbox"])
def test_isolation_does_not_change_probes(
    tmp_path: Path, probed: Path, agent: Path, level: Any
) -> None:
    run_dir = sorted((probed / "episodes").iterdir())[0]
    (result,) = longplay.probe(
        run_dir, agent=str(agent), isolate=level, out=tmp_path, **SMALL
    )
    assert read_probes(result.directory) == read_probes(probes_of(probed))


# --- refused ----------------------------------------------------------------------


def test_agent_without_save_and_load_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "forgetful.py"
    path.write_text(AGENT)
    out = play(tmp_path / "exp", path)
    with pytest.raises(AgentLoadError, match="without them cannot be probed"):
        longplay.probe(out, agent=str(path), **SMALL)


def test_another_agent_is_refused(tmp_path: Path, probed: Path, agent: Path) -> None:
    other = tmp_path / "saving.py"
    other.write_text(agent.read_text().replace("randrange(3)", "randrange(2)"))
    with pytest.raises(AgentLoadError, match="is a different agent"):
        longplay.probe(probed, agent=str(other), out=tmp_path / "out", **SMALL)


def test_probe_of_a_probe_is_refused(probed: Path, agent: Path) -> None:
    with pytest.raises(ConfigError, match="found a probe of visit-1; its agents"):
        longplay.probe(probes_of(probed) / "visit-1", agent=str(agent), **SMALL)


def test_run_that_has_not_ended_is_refused(
    copy_of: Callable[[Path], Path], probed: Path, agent: Path
) -> None:
    run_dir = copy_of(sorted((probed / "episodes").iterdir())[0])
    status = json.loads((run_dir / "status.json").read_text())
    (run_dir / "status.json").write_text(json.dumps({**status, "state": "CANCELLED"}))
    with pytest.raises(IncompleteRunError, match="expected a complete run, found CANC"):
        longplay.probe(run_dir, agent=str(agent), **SMALL)


def test_agent_that_plays_differently_now_has_no_states(tmp_path: Path) -> None:
    path = tmp_path / "changing.py"
    path.write_text(SAVING.replace("import json", "import os, json") + "\nX = 1\n")
    source = path.read_text().replace(
        "randrange(3)", "randrange(3) + ord(os.urandom(1))"
    )
    path.write_text(source)
    out = play(tmp_path / "exp", path, keep="none")
    with pytest.raises(CannotVerifyError, match="does not give the same rows again"):
        longplay.probe(out, agent=str(path), **SMALL)


def damage_byte(state: Path, other: Path) -> None:
    path = state / "agent" / "total.json"
    path.write_bytes(path.read_bytes()[:-1] + b"7")


def truncate(state: Path, other: Path) -> None:
    path = state / "agent" / "total.json"
    path.write_bytes(path.read_bytes()[:-1])


def empty_file(state: Path, other: Path) -> None:
    (state / "agent" / "total.json").write_bytes(b"")


def remove_file(state: Path, other: Path) -> None:
    (state / "agent" / "total.json").unlink()


def add_file(state: Path, other: Path) -> None:
    (state / "agent" / "more.json").write_text("{}")


def add_folder_with_file(state: Path, other: Path) -> None:
    (state / "more").mkdir()
    (state / "more" / "total.json").write_text("{}")


def rename_file(state: Path, other: Path) -> None:
    (state / "agent" / "total.json").rename(state / "agent" / "Total.json")


def move_file_up(state: Path, other: Path) -> None:
    (state / "agent" / "total.json").rename(state / "total.json")


def exchange_state(state: Path, other: Path) -> None:
    shutil.rmtree(state)
    shutil.copytree(other, state)


def exchange_agent(state: Path, other: Path) -> None:
    shutil.rmtree(state / "agent")
    shutil.copytree(other / "agent", state / "agent")


def exchange_generators(state: Path, other: Path) -> None:
    shutil.copy(other / "global_random.json", state / "global_random.json")


def damage_generators(state: Path, other: Path) -> None:
    path = state / "global_random.json"
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))


def remove_generators(state: Path, other: Path) -> None:
    (state / "global_random.json").unlink()


def make_empty(state: Path, other: Path) -> None:
    shutil.rmtree(state)
    state.mkdir()


def append_newline(state: Path, other: Path) -> None:
    with (state / "agent" / "total.json").open("a") as file:
        file.write("\n")


DAMAGES = [
    *(damage_byte, truncate, empty_file, remove_file, add_file),
    *(add_folder_with_file, rename_file, move_file_up, exchange_state),
    *(exchange_agent, exchange_generators, damage_generators, remove_generators),
    *(make_empty, append_newline),
]


@pytest.mark.few(1)
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_and_exchanged_states_are_refused_by_name(
    copy_of: Callable[[Path], Path],
    probed: Path,
    agent: Path,
    tmp_path: Path,
    damage: Callable[[Path, Path], None],
) -> None:
    run_dir = copy_of(sorted((probed / "episodes").iterdir())[0])
    damage(run_dir / "agent" / "visit-2", run_dir / "agent" / "visit-1")
    request = ProbeRequest(agent=str(agent), out=tmp_path / "out", **SMALL)
    (result,) = Probing(find_probed_runs([run_dir], request)).play()
    ended = {played.run_dir.name: played for played in result.probes}
    assert {name for name, one in ended.items() if one.error} == {"visit-2"}
    assert isinstance(ended["visit-2"].exception, DocumentError)
    assert "visit-2: expected the files that the run kept" in str(
        ended["visit-2"].error
    )
    assert not (result.directory / "visit-2").exists()


# --- judged like everything else ----------------------------------------------------


def test_validation_finds_the_run_beside_it(probed: Path) -> None:
    report = longplay.validate_run(probes_of(probed) / "visit-2")
    assert report.is_valid and not report.findings.notes


def test_probe_alone_is_checked_as_far_as_possible(
    copy_of: Callable[[Path], Path], probed: Path
) -> None:
    alone = copy_of(probes_of(probed) / "visit-2")
    report = longplay.validate_run(alone)
    assert report.is_valid
    assert report.findings.note_counts == {"no origin": 1}
    run_dir = sorted((probed / "episodes").iterdir())[0]
    report = longplay.validate_run(alone, origin=run_dir)
    assert report.is_valid and not report.findings.notes


FORGERIES = [
    ("pending", {"reward": 5.0}, "probe.pending.reward"),
    ("pending", {"terminated": True}, "probe.pending.terminated"),
    ("pending", {"global_frame_idx": 1}, "probe.pending.global_frame_idx"),
    ("of", {"chain_head": "0" * 64}, "probe.of.chain_head"),
    ("of", {"agent_id": "0" * 64}, "probe.of.agent_id"),
    ("of", {"seed": 1}, "probe.of.seed"),
    (None, {"state_sha256": "0" * 64}, "probe.state_sha256"),
    (None, {"state": "visit-17"}, "probe.state"),
    (None, {"state": "visit-1"}, "probe.pending.global_frame_idx"),
]


@pytest.mark.parametrize(("part", "change", "field"), FORGERIES)
def test_false_claims_about_the_run_are_found(
    copy_of: Callable[[Path], Path],
    probed: Path,
    part: str | None,
    change: dict[str, Any],
    field: str,
) -> None:
    forged = copy_of(probes_of(probed) / "visit-2")
    config = json.loads((forged / "config.json").read_text())
    place = config["probe"] if part is None else config["probe"][part]
    place.update(change)
    (forged / "config.json").write_text(json.dumps(config))
    run_dir = sorted((probed / "episodes").iterdir())[0]
    found = longplay.validate_run(forged, origin=run_dir).findings
    claims = [finding for finding in found.shown if finding.kind == "probe claim"]
    assert field in [finding.field for finding in claims]


def test_probe_of_another_run_is_found(
    copy_of: Callable[[Path], Path], probed: Path
) -> None:
    other = sorted((probed / "episodes").iterdir())[1]
    report = longplay.validate_run(probes_of(probed) / "fresh", origin=other)
    assert report.findings.counts["probe claim"] >= 2


def test_changed_schedule_and_seeds_are_found(
    copy_of: Callable[[Path], Path], probed: Path
) -> None:
    forged = copy_of(probes_of(probed) / "visit-2")
    config = json.loads((forged / "config.json").read_text())
    config["emulator_seeds"][1] += 1
    (forged / "config.json").write_text(json.dumps(config))
    assert "suite claim" in longplay.validate_run(forged).findings.counts


@pytest.mark.exhaustive
def test_probe_is_replayed_and_executed_again(probed: Path, agent: Path) -> None:
    for state in ("fresh", "visit-1"):
        assert verify_run(probes_of(probed) / state).level == "replayed"
        verdict = reexecute(probes_of(probed) / state, str(agent))
        assert verdict.level == "re-executed", verdict.describe_failure()


@pytest.mark.exhaustive
def test_reexecution_starts_from_the_state(
    copy_of: Callable[[Path], Path], probed: Path, agent: Path
) -> None:
    probe = copy_of(probes_of(probed) / "visit-1")
    with pytest.raises(CannotVerifyError, match=r"expected the state visit-1.*--of"):
        reexecute(probe, str(agent))
    run_dir = sorted((probed / "episodes").iterdir())[0]
    assert reexecute(probe, str(agent), origin=run_dir).level == "re-executed"
    # The rows of one state are not those of another.
    other = probes_of(probed) / "visit-2" / "events.jsonl"
    assert other.read_bytes() != (probe / "events.jsonl").read_bytes()


def test_pack_keeps_a_probe(tmp_path: Path, probed: Path) -> None:
    probe, pack = probes_of(probed) / "visit-3", tmp_path / "probe.longplay"
    manifest = pack_run(probe, pack)
    assert manifest.version == 2 and "probe.json" in manifest.sizes
    back = unpack_run(pack, tmp_path / "back")
    for name in (*ROW_FILES, "probe.json", "config.json"):
        assert (back / name).read_bytes() == (probe / name).read_bytes()


def test_commands_judge_probes(
    invoke: Callable[..., Any], tmp_path: Path, probed: Path
) -> None:
    run_dir = sorted((probed / "episodes").iterdir())[0]
    probe, pack = probes_of(probed) / "visit-3", tmp_path / "run.longplay"
    assert invoke("validate", probe).exit_code == 0
    alone = shutil.copytree(probe, tmp_path / "alone")
    assert "no origin" in invoke("validate", alone).stdout
    assert "no origin" not in invoke("validate", alone, "--of", run_dir).stdout
    pack_run(run_dir, pack)
    assert "no origin" not in invoke("validate", alone, "--of", pack).stdout
    assert invoke("verify", alone, "--of", pack, "--quiet").exit_code == 0
    shown = invoke("show", probe).stdout
    assert "probe of" in shown and "qbert" in shown


def test_no_reader_counts_probes_as_results(
    invoke: Callable[..., Any], tmp_path: Path, probed: Path
) -> None:
    probe = probes_of(probed) / "visit-3"
    # One that was moved among the runs of its experiment.
    moved = shutil.copytree(probed, tmp_path / "moved")
    (run_dir, _) = sorted((moved / "episodes").iterdir())
    request = (run_dir / "episode_config.json").read_bytes()
    shutil.rmtree(run_dir)
    shutil.copytree(probe, run_dir)
    (run_dir / "episode_config.json").write_bytes(request)
    refused = invoke("export", moved, "--jsonl", tmp_path / "x.jsonl")
    assert refused.exit_code != 0
    assert "a probe is not a result" in " ".join(refused.stderr.split())
    assert "a probe has no score" in " ".join(invoke("score", probe).stderr.split())
    compared = invoke("compare", probe)
    assert "a probe of visit-3, not a result" in " ".join(compared.stderr.split())
    folder = tmp_path / "packs"
    folder.mkdir()
    pack_run(probe, folder / "probe.longplay")
    board = invoke("leaderboard", folder, "-o", tmp_path / "board", "--json").json
    assert [one["reason"] for one in board["refused"]] == [
        "probe: a probe of visit-3, not a result"
    ]
    assert not board.get("suites")
    # Beside results, they change nothing.
    (run,) = invoke("compare", probed, "--json").json["suites"]
    assert run["agents"][0]["seeds"] == [1000, 1001]


def test_command_plans_plays_and_continues(
    invoke: Callable[..., Any], tmp_path: Path, probed: Path, agent: Path
) -> None:
    run_dir = sorted((probed / "episodes").iterdir())[0]
    args = ["probe", run_dir, "--agent", agent, "--branches", 2, "--frames", 20]
    args += ["-o", tmp_path, "--quiet"]
    (plan,) = invoke(*args, "--dry-run", "--json").json
    assert plan["cells"]["visit-1"] == ["qbert", "pong"]
    assert not (tmp_path / run_dir.name).exists()
    assert "visit" not in invoke(*args, "--dry-run").stderr
    answer = invoke(*args, "--json")
    assert answer.exit_code == 0, answer.stderr
    assert [one["state"] for one in answer.json[0]["probes"]] == STATES
    assert invoke(*args, "--json").json[0]["probes"] == []
    assert read_probes(tmp_path / run_dir.name) == read_probes(probes_of(probed))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("suite", "games", "name", "defaults"),
    [
        ("stream-smoke-v1", ["qbert", "pong"], "random", (8, 2000)),
        ("prediction-smoke-v1", ["pong", "breakout"], "linear-td", (2, 500)),
    ],
)
def test_every_track_is_probed(
    tmp_path: Path, suite: str, games: list[str], name: str, defaults: tuple[int, int]
) -> None:
    settings: dict[str, Any] = {"games": games, "base_visit_frames": 60}
    plans = plan_seeds(suite, [1000], {**settings, "num_cycles": 1})
    Experiment.create(plans, name, out=tmp_path / "exp").run_sequentially()
    (planned,) = find_probed_runs([tmp_path / "exp"], ProbeRequest())
    assert (planned.size.branches, planned.size.frames) == defaults
    (result,) = longplay.probe(tmp_path / "exp", **SMALL)
    assert result.is_valid and len(result.probes) == 3
    assert verify_run(result.directory / "visit-1").level == "replayed"
    (answer,) = RunReader().read([tmp_path / "exp"]).runs
    probes = read_run_probes(answer.path, answer.chain_head)
    assert probes is not None and set(probes.places) == {"fresh", "visit-0", "visit-1"}


def test_status_shows_the_frames_of_a_probe(
    invoke: Callable[..., Any], probed: Path
) -> None:
    (shown,) = invoke("status", probes_of(probed) / "visit-1", "--json").json
    assert (shown["frame"], shown["frames_total"]) == (80, 80)
