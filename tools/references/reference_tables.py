"""Facts about references, figures of predictors -> the tables of docs/prediction.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import fill
from typing import Any

from longplay.errors import ConfigError
from longplay.reference.facts import ReferenceFacts, describe_mean, describe_r2
from longplay.reference.library import REFERENCE_GAMES
from longplay.scoring.metrics import median_or_none
from longplay.scoring.prediction_baselines import (
    MeasuredError,
    PredictorBaseline,
    PrivilegedNetwork,
    read_network,
    read_suite,
)
from references.delivered import DeliveredLead

_HEAD = (
    "| game | game score | random agent | lead | held-out error / variance "
    "| std of values | bias | RMSE | R² | plain R² |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
)
LEAD_COLUMNS = ("game", "visits", "policy", "random agent", "lead", "longest idle")

# In standard errors of the difference.
_CLEAR_LEAD = 2.0
_PAGE_COLUMNS = 100
_NETWORK = "network (privileged)"


def render_table(references: Iterable[ReferenceFacts]) -> str:
    """A markdown table, one row per game."""
    return _HEAD + "".join(_render_row(facts) for facts in references)


def render_summary(references: Sequence[ReferenceFacts]) -> str:
    """Summary of the table, and the games that are missing in it."""
    r2s = [facts.audit.summary.r2_corrected for facts in references]
    median = describe_r2(median_or_none([r2 for r2 in r2s if r2 is not None]))
    behind = [f.game for f in references if f.policy.lead_in_errors < _CLEAR_LEAD]
    sentences = [
        f"Median R² over {len(references)} games: {median}.",
        f"Policies that are not two standard errors above the random agent: "
        f"{', '.join(behind) or 'none'}.",
    ]
    made = {facts.game for facts in references}
    missing = [game for game in REFERENCE_GAMES if game not in made]
    if missing:
        sentences.append(
            f"Games without a reference so far: {', '.join(missing)}. `prediction-v1` "
            "needs all of them; `--set games=[…]` plays others."
        )
    return fill(" ".join(sentences), _PAGE_COLUMNS) + "\n"


def _render_row(facts: ReferenceFacts) -> str:
    policy, values, audit = facts.policy, facts.values, facts.audit.summary
    cells = (
        facts.game,
        policy.score.describe(),
        policy.random_score.describe(),
        f"{policy.lead_in_errors:+.1f} s.e.",
        f"{values.frozen_error:.3f} / {values.held_out_variance:.3f}",
        f"{audit.value_std:.3f}",
        f"{audit.bias:+.3f}",
        f"{audit.rmse_corrected:.3f}",
        describe_r2(audit.r2_corrected),
        describe_r2(audit.r2),
    )
    return f"| {' | '.join(cells)} |\n"


def render_delivered(leads: Sequence[DeliveredLead]) -> str:
    """Delivered rewards per recorded visit and random's, one row per game."""
    behind = [lead.game for lead in leads if lead.lead_in_errors < _CLEAR_LEAD]
    summary = (
        "Policies that are not two standard errors above the random agent in delivered "
        f"rewards: {', '.join(behind) or 'none'}."
    )
    table = _render_cells(LEAD_COLUMNS, map(describe_lead, leads))
    return f"{table}\n{fill(summary, _PAGE_COLUMNS)}\n"


def describe_lead(lead: DeliveredLead) -> list[str]:
    """A row of the table with `LEAD_COLUMNS`."""
    return [
        lead.game,
        str(len(lead.policy.rewards)),
        describe_mean(lead.policy),
        describe_mean(lead.random),
        f"{lead.lead_in_errors:+.1f} s.e.",
        f"{lead.policy.longest_idle_timesteps:,}",
    ]


def render_baselines(data: Mapping[str, Any]) -> str:
    """Markdown tables of every suite: over all games, and game by game.

    Args:
        data: A document in the format of `scoring.prediction_baselines`.
    """
    tables = [
        _render_suite(suite_id, read_suite(suite_id, entry), read_network(entry))
        for suite_id, entry in data["suites"].items()
    ]
    return "\n".join(tables) or "Not measured yet.\n"


def _render_suite(
    suite_id: str,
    baselines: Sequence[PredictorBaseline],
    network: PrivilegedNetwork | None,
) -> str:
    seeds = ", ".join(map(str, baselines[0].seeds))
    head = ["", "nmse", "median nmse", "mse", "return mse"]
    names = ["nmse"]
    if any(baseline.errors.value_nmse is not None for baseline in baselines):
        head.insert(1, "value_nmse")
        names.insert(0, "value_nmse")
    totals = [_render_totals(baseline, names) for baseline in baselines]
    if network is not None:
        nothing = ["–"] * (len(head) - 2)
        totals.append([_NETWORK, _describe_spread(network.value_nmse), *nothing])
    tables = [_render_cells(head, totals)]
    tables += [_render_games(name, baselines, network) for name in names]
    return f"`{suite_id}`, seeds {seeds}:\n\n" + "\n".join(tables)


def _render_games(
    name: str,
    baselines: Sequence[PredictorBaseline],
    network: PrivilegedNetwork | None,
) -> str:
    """One kind of error, game by game."""
    has_network = network is not None and name == "value_nmse"
    labels = [*(baseline.label for baseline in baselines), *[_NETWORK] * has_network]
    rows = []
    for game in baselines[0].games:
        errors = [getattr(baseline.games[game], name) for baseline in baselines]
        if network is not None and has_network:
            errors.append(network.games.get(game))
        rows.append([game, *map(_describe_mean, errors)])
    return _render_cells([f"{name} of", *labels], rows)


def _render_totals(baseline: PredictorBaseline, names: Sequence[str]) -> list[str]:
    errors = baseline.errors
    kinds = [getattr(errors, name) for name in names]
    kinds += [baseline.median_nmse, errors.mse, errors.return_mse]
    return [baseline.label, *(_describe_spread(error) for error in kinds)]


def _render_cells(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = f"|---{'|--:' * (len(head) - 1)}|"
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def _describe_mean(error: MeasuredError | None) -> str:
    return "–" if error is None or error.mean is None else f"{error.mean:.3f}"


def _describe_spread(error: MeasuredError | None) -> str:
    """The mean, and the least and the most that a seed had."""
    if error is None:
        return "–"
    known = [value for value in error.seeds if value is not None]
    spread = f" ({min(known):.3f} … {max(known):.3f})" if known else ""
    return f"{_describe_mean(error)}{spread}"


def fill_table(page: str, references: Sequence[ReferenceFacts]) -> str:
    """The page with an updated table of references and its summary."""
    tables = f"{render_table(references)}\n{render_summary(references)}"
    return fill_marked(page, "references", tables)


def fill_delivered(page: str, leads: Sequence[DeliveredLead]) -> str:
    """The page with an updated table of delivered rewards."""
    return fill_marked(page, "delivered rewards", render_delivered(leads))


def fill_baselines(page: str, data: Mapping[str, Any]) -> str:
    """The page with updated tables of baselines."""
    return fill_marked(page, "baselines", f"\n{render_baselines(data)}\n")


def fill_marked(page: str, name: str, tables: str) -> str:
    """The page with new text between the two markers of a name."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ConfigError(
            f"the page: expected a line {begin.strip()} and a line {end} after it, "
            "found none; the tables go between them"
        )
    return f"{before}{begin}{tables}{end}{after}"
