"""Delivered rewards per visit, compared with the random agent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from frozen_networks import make_arrays
from longplay.errors import DocumentError
from longplay.reference.library import DATA, REFERENCE_GAMES
from longplay.reference.streams import RecordedVisit
from made_up_references import write_reference
from references.delivered import (
    RANDOM_SEEDS,
    RANDOM_VISITS,
    VISIT_TIMESTEPS,
    DeliveredLead,
    RandomVisits,
    VisitRewards,
    count_rewards,
    measure_leads,
    read_random_visits,
)
from references.recording import write_streams
from references.reference_tables import fill_delivered, render_delivered

PAGE = Path(__file__).parents[3] / "docs/prediction.md"


def make_rewards(*rewards: int) -> VisitRewards:
    return VisitRewards(
        seeds=tuple(range(len(rewards))), rewards=rewards, longest_idle_timesteps=1234
    )


# Means 13 and 4, standard errors √(9 / 3) and √(3 / 3): a lead of 9 / √(3 + 1).
LEAD = DeliveredLead(
    game="pong", policy=make_rewards(10, 13, 16), random=make_rewards(3, 3, 6)
)


def test_lead_by_hand() -> None:
    assert (LEAD.policy.mean, LEAD.random.mean) == (13, 4)
    assert LEAD.policy.standard_error == pytest.approx(3**0.5)
    assert LEAD.random.standard_error == pytest.approx(1)
    assert LEAD.lead_in_errors == pytest.approx(4.5)


@pytest.mark.parametrize(
    ("rewards", "reward_sum", "idle"),
    [
        ([0, 0, 0], 0, 3),
        ([1, 0, 0, -1, 0], 0, 2),
        ([0, 0, 0, 1, 0], 1, 3),
        ([1, 1, 0, 0], 2, 2),
        ([1, -1, 1], 1, 0),
    ],
)
def test_visits_are_counted(rewards: list[int], reward_sum: int, idle: int) -> None:
    other = np.array([1], np.int8)
    counted = count_rewards({7: np.array(rewards, np.int8), 9: other})
    assert counted.seeds == (7, 9)
    assert counted.rewards == (reward_sum, 1)
    assert counted.longest_idle_timesteps == idle


def test_many_rewards_do_not_overflow() -> None:
    counted = count_rewards({0: np.ones(300, np.int8)})
    assert counted.rewards == (300,)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_reference(tmp_path, "pong", make_arrays(0), make_arrays(1, outputs=1))
    visits = {
        seed: RecordedVisit(
            np.zeros(20, np.uint8),
            np.repeat([1, 0], [reward_sum, 20 - reward_sum]).astype(np.int8),
            np.zeros(20, np.float32),
        )
        for seed, reward_sum in enumerate((10, 13, 16))
    }
    write_streams(tmp_path, "pong", 0, visits)
    return tmp_path


def test_leads_are_those_of_the_recorded_visits(data: Path) -> None:
    random = RandomVisits(timesteps=20, games={"pong": LEAD.random})
    (data / RANDOM_VISITS).write_text(random.model_dump_json())
    (lead,) = measure_leads(data)
    assert (lead.policy.seeds, lead.policy.rewards) == ((0, 1, 2), (10, 13, 16))
    assert lead.policy.longest_idle_timesteps == 10
    assert lead.lead_in_errors == pytest.approx(4.5)


def test_a_missing_file_is_named(data: Path) -> None:
    with pytest.raises(DocumentError, match=f"{RANDOM_VISITS}: cannot be read"):
        measure_leads(data)


def test_the_table_names_those_behind() -> None:
    close = LEAD.model_copy(update={"game": "qbert", "random": make_rewards(8, 13, 9)})
    table = render_delivered([LEAD, close]).splitlines()
    assert table[2] == "| pong | 3 | 13.0 ± 1.7 | 4.0 ± 1.0 | +4.5 s.e. | 1,234 |"
    assert table[3].startswith("| qbert | 3 | 13.0 ± 1.7 | 10.0 ± 1.5 | +1.3 s.e.")
    assert " ".join(table[5:]).endswith("in delivered rewards: qbert.")
    assert render_delivered([LEAD]).endswith("in delivered rewards: none.\n")


def test_random_play_was_measured_on_tuning_seeds() -> None:
    random = read_random_visits()
    assert tuple(random.games) == REFERENCE_GAMES
    assert random.timesteps == VISIT_TIMESTEPS
    for visits in random.games.values():
        assert visits.seeds == tuple(RANDOM_SEEDS)
        assert len(visits.rewards) == len(RANDOM_SEEDS)


def test_shipped_policies_are_better_than_random_play() -> None:
    behind = [lead.game for lead in measure_leads(DATA) if lead.lead_in_errors < 2]
    assert behind == ["demon_attack"]  # docs/prediction.md says why


def test_the_printed_table_is_that_of_the_shipped_recordings() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill_delivered(page, measure_leads(DATA)) == page, (
        "run `python -m references tables docs/prediction.md`"
    )
