"""The state that a probe starts from: kept by the run, or made again from its log.

    <run>/agent/<state>/                     kept by the run (`--keep-agent visits`)
    <probes>/<run>/agent/<state>/            made again: the agent was played again and
                                             gave the same rows
    <probes>/<run>/made_states.json          what was made again, with hashes

Each state is checked against its hash before it is loaded.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from longplay.agents.source.saved import check_state
from longplay.contract.config import PendingPercept, ProbeConfig, ProbeOrigin
from longplay.contract.documents import SCHEMA_VERSION, Document, FileDigest
from longplay.contract.files import read_document
from longplay.contract.layout import find_probed_run
from longplay.contract.rundir import KEPT_AGENT
from longplay.errors import CannotVerifyError, DocumentError

MADE_STATES = "made_states.json"


class MadeStates(Document):
    """made_states.json: states that were made again from the log of a run."""

    schema_version: int = SCHEMA_VERSION
    of: ProbeOrigin = Field(description="The run.")
    pending: dict[str, PendingPercept] = Field(
        description="State -> the first percept of its branches."
    )
    states: dict[str, FileDigest] = Field(
        description="State -> its size and the hash of its files."
    )


def read_made_states(folder: Path, of: ProbeOrigin | None = None) -> MadeStates | None:
    """The states that were made again for the probes in a folder; None without any.

    Raises:
        DocumentError: They are those of another run.
    """
    path = folder / MADE_STATES
    if not path.is_file():
        return None
    made = read_document(path, MadeStates)
    if of is not None and made.of != of:
        raise DocumentError(
            f"{path} of: expected the run of {of.agent_id[:8]} on {of.suite}, seed "
            f"{of.seed}, with the chain {of.chain_head[:8]}, found another run; choose "
            "another folder with -o"
        )
    return made


def locate_state(
    folder: Path, probe: ProbeConfig, run_dir: Path | None
) -> tuple[Path, str] | None:
    """Where a probe's state is, and its hash; None for `fresh`.

    Args:
        folder: The folder of the probes of the run.
        probe: The probe.
        run_dir: The run, for the states that it has kept.

    Raises:
        DocumentError: It is not there.
    """
    if probe.state == "fresh":
        return None
    if probe.state_sha256 is not None:
        home, sha256 = run_dir, probe.state_sha256
    else:
        made = read_made_states(folder, probe.of)
        entry = None if made is None else made.states.get(probe.state)
        home, sha256 = folder, "" if entry is None else entry.sha256
    if home is None or not sha256 or not (home / KEPT_AGENT / probe.state).is_dir():
        place = home or "the run"
        raise DocumentError(
            f"{place}: expected the state {probe.state} of the agent in "
            f"{KEPT_AGENT}/{probe.state}/, found none"
        )
    return home / KEPT_AGENT / probe.state, sha256


def find_state(
    probe_dir: Path, probe: ProbeConfig, run_dir: Path | None = None
) -> Path | None:
    """The state that a recorded probe started from, unchanged; None for `fresh`.

    Args:
        probe_dir: The probe.
        probe: What it is a probe of.
        run_dir: The run; by default the one that the probe lies beside.

    Raises:
        CannotVerifyError: It is not there.
        DocumentError: It was changed.
    """
    run_dir = run_dir or find_probed_run(probe_dir)
    try:
        found = locate_state(probe_dir.absolute().parent, probe, run_dir)
    except DocumentError as error:
        raise CannotVerifyError(
            f"{error}; name the run that has kept it with --of, or probe the run again"
        ) from error
    if found is None:
        return None
    check_state(*found)
    return found[0]
