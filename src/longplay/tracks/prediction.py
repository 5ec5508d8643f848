"""The prediction track: the agent gets pixels and reward, and answers with a number.

The agent is a module with `init(observation_shape)` and `step`, which never learns the
action, the target or the game. The driver computes the target after the answer.
"""

from __future__ import annotations

from longplay.contract.registry import get_contract_version
from longplay.reference.driver import ReferenceDriver
from longplay.scoring.play import Play
from longplay.scoring.prediction import compute_score, explain_game
from longplay.tracks.base import Explanation, Track

_ROWS_WITHOUT_ROLLOUTS = 3


def _explain_game(play: Play, game_id: str) -> Explanation:
    rows = [
        {
            "differences": why.differences,
            "timesteps": why.timesteps,
            "sum_of_squares": why.total,
            "mean": why.mean,
        }
        for why in explain_game(play, game_id)
    ]
    headings = {
        "differences": "squares of",
        "timesteps": "timesteps",
        "sum_of_squares": "sum",
        "mean": "mean",
    }
    rule = "mse = first mean; nmse = first / second mean; return mse = third mean"
    if len(rows) > _ROWS_WITHOUT_ROLLOUTS:
        rule += "; value mse = fourth - sixth mean; value nmse = that / (fifth - sixth)"
    return Explanation(rows, headings, rule)


PREDICTION = Track(
    name="prediction",
    contract=get_contract_version("prediction-v1"),
    info_keys=("is_decision_frame",),
    build_agent=lambda agent, seed: agent.build_predictor(seed),
    make_driver=ReferenceDriver.from_config,
    predicts=True,
    frame_noun="timestep",
    compute_score=compute_score,
    less_is_better=True,
    score_columns={
        "nmse": "nmse",
        "median nmse": "median_nmse",
        "mse": "mse",
        "return mse": "return_mse",
    },
    scored_on="every prediction",
    explain_game=_explain_game,
    # Emulation takes most of the time, and the games are the same.
    typical_suite="control-v1",
)
