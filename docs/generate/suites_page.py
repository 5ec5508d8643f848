"""The catalogue of suites and shipped data -> docs/suites.md.

    python docs/generate/suites_page.py        writes the page again

Only `SHOWS` is written by hand: what a suite is for. A suite without an entry there is
an error. Nothing is played; times are those that `longplay suites` prints.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

from longplay.gym import ENV_SUITES
from longplay.lab.analysis.aggregation import aggregate_games
from longplay.lab.analysis.results import ResultRun, shipped_results
from longplay.plan import plan_run
from longplay.scoring.anchors import shipped_anchors
from longplay.scoring.baselines import expected_seconds, random_baseline
from longplay.scoring.normalisation import make_scale
from longplay.scoring.prediction_baselines import prediction_baselines
from longplay.suites import FIRST_TUNING_SEED, SUITES, Suite
from longplay.tracks.base import Track
from longplay.tracks.catalogue import get_track

PAGE = Path(__file__).parents[1] / "suites.md"

SHOWS = {
    "stream-smoke-v1": (
        "Shows that an agent runs on the streaming track. A visit lasts half a minute "
        "of game time, so scores are noise, and not a result."
    ),
    "stream-3x2-v1": (
        "Shows whether an agent learns at all when it sees every frame and its "
        "decisions arrive late, and what one revisit of each game changes. The "
        "cheapest streaming result."
    ),
    "stream-8x3-v1": (
        "Shows what an agent learns, keeps and loses over eight games that come back "
        "twice. The streaming benchmark."
    ),
    "stream-8x3-1m-v1": (
        "Shows the same as `stream-8x3-v1` for agents that need more data: visits are "
        "five times as long, with a decision on every frame and no delay."
    ),
    "control-smoke-v1": (
        "Shows that an agent runs on the control track. Scores are noise, and not a "
        "result."
    ),
    "control-v1": (
        "Shows how fast an agent learns one new game after another. No game comes "
        "back, so it says nothing about forgetting. The control benchmark."
    ),
    "control-3x3-v1": (
        "Shows what happens when games come back, in little more than a minute of "
        "play. The control suite with revisits to develop with."
    ),
    "control-6x3-v1": (
        "Shows what an agent keeps of six games that come back twice, in the same "
        "order in every cycle."
    ),
    "prediction-smoke-v1": (
        "Shows that a predictor runs. Its errors are noise, and not a result."
    ),
    "prediction-v1": (
        "Shows how well the values of fixed policies are predicted online, on one new "
        "game after another. With the same seed, all agents see the same stream. The "
        "prediction benchmark."
    ),
    "prediction-6x3-v1": (
        "Shows whether a predictor still knows the values of a game that comes back."
    ),
}

INTRODUCTION = f"""# Suites

A suite fixes games, visits and rules, and never changes. This page says what each can
show, what a run costs, and how far apart two seeds are. `make facts` generates it from
the catalogue and from shipped data.

```console
$ longplay suites                            # the catalogue, with times and sizes
$ longplay settings control-v1               # what can be changed
$ longplay run control-v1 --agent random --set 'games=["pong","qbert"]' --dry-run
```

With a changed [setting](studies.md#settings-of-a-suite) it is another suite, which gets
a name of its own.

- *Time* and *disk* are those of one run on one core, without the agent's own
  computation.
- *Noise* is the standard deviation between seeds, and the standard error of the mean:
  the deviation divided by √n for n seeds. Do not expect to see a difference between two
  agents that is smaller than about two standard errors. Agents on the same seeds are
  compared pair by pair ([how](analysis.md#intervals)).
- *z* is the average that agents are compared by, where a suite has
  [anchors](analysis.md#reward-per-frame-and-z).
- *Official seeds* are for results, and are played once per agent. Seeds from
  {FIRST_TUNING_SEED} on are for everything else.
- *Experimental*: no results are shipped yet, so it is not known which agents the suite
  can tell apart.
"""


@dataclass(frozen=True)
class Spread:
    """One number of one agent, seed by seed."""

    agent: str
    name: str
    values: tuple[float, ...]

    @property
    def deviation(self) -> float:
        """The standard deviation between seeds."""
        return statistics.stdev(self.values)

    def __str__(self) -> str:
        n = len(self.values)
        return (
            f"{self.agent}, {self.name}: {_round(statistics.fmean(self.values))}, "
            f"standard deviation {_round(self.deviation)}, standard error "
            f"{_round(self.deviation / sqrt(n))} ({n} seeds)"
        )


def render_page() -> str:
    """The page: a table of all suites, then a section for each."""
    parts = [INTRODUCTION, *_render_overview()]
    for suite in SUITES.values():
        parts += ["", *_render_suite(suite)]
    return "\n".join(parts) + "\n"


def _render_overview() -> Iterator[str]:
    yield "| suite | track | games × cycles | length of a run | time | disk | |"
    yield "|---|---|--:|--:|--:|--:|---|"
    for name, suite in SUITES.items():
        length, time, disk = _describe_cost(suite)
        state = "experimental" if is_experimental(name) else ""
        shape = f"{len(suite.games)} × {suite.num_cycles}"
        cells = (f"[`{name}`](#{name})", suite.track, shape, length, time, disk, state)
        yield f"| {' | '.join(cells)} |"


def _render_suite(suite: Suite) -> Iterator[str]:
    name, track = suite.suite_id, get_track(suite.track)
    yield f"## {name}\n"
    yield f"{'**Experimental.** ' * is_experimental(name)}{SHOWS[name]}\n"
    yield "| | |"
    yield "|---|---|"
    rows = {
        "games": ", ".join(suite.games),
        "visits": _describe_visits(suite, track),
        "rules": _describe_rules(suite, track),
        "noise": "<br>".join(map(str, measure_noise(suite))) or "not measured yet",
        "Gymnasium": _name_environment(name),
        "official seeds": ", ".join(map(str, suite.official_seeds)),
    }
    for heading, text in rows.items():
        yield f"| {heading} | {text} |"


def is_experimental(suite_id: str) -> bool:
    """Whether a suite for results has none; smoke suites are not for results."""
    return "smoke" not in suite_id and not _results_of(suite_id)


def _results_of(suite_id: str) -> list[ResultRun]:
    return [run for run in shipped_results().runs if run.suite == suite_id]


def _describe_cost(suite: Suite) -> tuple[str, str, str]:
    """Length, time and size of a run on a tuning seed."""
    plan, track = plan_run(suite.suite_id, FIRST_TUNING_SEED), get_track(suite.track)
    frames = plan.total_frames
    seconds = expected_seconds(suite.suite_id, track.typical_suite, frames)
    time = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
    megabytes = plan.expected_bytes / 1e6
    disk = f"{megabytes:,.0f} MB" if megabytes >= 1 else f"{megabytes:.1f} MB"
    return f"{frames:,} {track.frame_noun}s", time, disk


def _describe_visits(suite: Suite, track: Track) -> str:
    cycles = "once" if suite.num_cycles == 1 else f"{suite.num_cycles} times"
    length = f"{suite.base_visit_frames:,} {track.frame_noun}s"
    jitter = f" ± {suite.jitter_pct:.0%}" if suite.jitter_pct else ""
    order = "an order drawn from the seed" if suite.shuffle_games else "a fixed order"
    return f"each game {cycles}, {length}{jitter} each, in {order}"


def _describe_rules(suite: Suite, track: Track) -> str:
    """What an agent can decide when, and what it is paid."""
    skip = getattr(suite, "frame_skip", None)
    each = f"{track.frame_noun}{f' of {skip} emulator frames' * bool(skip)}"
    every = (
        each if suite.decision_interval == 1 else f"{suite.decision_interval} frames"
    )
    delay = f", applied {suite.delay} frames later" * bool(suite.delay)
    rewards = {"sign": "signs of rewards", "raw": "raw rewards"}
    reward = rewards[getattr(suite, "reward", "raw")]
    answer = "prediction" if track.predicts else "decision"
    return (
        f"a {answer} every {every}{delay}; {reward}; sticky actions {suite.sticky:g}; "
        f"{'all 18 actions' if suite.full_action_space else 'minimal action sets'}"
    )


def _name_environment(suite_id: str) -> str:
    names = [f"`{env}`" for env, played in ENV_SUITES.items() if played == suite_id]
    return ", ".join(names) or "none: predictions are no actions"


def measure_noise(suite: Suite) -> list[Spread]:
    """The headline of an agent that learns nothing, and z of shipped results."""
    if get_track(suite.track).predicts:
        baselines = prediction_baselines(suite.suite_id, suite.references)
        errors = [(b.label, b.median_nmse.seeds) for b in baselines]
        known = ((label, _known(seeds)) for label, seeds in errors)
        return [Spread(label, "median nmse", seeds) for label, seeds in known if seeds]
    found = random_baseline(suite.suite_id)
    spreads = []
    if found is not None:
        totals = found.cumulative_rewards
        name = "cumulative reward" if totals else "final score"
        spreads.append(Spread("random", name, totals or found.final_scores))
    return spreads + _measure_averages(suite)


def _known(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(value for value in values if value is not None)


def _measure_averages(suite: Suite) -> list[Spread]:
    """Average z of the random agent, and of the agent whose seeds differ most."""
    scale = make_scale(shipped_anchors(), suite.suite_id, suite.games)
    by_agent: dict[str, list[float]] = {}
    for run in _results_of(suite.suite_id):
        if scale.has_z.any():
            rates = run.game_rates(suite.games).average
            z = scale.normalise(rates)[scale.has_z]
            by_agent.setdefault(run.agent, []).append(float(aggregate_games(z)))
    spreads = [
        Spread(agent, "average z", tuple(values)) for agent, values in by_agent.items()
    ]
    spreads.sort(key=lambda one: one.deviation)
    return [one for one in spreads if one.agent == "random"] + spreads[-1:]


def _round(value: float) -> str:
    """Three significant digits; whole numbers from 100 on."""
    if abs(value) < 5e-4:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    PAGE.write_text(render_page(), encoding="utf-8")
