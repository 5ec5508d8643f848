"""Run directory -> findings: does the run follow its contract?

Every row of every file is checked against the rules of `contract.rules`, and the score
is recomputed from the same rows. longplay's own runs are also checked against the plan
derived from their suite and seed (`agreement`), and their files against the lengths and
hashes in their summary. A run without these, or without digests, is valid but has no
evidence: a note says so.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from longplay.agreement import (
    COUNTS,
    check_chain_head,
    check_plan,
    check_provenance,
    check_result,
    check_status,
    compare,
    is_equal,
)
from longplay.contract.columns import BadLine, Chunk, Column, RowReader
from longplay.contract.config import RunConfig
from longplay.contract.curves import CURVES_FILE, check_curves
from longplay.contract.digests import check_digests
from longplay.contract.documents import (
    ROLLOUT_KEYS,
    FileDigest,
    PredictionScore,
    ProbeRecord,
    RunStatus,
    RunSummary,
    Score,
)
from longplay.contract.files import (
    read_bounded,
    read_document,
    shorten,
)
from longplay.contract.findings import Finding, FindingLog, Kind
from longplay.contract.fingerprint import contract_hash
from longplay.contract.layout import find_probed_run
from longplay.contract.rows import DigestRow, EpisodeRow, SegmentRow
from longplay.contract.rules import EventRules
from longplay.contract.rundir import RunDirectory, find_run, has_evidence
from longplay.contract.spans import ENDED_BY, SpanTable, check_spans
from longplay.errors import ContractVersionError, DocumentError, LongplayError
from longplay.probes import Origin, check_origin, note_missing_origin, read_origin
from longplay.scoring.metrics import Rewards
from longplay.scoring.play import Forecasts, Play, played_visits
from longplay.scoring.probe import PROBE_FILE, compute_probe
from longplay.scoring.windows import find_windows
from longplay.tracks.scores import compute_score


@dataclass(frozen=True)
class Report:
    """The result of validating one run directory."""

    run_dir: Path
    frames: int
    findings: FindingLog

    @property
    def is_valid(self) -> bool:
        """Whether there are no findings."""
        return not self.findings.counts

    def to_json(self) -> dict[str, Any]:
        """The report as JSON."""
        found = self.findings
        return {
            "run_dir": str(self.run_dir),
            "valid": self.is_valid,
            "foreign": found.is_foreign,
            "frames": self.frames,
            "counts": dict(found.counts),
            "findings": [_finding_to_json(finding) for finding in found.shown],
            "note_counts": dict(found.note_counts),
            "notes": [_finding_to_json(finding) for finding in found.notes],
        }


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    names = ("kind", "file", "line", "field", "message")
    return {name: getattr(finding, name) for name in names}


def validate_run(
    directory: str | Path,
    *,
    workers: int = 1,
    rows: RunRows | None = None,
    origin: str | Path | Origin | None = None,
) -> Report:
    """Validates a run directory, or the one run of an experiment.

    Args:
        directory: The run directory or the experiment.
        workers: Processes that read. They are spawned if there are several, so a
            script then needs an `if __name__ == "__main__"`.
        rows: Its row files, if they were read already.
        origin: Of a probe: the run directory that it is a probe of. By default the one
            that it lies beside; without any, a note says what was not checked.

    Raises:
        NotARunError: The folder contains no run, or several.
        LongplayError: The origin is not a complete run.
    """
    if isinstance(origin, str | Path):
        origin = read_origin(RunDirectory(find_run(Path(origin))))
    run_dir = find_run(Path(directory))
    return _Validation(run_dir, workers, rows, origin).report()


class RunRows:
    """The row files of a run, read once: what they violate, their sums and hashes.

    Attributes:
        findings: What the rows violate.
        rules: What follows from the events.
        digests: File -> its length and hash, of the files that are there.
        chunks: File -> its rows, of the small files.
    """

    def __init__(self, run_dir: Path, config: RunConfig, workers: int = 1) -> None:
        self._run_dir = run_dir
        self.config = config
        self._workers = workers
        self.findings = FindingLog(is_foreign=not config.is_longplay)
        self.rules = EventRules(config, self.findings)
        self.digests: dict[str, FileDigest] = {}
        self.chunks: dict[str, Chunk] = {}
        self._check_events()
        self._check_spans()
        if config.is_longplay:  # another tool's file of this name may be anything
            self._read_evidence()

    def require_whole(self) -> None:
        """Refuses events that are not all frames of the run, once each.

        Raises:
            DocumentError: Names the first line that is wrong.
        """
        broken = {"unreadable line", "frame order", "missing frames", "missing file"}
        for finding in self.findings.shown:
            if finding.file == "events.jsonl" and finding.kind in broken:
                raise DocumentError(f"{finding}; run `longplay validate` for details")

    def to_play(self, fps: float | None) -> Play:
        """The inputs of the run's score."""
        return Play(
            config=self.config,
            visits=played_visits(self.config),
            rewards=Rewards(*self.rules.rewards.by_frame()),
            game_rewards=Rewards(*self.rules.game_rewards.by_frame()),
            terminated_ends=self._terminated_ends(),
            fps=fps,
            forecasts=Forecasts(*self.rules.forecasts.by_frame()),
        )

    def _terminated_ends(self) -> Column:
        """Last frames of the episodes that the game ended."""
        found = self.chunks.get("episodes.jsonl")
        if not self.config.is_longplay and found is not None:
            # Where an episode ends with a visit, the contract does not say which flag
            # counts: that tool's own word does, as for the scorer.
            return _find_terminated_ends(found)
        episodes = self.rules.episodes.columns()
        ends: Column = episodes["end_global_frame_idx"]
        is_terminated: Column = episodes["terminated"].astype(bool)
        return np.extract(is_terminated, ends)

    def _check_events(self) -> None:
        games = {"game_id": self.rules.games}
        event_row = self.config.event_row
        for chunk in self._read("events.jsonl", event_row, games):
            self.rules.check(chunk)
        self.rules.finish()

    def _check_spans(self) -> None:
        rules = self.rules
        vocabularies = {"game_id": rules.games, "ended_by": ENDED_BY}
        kinds: tuple[tuple[str, type[msgspec.Struct], Kind, SpanTable], ...] = (
            ("episodes.jsonl", EpisodeRow, "episode row", rules.episodes),
            ("segments.jsonl", SegmentRow, "segment row", rules.segments),
        )
        for file, row_type, kind, table in kinds:
            chunks = list(self._read(file, row_type, vocabularies))
            if chunks:
                found = self.chunks[file] = _join(chunks)
                expected = table.columns()
                check_spans(file, kind, expected, found, rules.games, self.findings)

    def _read_evidence(self) -> None:
        """Reads digests and curves, which runs before longplay 0.2 may lack."""
        path = self._run_dir / "digests.jsonl"
        if path.is_file():
            self.chunks[path.name] = _join(list(self._read(path.name, DigestRow, {})))
        path = self._run_dir / CURVES_FILE
        if path.is_file():
            content = read_bounded(path)
            sha256 = hashlib.sha256(content).hexdigest()
            self.digests[path.name] = FileDigest(bytes=len(content), sha256=sha256)
            check_curves(content, self.rules.windows.to_rows(), self.findings)

    def _read(
        self,
        file: str,
        row_type: type[msgspec.Struct],
        vocabularies: Mapping[str, tuple[str, ...]],
    ) -> Iterator[Chunk]:
        path = self._run_dir / file
        if not path.is_file():
            message = "expected this file, found none"
            self.findings.add(Finding("missing file", file, message))
            return
        reader = RowReader(row_type, vocabularies, self.config.is_longplay)
        digest = hashlib.sha256()
        for chunk in reader.read_chunks(path, self._workers, digest):
            bad_lines: tuple[tuple[Kind, list[BadLine]], ...] = (
                ("unreadable line", chunk.unreadable),
                ("not canonical", chunk.uncanonical),
            )
            for kind, bad in bad_lines:
                for one in bad:
                    finding = Finding(kind, file, one.message, one.line, one.field)
                    self.findings.add(finding)
            yield chunk
        self.digests[file] = FileDigest(
            bytes=path.stat().st_size, sha256=digest.hexdigest()
        )


class _Validation:
    """One pass over one run directory."""

    def __init__(
        self,
        run_dir: Path,
        workers: int,
        rows: RunRows | None,
        origin: Origin | None,
    ) -> None:
        self._run_dir = run_dir
        self._workers = workers
        self._rows = rows
        self._origin = origin
        self._findings = FindingLog()

    def report(self) -> Report:
        config = self._read("config.json", RunConfig, "missing file")
        if config is None:
            return Report(self._run_dir, 0, self._findings)
        self._findings.is_foreign = not config.is_longplay
        self._check_config(config)
        rows = self._rows or RunRows(self._run_dir, config, self._workers)
        self._findings.extend(rows.findings)
        summary = self._check_summary(config, rows.rules)
        self._check_digests(config, rows, summary)
        self._check_score(config, rows, summary)
        self._check_hashes(config, rows, summary)
        self._check_state(config)
        return Report(self._run_dir, rows.rules.frames, self._findings)

    def _add(self, kind: Kind, file: str, message: str, field: str = "") -> None:
        self._findings.add(Finding(kind, file, message, field=field or None))

    def _add_all(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self._findings.add(finding)

    def _read(self, name: str, model: type[Any], missing: Kind | None) -> Any:
        """Reads a document; adds a finding and returns None if that fails."""
        path = self._run_dir / name
        if not path.is_file():
            if missing is not None:
                self._add(missing, name, "expected this file, found none")
            return None
        try:
            return read_document(path, model)
        except DocumentError as error:
            message = str(error).removeprefix(f"{name}").lstrip(": ")
            is_version = isinstance(error, ContractVersionError)
            kind: Kind = "contract version" if is_version else "unreadable document"
            self._add(kind, name, message)
            return None

    # --- config.json ------------------------------------------------------------

    def _check_config(self, config: RunConfig) -> None:
        expected, found = contract_hash(config), config.benchmark_contract_hash
        if found != expected:
            message = f"expected {expected} for these settings, found {found}"
            field = "benchmark_contract_hash"
            self._add("contract hash", "config.json", message, field)
        self._check_schedule_form(config)
        if config.is_longplay:
            self._add_all(check_plan(config))
            self._add_all(check_provenance(config))
        else:
            self._note_profile(config)
        if config.probe is not None:
            self._check_origin(config)

    def _check_origin(self, config: RunConfig) -> None:
        """Checks a probe against the run whose agent it probes."""
        origin = self._origin
        found = find_probed_run(self._run_dir) if origin is None else None
        if found is not None:
            try:
                origin = read_origin(RunDirectory(found))
            except LongplayError as error:
                self._add("probe claim", "config.json", str(error), "probe.of")
                return
        if origin is None:
            self._findings.add(note_missing_origin())
            return
        self._add_all(check_origin(config, origin))

    def _check_schedule_form(self, config: RunConfig) -> None:
        for position, visit in enumerate(config.schedule):
            field = f"schedule.{position}"
            if visit.visit_idx != position:
                message = f"expected visit_idx {position}, found {visit.visit_idx}"
                self._add("schedule", "config.json", message, field)
            if visit.game_id not in config.games:
                message = f"expected one of the games, found {visit.game_id!r}"
                self._add("schedule", "config.json", message, field)
        default = config.default_action_idx
        if default >= len(config.action_mapping_policy.global_action_set):
            message = f"expected an index of global_action_set, found {default}"
            self._add("action range", "config.json", message, "default_action_idx")

    def _note_profile(self, config: RunConfig) -> None:
        """Notes that another tool's run was made with a different loop.

        A loop that calls the agent after the step instead of before it writes the same
        keys: its rows look like v1's but mean something else.
        """
        extra = config.model_extra or {}
        for name in _PROFILE_KEYS:
            profile = extra.get(name)
            if profile is not None and profile != _V1_PROFILE:
                self._add(
                    "runner profile",
                    "config.json",
                    f"expected none or {_V1_PROFILE!r}, found {shorten(profile)}; the "
                    "rules of v1 were applied, where the agent decides before each "
                    "step: rows of another loop may look valid but mean something else",
                    name,
                )

    # --- files computed from the rows ---------------------------------------------

    def _check_summary(self, config: RunConfig, rules: EventRules) -> RunSummary | None:
        if not config.is_longplay:
            return None  # another tool's file of this name may be anything
        summary: RunSummary | None = self._read(
            "run_summary.json", RunSummary, "missing file"
        )
        if summary is None:
            return None
        sums = rules.visit_sums
        frames = int(sums["frames"].sum())
        expected: dict[str, Any] = {
            **{name: int(sums[name].sum()) for name in COUNTS},
            "segments": len(rules.segments.columns()["length"]),
            "wall_time_s": math.fsum(visit.wall_time_s for visit in summary.visits),
            "fps": frames / summary.wall_time_s if summary.wall_time_s else None,
        }
        self._compare("summary", "run_summary.json", expected, summary)
        visits = enumerate(config.played_schedule)
        started = [(k, visit) for k, visit in visits if sums["frames"][k]]
        if len(summary.visits) != len(started):
            message = f"expected {len(started)} visits, found {len(summary.visits)}"
            self._add("summary", "run_summary.json", message, "visits")
        for (k, visit), found in zip(started, summary.visits, strict=False):
            expected = {
                "visit_idx": k,
                "game_id": visit.game_id,
                "cycle_idx": visit.cycle_idx,
                **{name: int(sums[name][k]) for name in COUNTS},
                "reward_sum": float(sums["reward_sum"][k]),
                "game_reward_sum": float(sums["game_reward_sum"][k]),
            }
            self._compare(
                "summary", "run_summary.json", expected, found, f"visits.{k}."
            )
        return summary

    def _check_digests(
        self, config: RunConfig, rows: RunRows, summary: RunSummary | None
    ) -> None:
        """Checks the form of digests.jsonl; `verify` checks the chain's values."""
        file = "digests.jsonl"
        chunk = rows.chunks.get(file)
        if chunk is None:
            if summary is not None and summary.chain_head is not None:
                self._add("missing file", file, "expected this file, found none")
            return  # another tool's run, or one older than digests
        schedule, frames = config.played_schedule, rows.rules.frames
        check_digests(file, chunk, schedule, frames, self._findings)
        if summary is not None:
            self._add_all(check_chain_head(self._run_dir, summary))

    def _check_tuning(self) -> None:
        """Checks that a tuning run has tuning.json instead of a score."""
        if (self._run_dir / "score.json").exists():
            self._add("score", "score.json", "expected none: this is a tuning run")
        if not (self._run_dir / "tuning.json").is_file():
            self._add("missing file", "tuning.json", "expected the tuning run's result")

    def _check_probe(self, config: RunConfig, rows: RunRows) -> None:
        """Checks that a probe has probe.json instead of a score, and computes it."""
        if (self._run_dir / "score.json").exists():
            self._add("score", "score.json", "expected none: this is a probe")
        found = self._read(PROBE_FILE, ProbeRecord, "missing file")
        if found is None:
            return
        try:
            expected = compute_probe(config, rows.rules.windows.to_rows())
        except DocumentError as error:
            self._add("score", PROBE_FILE, f"cannot be recomputed: {error}")
            return
        self._compare("score", PROBE_FILE, dict(expected), found)

    def _check_score(
        self, config: RunConfig, rows: RunRows, summary: RunSummary | None
    ) -> None:
        if config.is_tuning:
            self._check_tuning()
            return
        if config.probe is not None:
            self._check_probe(config, rows)
            return
        missing: Kind | None = "missing file" if config.is_longplay else None
        score = self._read("score.json", config.score_type, missing)
        if score is None:
            return
        if rows.rules.frames < config.total_frames:
            self._add("score", "score.json", "expected none: frames are missing")
            return
        # The only number that cannot be derived from the rows.
        fps = score.fps if summary is None else summary.fps
        play = rows.to_play(fps)
        try:
            expected = dict(compute_score(play))
        except DocumentError as error:
            self._add("score", "score.json", f"cannot be recomputed: {error}")
            return
        if isinstance(score, PredictionScore):
            self._check_rollouts(expected, score)
        if not (_is_same(expected, score) or self._recognise_windows(play, score)):
            self._compare("score", "score.json", expected, score)

    def _recognise_windows(self, play: Play, score: Score) -> bool:
        """Adds one finding if a score was made with other windows or weights."""
        own = play.config.scoring_defaults
        found = find_windows(play, score)
        if found is None or found == own:
            return False
        config = play.config.model_copy(update={"scoring_defaults": found})
        expected = dict(compute_score(replace(play, config=config)))
        # The first scorer writes the hash of config.json, longplay that of the windows.
        hashes = (config.benchmark_contract_hash, expected["benchmark_contract_hash"])
        if score.benchmark_contract_hash not in hashes:
            return False
        expected["benchmark_contract_hash"] = score.benchmark_contract_hash
        if not _is_same(expected, score):
            return False
        changed = ", ".join(
            f"{name} {value} instead of {getattr(own, name)}"
            for name, value in found
            if value != getattr(own, name)
        )
        self._add(
            "score",
            "score.json",
            f"made with other windows or weights than those of config.json: {changed}; "
            "run `longplay score` to score again",
            "scoring_defaults",
        )
        return True

    def _check_rollouts(self, expected: dict[str, Any], score: PredictionScore) -> None:
        """Notes that a score used other rollout values; skips the rollout keys."""
        wanted, found = expected["rollouts_sha256"], score.rollouts_sha256
        if wanted == found:
            return
        for name in ROLLOUT_KEYS:
            del expected[name]
        self._add(
            "other rollouts",
            "score.json",
            f"scored with other rollouts: expected {shorten(wanted or 'none')} as "
            f"installed, found {shorten(found or 'none')}; run `longplay score` to "
            "score again",
            "rollouts_sha256",
        )

    def _check_hashes(
        self, config: RunConfig, rows: RunRows, summary: RunSummary | None
    ) -> None:
        """Checks the files against the lengths and hashes in the summary."""
        if not has_evidence(summary):
            self._add(
                "no evidence",
                "run_summary.json",
                "expected chain_head, rows and score_sha256, as longplay writes them "
                "for a complete run; without them the run is only claimed",
            )
        recorded = summary.rows if summary is not None else None
        for name, wanted in (recorded or {}).items():
            found = rows.digests.get(name)
            if found is None:
                if name == CURVES_FILE:  # the others are found where they are read
                    self._add("missing file", name, "expected this file, found none")
                continue
            self._compare_hash(f"rows.{name}.bytes", found.bytes, wanted.bytes)
            if found.bytes == wanted.bytes:
                field = f"rows.{name}.sha256"
                self._compare_hash(field, found.sha256, wanted.sha256)
        if summary is not None:
            self._add_all(check_result(self._run_dir, config, summary))

    def _compare_hash(self, field: str, expected: object, found: object) -> None:
        if expected != found:
            message = f"expected {expected} of the file, found {found}"
            self._add("summary", "run_summary.json", message, field)

    def _check_state(self, config: RunConfig) -> None:
        """Checks that the run ended: writing COMPLETED is its last step."""
        if not config.is_longplay:
            return  # another tool's file of this name may be anything
        status: RunStatus | None = self._read("status.json", RunStatus, None)
        if status is not None and status.state != "COMPLETED":
            self._add(
                "state",
                "status.json",
                f"expected COMPLETED, found {status.state}; run `longplay resume` to "
                "continue",
                "state",
            )
        elif status is not None:
            self._add_all(check_status(config, status))

    def _compare(
        self,
        kind: Kind,
        file: str,
        expected: Mapping[str, Any],
        document: Any,
        prefix: str = "",
    ) -> None:
        pairs = {
            f"{prefix}{name}": (wanted, getattr(document, name))
            for name, wanted in expected.items()
        }
        self._add_all(compare(kind, file, "the rows", pairs))


# Keys in which the first implementation of v1 names a loop other than v1's, such as one
# that calls the agent after the step.
_PROFILE_KEYS = ("runner_mode", "multi_run_profile")
_V1_PROFILE = "standard"


def _is_same(expected: Mapping[str, Any], document: Any) -> bool:
    return all(is_equal(expected[name], getattr(document, name)) for name in expected)


def _find_terminated_ends(episodes: Chunk) -> Column:
    """Last frames of the episodes that ended by `terminated`, by their rows."""
    is_terminated = episodes.columns["ended_by"] == ENDED_BY.index("terminated")
    ends: Column = episodes.columns["end_global_frame_idx"][is_terminated]
    return ends


def _join(chunks: list[Chunk]) -> Chunk:
    """Joins the chunks of a small file."""
    return Chunk(
        {
            name: np.concatenate([chunk.columns[name] for chunk in chunks])
            for name in chunks[0].columns
        },
        np.concatenate([chunk.lines for chunk in chunks]),
        sum(chunk.line_count for chunk in chunks),
    )
