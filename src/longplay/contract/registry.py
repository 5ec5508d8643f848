"""The registry of contract versions: what each requires of the files of a run.

A contract version changes when required keys, boundary semantics, the agent's info
payload, scoring or the hash change meaning. Additional keys do not change it. Each
track has its own version; `tracks.add_track` adds those of other packages, and the
entry points of tracks are asked for unknown ones.

Reading config.json asks `get_contract_version`. So no reader scores, compares or
exports a run whose rows and rules are not known here.
"""

from __future__ import annotations

from dataclasses import dataclass

from longplay import plugins
from longplay.contract.documents import ControlScore, PredictionScore, Score
from longplay.contract.rows import EventRow, PredictionRow, TimestepRow
from longplay.errors import ConfigError, ContractVersionError


@dataclass(frozen=True)
class ContractVersion:
    """What a contract version requires of the files of a run.

    Attributes:
        name: Written to config.json and score.json.
        settings: Keys of config.json that are required and hashed in addition to
            those of v1.
        row_type: A row of events.jsonl as longplay writes it.
        score_type: score.json.
    """

    name: str
    settings: tuple[str, ...]
    row_type: type[EventRow]
    score_type: type[Score]


_TIMESTEP_SETTINGS = ("track", "frame_skip", "reward", "discount")

CONTRACT_VERSIONS = {
    version.name: version
    for version in (
        ContractVersion("v1", (), EventRow, Score),
        ContractVersion("control-v1", _TIMESTEP_SETTINGS, TimestepRow, ControlScore),
        ContractVersion(
            "prediction-v1",
            (*_TIMESTEP_SETTINGS, "reference_sha256"),
            PredictionRow,
            PredictionScore,
        ),
    )
}


def get_contract_version(name: str) -> ContractVersion:
    """Returns a contract version by its name.

    Raises:
        ContractVersionError: This longplay does not know it.
    """
    if name not in CONTRACT_VERSIONS:
        _add_installed_versions()
    if name not in CONTRACT_VERSIONS:
        raise ContractVersionError(
            f"expected a contract version that this longplay knows "
            f"({', '.join(CONTRACT_VERSIONS)}), found {name!r}; another version of "
            "longplay, or a package that adds a track, may know it"
        )
    return CONTRACT_VERSIONS[name]


def _add_installed_versions() -> None:
    """Registers the contract versions of the tracks of installed packages."""
    for track in plugins.load_entry_points(plugins.TRACKS, object).values():
        version = getattr(track, "contract", None)
        if isinstance(version, ContractVersion):
            CONTRACT_VERSIONS.setdefault(version.name, version)


def add_contract_version(version: ContractVersion) -> None:
    """Registers a contract version.

    Raises:
        ConfigError: The name is taken.
    """
    if version.name in CONTRACT_VERSIONS:
        raise ConfigError(f"contract version {version.name!r} is already registered")
    CONTRACT_VERSIONS[version.name] = version
