"""One run: the stream as a timeline, its games, its numbers and its evidence."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from longplay.agents.output import FILE_NAME as OUTPUT_FILE
from longplay.contract.config import RunConfig, visit_spans
from longplay.contract.curves import ratio
from longplay.contract.documents import PredictionScore, Score, TuningRecord
from longplay.contract.files import open_regular, read_document
from longplay.contract.rows import EpisodeRow
from longplay.contract.rundir import PACK_SUFFIX, RunDirectory
from longplay.errors import DocumentError
from longplay.lab.analysis.records import METRICS
from longplay.lab.analysis.results import shipped_results
from longplay.lab.report.draw.colours import game_colour
from longplay.lab.report.draw.drawings import Drawing, Series, drawing_to_csv
from longplay.lab.report.draw.figures import make_figure
from longplay.lab.report.site.sections import describe_command
from longplay.lab.report.tables import head_metric
from longplay.lab.viewer.cards import (
    describe_learning,
    describe_progress,
    describe_state,
    measure_alone,
)
from longplay.lab.viewer.index import RunEntry, check_file, path_to_text
from longplay.lab.viewer.kept import PageNotFoundError
from longplay.lab.viewer.list_page import live_texts
from longplay.lab.viewer.site import ShownRun, Site
from longplay.lab.viewer.timeline import (
    Played,
    count_bins,
    draw_episodes,
    draw_error,
    draw_metric,
    draw_rate,
    draw_timeline,
    episode_address,
)
from longplay.lab.viewer.zoom import Zoom, read_zoom
from longplay.runs.status import describe_age
from longplay.scoring.baselines import random_baseline
from longplay.scoring.metrics import mean_or_none
from longplay.scoring.rates import VisitTotals
from longplay.tables import NOTHING, Cell, TextTable, Value, count, format_number
from longplay.tracks.catalogue import track_of

EPISODES_PER_PAGE = 100
# Keys of score.json that have a table of their own, or none.
_NOT_LISTED = ("reward_rate",)
# Of v1's keys, what a prediction run has; the others are about rewards, and a fixed
# policy plays.
_OF_EVERY_RUN = (
    "fps",
    "frames",
    "benchmark_contract_version",
    "benchmark_contract_hash",
    "complete",
)
# Settings that change which visits there are, not what a frame of a game yields.
_OF_THE_SCHEDULE = {
    "games",
    "num_cycles",
    "base_visit_frames",
    "min_visit_frames",
    "jitter_pct",
}
_LONGEST_WORD = 16
# What is shown of agent_output.txt: its end.
_MOST_OUTPUT_BYTES = 2**20


@dataclass(frozen=True)
class EpisodeTable:
    """A part of the episodes of a run."""

    table: TextTable
    page: int
    pages: int


def render_run(site: Site, entry: RunEntry, page: int) -> bytes:
    """The page of a run.

    Args:
        site: The viewer.
        entry: The run.
        page: Which part of its episodes to list, from 1.
    """
    with site.show_run(entry, with_curves=False) as shown:
        episodes = _list_episodes(entry, shown, page)
    run, card = shown.run, shown.card
    found = site.read_runs([entry])
    measured = found.runs[0] if found.runs else None
    return site.render(
        "run.html",
        card=card,
        entry=entry,
        experiment=site.index.read().experiments.get(entry.experiment_id or ""),
        state=describe_state(card.state),
        progress=describe_progress(card),
        learning=describe_learning(card),
        heartbeat=describe_age(card.heartbeat_utc) if card.heartbeat_utc else NOTHING,
        unpack=_unpack_command(entry) if entry.is_pack else None,
        score=_table_score(run.score),
        numbers=_table_numbers(run, measure_alone(measured, site.anchors))
        if measured
        else None,
        rates=None if track_of(run.config).predicts else _table_rates(run),
        game_scores=_table_game_scores(run),
        visits=_table_visits(entry, run),
        episodes=episodes,
        tuning=_read_tuning(run),
        config=run.config,
        probe=_describe_probe(run),
        output=_find_output(entry),
        evidence=_list_evidence(run, card.trust),
        facts=_list_facts(run),
        command=describe_command(card.agent, [measured]) if measured else None,
        colours={game: game_colour(game) for game in run.config.games},
        left_out=[left.reason for left in found.left_out],
    )


def _list_episodes(entry: RunEntry, shown: ShownRun, page: int) -> EpisodeTable | None:
    if shown.episodes is None:
        return None
    rows = shown.episodes
    pages = max(1, math.ceil(len(rows) / EPISODES_PER_PAGE))
    page = min(max(page, 1), pages)
    part = rows[(page - 1) * EPISODES_PER_PAGE : page * EPISODES_PER_PAGE]
    noun = track_of(shown.run.config).frame_noun
    table = TextTable.of_items(
        count(len(rows), "episode"),
        part,
        ("episode", lambda row: _episode_cell(entry, row)),
        ("game", lambda row: row.game_id),
        (f"first {noun}", lambda row: row.start_global_frame_idx),
        (f"{noun}s", lambda row: row.length),
        ("return", lambda row: row.return_),
        ("ended by", lambda row: row.ended_by),
        names=2,
        texts=(5,),
    )
    return EpisodeTable(table, page, pages)


def _episode_cell(entry: RunEntry, row: EpisodeRow) -> Cell:
    address = episode_address(entry.id, row.episode_id)
    return Cell(str(row.episode_id), row.episode_id, page=address)


def _unpack_command(entry: RunEntry) -> str:
    folder = entry.path.name.removesuffix(PACK_SUFFIX)
    return shlex.join(["longplay", "unpack", path_to_text(entry.path), "-o", folder])


# --- numbers --------------------------------------------------------------------


def _table_score(score: Score | None) -> TextTable | None:
    """The numbers of score.json that are about the whole run."""
    if score is None:
        return None
    numbers = score.model_dump(mode="json")
    if isinstance(score, PredictionScore):
        errors = {n: v for n, v in numbers.items() if n not in Score.model_fields}
        numbers = errors | {name: numbers[name] for name in _OF_EVERY_RUN}
    rows = [
        (Cell(name.replace("_", " "), name), _show_score(value))
        for name, value in numbers.items()
        if not isinstance(value, (dict, list)) and name not in _NOT_LISTED
    ]
    return TextTable.of("score.json", ("number", "value"), rows)


def _show_score(value: Any) -> Value:
    """A number as it is, a hash by its first digits."""
    if isinstance(value, str) and len(value) > _LONGEST_WORD:
        return Cell(f"{value[:_LONGEST_WORD]}…", value)
    found: Value = str(value) if isinstance(value, bool) else value
    return found


def _table_numbers(run: RunDirectory, numbers: dict[str, float]) -> TextTable:
    """The numbers of `longplay compare`, of this run alone."""
    track = track_of(run.config)
    rows = [
        (Cell(head_metric(name, track.headline, None), name), numbers[name])
        for name in METRICS
        if name in numbers
    ]
    return TextTable.of("normalised", ("number", "value"), rows)


def _table_rates(run: RunDirectory) -> TextTable:
    """Reward per frame of every game over whole visits, cycle by cycle."""
    schedule = run.config.played_schedule
    cycles = sorted({visit.cycle_idx for visit in schedule})
    found: dict[tuple[str, int], list[float]] = {}
    for visit, rate in zip(schedule, _visit_rates(run), strict=False):
        if not math.isnan(rate):
            found.setdefault((visit.game_id, visit.cycle_idx), []).append(rate)
    rows = [
        (game, *(mean_or_none(found.get((game, cycle), [])) for cycle in cycles))
        for game in run.config.games
    ]
    title = f"reward per {track_of(run.config).frame_noun} over whole visits"
    return TextTable.of(title, ("game", *(f"cycle {n}" for n in cycles)), rows)


def _table_game_scores(run: RunDirectory) -> TextTable | None:
    """What score.json says of every game."""
    if (score := run.score) is None:
        return None
    if isinstance(score, PredictionScore):
        errors = score.per_game_value_nmse
        return TextTable.of_items(
            "errors by game, lower is better",
            run.config.games,
            ("game", str),
            ("nmse", score.per_game_nmse.get),
            ("mse", score.per_game_mse.get),
            ("return mse", score.per_game_return_mse.get),
            *(() if errors is None else (("value nmse", errors.get),)),
        )
    return TextTable.of_items(
        "score.json by game",
        run.config.games,
        ("game", str),
        ("score", score.per_game_scores.get),
        ("forgetting", score.per_game_forgetting.get),
        ("plasticity", score.per_game_plasticity.get),
    )


def _find_levels(run: RunDirectory) -> dict[str, Mapping[str, float]]:
    """Agents that learn nothing -> their reward per frame by game, where known."""
    config = run.config
    given = config.config_given
    is_known = given is not None and not set(given.overrides) - _OF_THE_SCHEDULE
    if given is None or not is_known or track_of(config).predicts:
        return {}
    emulator = (config.versions or {}).get("ale_py")
    found: dict[str, Mapping[str, float]] = {}
    baseline = random_baseline(given.suite)
    if baseline is not None and baseline.emulator == emulator:
        found["random"] = baseline.rates
    if rates := _shipped_rates(given.suite, emulator, "explore-only"):
        found["explore-only"] = rates
    return found


def _shipped_rates(suite: str, emulator: str | None, agent: str) -> dict[str, float]:
    """Game -> reward per frame of a shipped agent, mean over its runs."""
    values: dict[str, list[float]] = {}
    for run in shipped_results().runs:
        if (run.suite, run.emulator, run.agent) == (suite, emulator, agent):
            for game, rate in run.rates.get("average", {}).items():
                values.setdefault(game, []).extend([] if rate is None else [rate])
    return {game: sum(own) / len(own) for game, own in values.items() if own}


def _visit_rates(run: RunDirectory) -> list[float]:
    """Reward per frame of the visits that were started, from the summary."""
    if run.summary is None:
        return []
    totals = VisitTotals.from_summary(run.summary)
    rates: list[float] = ratio(totals.rewards, totals.frames).tolist()
    return rates


def _table_visits(entry: RunEntry, run: RunDirectory) -> TextTable:
    """Every visit, with a link that plays it from its first frame."""
    played = {v.visit_idx: v for v in run.summary.visits} if run.summary else {}
    noun = track_of(run.config).frame_noun
    rows: list[tuple[Value, ...]] = []
    schedule = run.config.played_schedule
    for visit, span in zip(schedule, visit_spans(schedule), strict=True):
        number, seen = visit.visit_idx, played.get(visit.visit_idx)
        address = f"/runs/{entry.id}/visits/{number}" if seen else ""
        name = Cell(str(number), number, page=address)
        numbers = (seen.reward_sum, seen.episodes) if seen else (None, None)
        place = (visit.game_id, visit.cycle_idx, span.start, len(span))
        rows.append((name, *place, *numbers))
    columns = ("visit", "game", "cycle", f"first {noun}", f"{noun}s", "reward")
    return TextTable.of("visits", (*columns, "episodes"), rows, names=2)


def _describe_probe(run: RunDirectory) -> str | None:
    probe = run.config.probe
    if probe is None:
        return None
    noun = track_of(run.config).frame_noun
    return (
        f"state {probe.state} of the agent of {probe.of.suite}, seed {probe.of.seed}: "
        f"{probe.branches} branches of {probe.frames:,} {noun}s per game, each a visit"
    )


def _read_tuning(run: RunDirectory) -> str | None:
    path = run.path / "tuning.json"
    if not run.config.is_tuning or not path.is_file():
        return None
    found = read_document(path, TuningRecord)
    if found.value is None:
        return f"no value: {found.reason}"
    units = " and ".join(dict.fromkeys(found.units.values()))
    return f"{units} {format_number(found.value)}"


# --- what the agent printed -----------------------------------------------------


def _find_output(entry: RunEntry) -> str:
    """The address of what the agent printed; empty if it printed nothing."""
    path = entry.path / OUTPUT_FILE
    has_output = not entry.is_pack and path.is_file() and path.stat().st_size > 0
    return f"/runs/{entry.id}/{OUTPUT_FILE}" if has_output else ""


def read_agent_output(entry: RunEntry) -> bytes:
    """The end of what the agent printed.

    Raises:
        PageNotFoundError: It printed nothing.
        DocumentError: The file must not be read.
    """
    if not _find_output(entry):
        raise PageNotFoundError("the agent printed nothing")
    path = entry.path / OUTPUT_FILE
    entry.open()  # checks where the run is
    check_file(path, None)
    try:
        with open_regular(path) as file:
            file.seek(max(0, path.stat().st_size - _MOST_OUTPUT_BYTES))
            return file.read(_MOST_OUTPUT_BYTES)
    except OSError as error:
        raise DocumentError(f"{path.name}: {error.strerror}") from error


# --- evidence -------------------------------------------------------------------


def _list_evidence(run: RunDirectory, trust: str) -> list[tuple[str, str]]:
    """What was validated and verified, when, by what."""
    record = run.verification
    if record is None:
        how = shlex.join(["longplay", "verify", path_to_text(run.path)])
        return [("trust", "claimed: it was not verified"), ("to verify it", how)]
    result = "passed" if record.passed else "failed"
    versions = ", ".join(f"{name} {found}" for name, found in record.versions.items())
    rows = [
        ("trust", trust),
        ("verified by", f"{record.method}, {result}, {record.frames:,} rows"),
        ("with", versions),
    ]
    path = run.path / "verification.json"
    if path.is_file():
        moment = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        rows.append(("when", f"{moment:%Y-%m-%d %H:%M} UTC, by the file's date"))
    if record.first_difference is not None:
        rows.append(("first difference", str(record.first_difference)))
    findings = ", ".join(f"{kind}: {n}" for kind, n in record.findings.items())
    rows.append(("validated", findings or "every row, no findings"))
    if record.passed and trust == "claimed":
        rows.append(("note", "its files are not the files that were verified"))
    return rows


def _list_facts(run: RunDirectory) -> list[tuple[str, str]]:
    """Provenance and settings."""
    config = run.config
    rows = [("contract hash", config.benchmark_contract_hash)]
    if config.agent is not None:
        rows.append(("agent id", config.agent.agent_id))
        rows.append(("agent", json.dumps(config.agent.config)))
    if config.versions is not None:
        versions = (f"{name} {found}" for name, found in config.versions.items())
        rows.append(("versions", ", ".join(versions)))
    if config.git is not None and config.git.commit is not None:
        dirty = " (dirty)" if config.git.is_dirty else ""
        rows.append(("git", f"{config.git.commit}{dirty}"))
    if run.summary is not None:
        rows.append(("played", f"{run.summary.started_utc} – {run.summary.ended_utc}"))
        rows.append(("chain head", run.summary.chain_head or NOTHING))
    return [*rows, *_list_settings(config)]


def _list_settings(config: RunConfig) -> list[tuple[str, str]]:
    given = config.config_effective or {}
    return [(name, json.dumps(value)) for name, value in given.items()]


# --- the timeline ---------------------------------------------------------------


def _gather(entry: RunEntry, shown: ShownRun, zoom: Zoom | None = None) -> Played:
    return Played(
        entry.id,
        shown.run.config,
        shown.curves,
        shown.episodes,
        shown.metrics,
        _visit_rates(shown.run),
        zoom,
        _find_levels(shown.run),
    )


@contextmanager
def _draw_part(
    site: Site, entry: RunEntry, frames: range | None
) -> Iterator[tuple[Played, Drawing]]:
    """The timeline, a part of it in finer bins if frames are given."""
    with site.show_run(entry, with_curves=True) as shown:
        part = range(shown.run.config.total_frames)
        if frames is not None:
            part = part[frames.start : frames.stop]
        zoom = None
        if frames is not None and part:
            zoom = Zoom(part) if entry.is_pack else read_zoom(entry.path, part)
        played = _gather(entry, shown, zoom)
        yield played, draw_timeline(played)


def timeline_figure(
    site: Site, entry: RunEntry, frames: range | None = None
) -> dict[str, Any]:
    """The timeline as a figure, and where it continues.

    Args:
        site: The viewer.
        entry: The run.
        frames: The part that is shown larger, and so in finer bins; None for none.
    """
    with _draw_part(site, entry, frames) as (played, drawing):
        figure = make_figure(drawing)
        for trace in figure["data"]:
            # Dashes are for the lines of other agents, which have no key.
            if "meta" in trace and "line" in trace:
                trace["line"]["dash"] = "solid"
        caption, positions = drawing.caption, _positions(played)
        return {**figure, "caption": caption, "next": positions}


def timeline_csv(site: Site, entry: RunEntry, frames: range | None = None) -> str:
    """The numbers of the timeline; arguments as of `timeline_figure`."""
    with _draw_part(site, entry, frames) as (_, drawing):
        return drawing_to_csv(drawing)


def _positions(played: Played) -> dict[str, int]:
    """How many points of each kind were sent so far."""
    rows = max((len(points.frames) for points in played.metrics.values()), default=0)
    bins = 0 if played.curves is None else count_bins(played.config, played.curves)
    episodes = 0 if played.episodes is None else len(played.episodes)
    return {"rate": bins, "episodes": episodes, "metrics": rows}


def run_news(site: Site, entry: RunEntry, after: dict[str, int]) -> dict[str, Any]:
    """What was added to a run since its page was last updated.

    Args:
        site: The viewer.
        entry: The run.
        after: The points that the page has, as sent in `next`.
    """
    card = site.cards.read(entry)
    if not card.is_live:
        return {"texts": live_texts(card), "version": card.state}
    with site.show_run(entry, with_curves=True) as shown:
        played = _gather(entry, shown)
    assert played.curves is not None
    assert played.episodes is not None
    added = [
        draw_rate(played.config, played.curves, after["rate"]),
        draw_episodes(entry.id, played.episodes, after["episodes"]),
        *(draw_metric(n, p, after["metrics"]) for n, p in played.metrics.items()),
    ]
    if played.curves.squared_errors is not None:
        added.append(draw_error(played.config, played.curves, after["rate"]))
    return {
        "texts": live_texts(card),
        "version": card.state,
        "points": {series.key: _points_of(series) for series in added if series.x},
        "next": _positions(played),
    }


def _points_of(series: Series) -> dict[str, list[Any]]:
    points: dict[str, list[Any]] = {
        "x": list(series.x),
        "y": [None if math.isnan(y) else y for y in series.y],
    }
    if series.links:
        points["customdata"] = list(series.links)
    return points
