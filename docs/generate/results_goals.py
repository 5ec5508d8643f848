"""Goals that were set before official seeds were played, and what was found.

A goal is a function: the suites with packs -> what was found, or None as long as the
runs that it is about are missing. A goal that was missed stays on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from statistics import median

from longplay.lab.analysis.intervals import Estimate, estimate_difference, t_quantile
from longplay.lab.analysis.records import AgentNumbers, SuiteComparison
from longplay.lab.analysis.results import NON_LEARNERS
from longplay.lab.report.tables import format_estimate
from longplay.scoring.anchors import shipped_anchors
from longplay.tables import Cell, TextTable
from results import CHOSEN_MEMORY

Suites = Mapping[str, SuiteComparison]

RANDOM, EXPLORER = NON_LEARNERS
BLIND = "blind"
METHODS = ("dqn-rehearsal", "dqn-ewc", "dqn-redo", "dqn-shrink-perturb")


@dataclass(frozen=True)
class Found:
    """What the runs say about a goal."""

    text: str
    is_reached: bool


@dataclass(frozen=True)
class Goal:
    """A goal.

    Attributes:
        suite_id: Where it is judged.
        text: What was to be shown.
        judge: The suites -> what was found; None while runs are missing.
    """

    suite_id: str
    text: str
    judge: Callable[[SuiteComparison], Found | None]


# --- numbers of two agents ------------------------------------------------------


def find_agent(suite: SuiteComparison, label: str) -> AgentNumbers | None:
    """The agent of this name."""
    return next((agent for agent in suite.agents if agent.label == label), None)


def find_difference(
    suite: SuiteComparison, ours: str, theirs: str, metric: str = "average"
) -> Estimate | None:
    """Of one number of two agents, paired by seed; None where one has none."""
    agents = [find_agent(suite, label) for label in (ours, theirs)]
    pair = [
        dict(zip(agent.seeds, agent.per_run[metric], strict=True))
        for agent in agents
        if agent is not None and metric in agent.per_run
    ]
    return estimate_difference(*pair) if len(pair) == 2 else None


def is_above(difference: Estimate | None) -> bool:
    """Whether the interval is above 0."""
    return difference is not None and difference.excludes_zero and difference.mean > 0


def find_learners(suite: SuiteComparison) -> list[AgentNumbers]:
    """The agents of runs that learn, or try to."""
    others = (*NON_LEARNERS, BLIND)
    return [a for a in suite.agents if not a.is_shipped and a.label not in others]


def with_memory(learner: str, memory: str) -> str:
    """The name of a learner's results, such as `dqn-library`."""
    return learner if memory == "carry" else f"{learner}-{memory}"


# --- goals ----------------------------------------------------------------------


def judge_count(metric: str, least: int, suite: SuiteComparison) -> Found | None:
    """At least this many learners are above random."""
    if all(metric not in agent.numbers for agent in suite.agents):
        return None
    above = [
        agent.label
        for agent in find_learners(suite)
        if is_above(find_difference(suite, agent.label, RANDOM, metric))
    ]
    return Found(", ".join(above) or "none", len(above) >= least)


def judge_chosen(learner: str, suite: SuiteComparison) -> Found | None:
    """A learner with its chosen memory is above `blind` and `explore-only`."""
    if learner not in CHOSEN_MEMORY:
        return None
    label = with_memory(learner, CHOSEN_MEMORY[learner])
    found = {o: find_difference(suite, label, o) for o in (BLIND, EXPLORER)}
    if None in found.values():
        return None
    text = "; ".join(f"{format_estimate(d)} above {o}" for o, d in found.items())
    return Found(f"{label}: {text}", all(map(is_above, found.values())))


def judge_share(
    label: str, widest: float | None, suite: SuiteComparison
) -> Found | None:
    """The share forgotten is above 0, or not different from 0 with a narrow interval.

    Args:
        label: The agent.
        widest: Largest half-width of an interval that contains 0; None if the interval
            is to be above 0.
        suite: The suite.
    """
    agent = find_agent(suite, label)
    if agent is None or agent.memory is None:
        return None
    share = agent.memory.numbers.get("share_forgotten")
    if share is None:
        reason = agent.memory.absent.get("share_forgotten", "no share")
        return Found(reason, is_reached=False)
    if widest is None:
        return Found(format_estimate(share), is_above(share))
    width = share.half_width
    is_narrow = width is not None and width <= widest
    return Found(format_estimate(share), is_narrow and not share.excludes_zero)


def judge_methods(suite: SuiteComparison) -> Found | None:
    """A method is above both `carry` and `reset` of its learner."""
    pairs = {
        method: [
            find_difference(suite, method, other) for other in ("dqn", "dqn-reset")
        ]
        for method in (*METHODS, "dqn-library")
    }
    if any(None in differences for differences in pairs.values()):
        return None
    above = [method for method, both in pairs.items() if all(map(is_above, both))]
    return Found(", ".join(above) or "none", bool(above))


def judge_negative_transfer(widest: float, suite: SuiteComparison) -> Found | None:
    """`reset` is above `carry` for a learner, or is not by a narrow interval."""
    found = dict(find_resets(suite))
    if not found:
        return None
    text = "; ".join(f"{name} {format_estimate(d)}" for name, d in found.items())
    widths = [difference.half_width for difference in found.values()]
    are_narrow = all(width is not None and width <= widest for width in widths)
    return Found(text, any(map(is_above, found.values())) or are_narrow)


def find_resets(suite: SuiteComparison) -> Iterator[tuple[str, Estimate]]:
    """Learner -> the difference of `reset` from `carry` in average z."""
    for agent in find_learners(suite):
        learner = agent.label.removesuffix("-reset")
        difference = find_difference(suite, agent.label, learner)
        if learner != agent.label and difference is not None:
            yield learner, difference


def judge_value_error(suite: SuiteComparison) -> Found | None:
    """`lstd-td` has a value nmse below 1, and below `linear-td` in every seed."""
    agents = [find_agent(suite, label) for label in ("lstd-td", "linear-td")]
    runs = [
        dict(zip(agent.seeds, agent.per_run["headline"], strict=True))
        for agent in agents
        if agent is not None and "headline" in agent.per_run
    ]
    if len(runs) < 2:
        return None
    ours, theirs = runs
    shared = sorted(set(ours) & set(theirs), key=str)
    below = [seed for seed in shared if ours[seed] < theirs[seed]]
    mean = sum(ours.values()) / len(ours)
    text = f"{mean:.3g}; below linear-td in {len(below)} of {len(shared)} seeds"
    return Found(text, mean < 1 and below == shared)


def judge_scaled(least: int, suite: SuiteComparison) -> Found | None:
    """This many games have z, by anchor policies."""
    if not _has_policies(suite):
        return None
    scaled = len(suite.games) - len(suite.games_without_z)
    return Found(f"{scaled} of {len(suite.games)}", scaled >= least)


def judge_explorer(game: str, most: float, suite: SuiteComparison) -> Found | None:
    """The average z of `explore-only` on a game is below a limit."""
    explorer = find_agent(suite, EXPLORER) if _has_policies(suite, game) else None
    number = explorer.games.get(game, {}).get("average") if explorer else None
    return (
        None if number is None else Found(format_estimate(number), number.mean < most)
    )


def _has_policies(suite: SuiteComparison, *games: str) -> bool:
    """Whether the upper anchors of these games, or of all, are anchor policies."""
    entry = shipped_anchors().suites[suite.suite]
    sources = {entry.games[game].upper_source for game in games or suite.games}
    return sources == {"anchor policy"}


def judge_resolution(most: float, suite: SuiteComparison) -> Found | None:
    """The median half-width of paired intervals of average z is small enough."""
    found = find_resolution(suite)
    if found is None or not any(agent.label in METHODS for agent in suite.agents):
        return None
    return Found(f"{found:.3f}", found <= most)


def find_resolution(suite: SuiteComparison) -> float | None:
    """The median half-width of the paired intervals of all pairs, in average z."""
    labels = [agent.label for agent in suite.agents if not agent.is_shipped]
    pairs = (find_difference(suite, *pair) for pair in combinations(labels, 2))
    widths = [difference.half_width for difference in pairs if difference]
    known = [width for width in widths if width is not None]
    return median(known) if known else None


def count_seeds(resolution: float, seeds: int, wanted: float) -> int:
    """Seeds that a half-width would need, by that of the paired t of some seeds."""
    deviation = resolution * seeds**0.5 / t_quantile(seeds - 1)
    needed = 2
    while t_quantile(needed - 1) * deviation / needed**0.5 > wanted:
        needed += 1
    return needed


_REVISITS = "control-3x3-v1"
GOALS: Sequence[Goal] = (
    Goal(
        "control-v1",
        "1 learner above random in cumulative reward",
        partial(judge_count, "headline", 1),
    ),
    Goal(
        "control-v1",
        "2 learners above random in average z",
        partial(judge_count, "average", 2),
    ),
    Goal(
        "stream-3x2-v1",
        "2 learners above random in average z",
        partial(judge_count, "average", 2),
    ),
    *(
        Goal(
            _REVISITS,
            f"{learner}, with the memory chosen by tuning, above {BLIND} and "
            f"{EXPLORER} in average z",
            partial(judge_chosen, learner),
        )
        for learner in ("linear-prost", "dqn")
    ),
    Goal(_REVISITS, "dqn forgets: share above 0", partial(judge_share, "dqn", None)),
    *(
        Goal(
            _REVISITS,
            f"{learner}-library forgets nothing: share not different from 0, "
            "half-width at most 0.25",
            partial(judge_share, f"{learner}-library", 0.25),
        )
        for learner in ("dqn", "linear-prost")
    ),
    Goal(
        _REVISITS,
        "a way to keep knowledge above both dqn and dqn-reset in average z",
        judge_methods,
    ),
    Goal(
        _REVISITS,
        "median half-width of paired intervals of average z at most 0.06",
        partial(judge_resolution, 0.06),
    ),
    Goal(
        "control-6x3-v1",
        "reset above carry for a learner, or half-widths at most 0.08",
        partial(judge_negative_transfer, 0.08),
    ),
    Goal(
        "prediction-v1",
        "lstd-td: median value nmse below 1, and below linear-td in every seed",
        judge_value_error,
    ),
    Goal("stream-8x3-v1", "z on 7 of 8 games", partial(judge_scaled, 7)),
    Goal(
        "stream-8x3-v1",
        f"{EXPLORER} below 0.6 z on ms_pacman",
        partial(judge_explorer, "ms_pacman", 0.6),
    ),
)


def table_goals(suites: Suites) -> TextTable:
    """The goals whose runs are there."""
    rows = tuple(
        (
            Cell(goal.suite_id),
            Cell(goal.text),
            Cell(found.text),
            Cell("reached" if found.is_reached else "**missed**"),
        )
        for goal in GOALS
        if goal.suite_id in suites
        if (found := goal.judge(suites[goal.suite_id])) is not None
    )
    return TextTable("goals", ("suite", "goal", "found", "verdict"), rows, names=4)
