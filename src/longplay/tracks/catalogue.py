"""The tracks by name, and the track and stream of a run.

`add_track` registers another track, with its contract version. `suites.add_suite`
registers a suite of it.
"""

from __future__ import annotations

from longplay.console.machines import make_console
from longplay.contract.config import RunConfig
from longplay.contract.registry import add_contract_version, remove_contract_version
from longplay.errors import ConfigError, UnknownNameError
from longplay.stream import Stream
from longplay.tracks.base import Track
from longplay.tracks.control import CONTROL
from longplay.tracks.prediction import PREDICTION
from longplay.tracks.streaming import STREAMING

TRACKS: dict[str, Track] = {
    track.name: track for track in (STREAMING, CONTROL, PREDICTION)
}


def add_track(track: Track) -> None:
    """Registers another track and its contract version.

    Raises:
        ConfigError: A track or contract version of this name exists.
    """
    if track.name in TRACKS:
        raise ConfigError(f"track {track.name!r} is already registered")
    add_contract_version(track.contract)
    TRACKS[track.name] = track


def remove_track(track: Track) -> None:
    """Undoes `add_track`."""
    remove_contract_version(track.contract)
    del TRACKS[track.name]


def get_track(name: str) -> Track:
    """Returns a track by its name."""
    if name not in TRACKS:
        raise UnknownNameError("track", name, TRACKS)
    return TRACKS[name]


def track_of(config: RunConfig) -> Track:
    """The track of a run, by its contract version."""
    contract = config.contract
    return next(track for track in TRACKS.values() if track.contract is contract)


def make_stream(config: RunConfig) -> Stream:
    """The stream of a run, on a new console.

    Raises:
        ConfigError, DocumentError: The reference of a prediction run is missing.
    """
    driver = track_of(config).make_driver(config)
    return Stream.from_config(config, make_console(config), driver)
