"""Run directory -> score.json, by the rules of its track.

score.json always contains the score of a whole run under its own settings. Scores with
other windows carry the hash of their own settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from longplay.contract.config import RunConfig, ScoringDefaults
from longplay.contract.documents import Score
from longplay.contract.files import describe_invalid, hash_file, write_document
from longplay.contract.fingerprint import contract_hash
from longplay.contract.rundir import RunDirectory, read_run
from longplay.errors import ConfigError, UnknownNameError
from longplay.scoring.play import Play, read_play
from longplay.tracks.catalogue import track_of


def compute_score(play: Play) -> Score:
    """Computes the score of a run, by its contract version."""
    return track_of(play.config).compute_score(play)


def change_scoring(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    """The config with other windows or weights, and the matching contract hash."""
    changes = {
        # The contract writes the weights as a list.
        name: tuple(value) if isinstance(value, list) else value
        for name, value in changes.items()
        if value is not None
    }
    if not changes:
        return config
    for name in changes:
        if name not in ScoringDefaults.model_fields:
            known = ScoringDefaults.model_fields
            raise UnknownNameError("scoring setting", name, known)
    defaults = config.scoring_defaults.model_dump() | changes
    try:
        scoring = ScoringDefaults.model_validate(defaults)
    except ValidationError as error:
        raise ConfigError(describe_invalid(error)) from error
    changed = config.model_copy(update={"scoring_defaults": scoring})
    return changed.model_copy(
        update={"benchmark_contract_hash": contract_hash(changed)}
    )


def score_run(
    directory: str | Path, *, partial: bool = False, **scoring_changes: Any
) -> Score:
    """Scores a run directory, or the one run of an experiment; writes nothing.

    Args:
        directory: The run directory or experiment.
        partial: Count only complete visits.
        **scoring_changes: Other `window_frames`, `revisit_frames`, `bottom_k_frac` or
            `final_score_weights`, `[mean_w, bottom_k_w]`, than the run's own.
    """
    run = read_run(directory)
    run.config = change_scoring(run.config, scoring_changes)
    return compute_score(read_play(run, partial=partial))


def write_score(run_dir: Path, score: Score) -> None:
    """Writes score.json: the score of a whole run under its own settings.

    A complete run keeps the hash of its score in run_summary.json, which is updated.
    """
    path = run_dir / "score.json"
    write_document(path, score)
    summary = RunDirectory(run_dir).summary
    if summary is not None and summary.score_sha256 is not None:
        changed = summary.model_copy(update={"score_sha256": hash_file(path)})
        if changed != summary:
            write_document(run_dir / "run_summary.json", changed)
