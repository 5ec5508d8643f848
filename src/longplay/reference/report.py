"""Facts about references -> the table of docs/prediction.md."""

from __future__ import annotations

from collections.abc import Iterable

from longplay.reference.facts import ReferenceFacts

_BEGIN, _END = "<!-- references -->\n", "<!-- end of references -->"

_HEAD = (
    "| game | game score | random agent | lead | held-out error / variance "
    "| std of values | bias | RMSE | R² | plain R² |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
)


def render_table(references: Iterable[ReferenceFacts]) -> str:
    """A markdown table, one row per game."""
    return _HEAD + "".join(_render_row(facts) for facts in references)


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


def describe_r2(r2: float | None) -> str:
    """Two digits; a dash where states do not differ enough to have one."""
    return "–" if r2 is None else f"{r2:.2f}"


def fill_table(page: str, references: Iterable[ReferenceFacts]) -> str:
    """The page with its table made anew."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}{render_table(references)}{_END}{after}"
