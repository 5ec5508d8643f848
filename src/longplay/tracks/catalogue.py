"""The tracks by name, and the track and stream of a run.

`add_track` registers another track, with its contract version. `suites.add_suite`
registers a suite of it. Those of installed packages are found by their entry points
(`plugins`).
"""

from __future__ import annotations

from longplay import plugins
from longplay.console.machines import make_console
from longplay.contract.config import RunConfig
from longplay.contract.registry import CONTRACT_VERSIONS, add_contract_version
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
    # Reading a run of an installed track has registered its version already.
    if CONTRACT_VERSIONS.get(track.contract.name) is not track.contract:
        add_contract_version(track.contract)
    TRACKS[track.name] = track


def get_track(name: str) -> Track:
    """Returns a track by its name.

    Raises:
        UnknownNameError: Neither longplay nor an installed package has it.
        ConfigError: The package that offers it is broken.
    """
    if name not in TRACKS:
        installed = plugins.load_entry_point(plugins.TRACKS, name, Track)
        if installed is None:
            raise UnknownNameError("track", name, TRACKS)
        add_track(installed)
    return TRACKS[name]


def track_of(config: RunConfig) -> Track:
    """The track of a run, by its contract version."""
    contract = config.contract
    for name in (*TRACKS, *plugins.list_entry_points(plugins.TRACKS)):
        if (track := get_track(name)).contract is contract:
            return track
    raise UnknownNameError("track of contract version", contract.name, TRACKS)


def make_stream(config: RunConfig) -> Stream:
    """The stream of a run, on a new console.

    Raises:
        ConfigError, DocumentError: The reference of a prediction run is missing.
    """
    driver = track_of(config).make_driver(config)
    return Stream.from_config(config, make_console(config), driver)
