"""longplay: a continual-learning benchmark on Atari.

import longplay

result = longplay.run("stream-smoke-v1", "random", seeds=[1000, 1001])
for run in result.runs:
    print(run.seed, run.score.final_score, run.report.is_valid)
rewards = longplay.read_run(result.runs[0].run_dir).events.numpy("reward")["reward"]
longplay.compare(result.directory).plot("curves").save("curves.pdf")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from longplay.agents.source.loading import LoadedAgent
    from longplay.agents.source.saved import load_agent
    from longplay.contract.documents import ControlScore, PredictionScore, Score
    from longplay.contract.rundir import RunDirectory, read_run
    from longplay.errors import (
        AgentError,
        AgentLoadError,
        CannotVerifyError,
        ConfigError,
        ConsoleError,
        ContractVersionError,
        DifferenceError,
        DocumentError,
        IncompleteRunError,
        LongplayError,
        MissingExtraError,
        NotARunError,
        OutputError,
        PackError,
        RecordingError,
        ReferenceFailed,
        ResumeError,
        RunCancelled,
        RunFailed,
        RunPreempted,
        UnknownNameError,
    )
    from longplay.experiments.experiment import Experiment, ExperimentResult, run
    from longplay.experiments.job import RunResult
    from longplay.experiments.probing import ProbeResult, probe
    from longplay.lab.analysis.experiment import ExperimentDirectory, read_experiment
    from longplay.lab.analysis.table import Table
    from longplay.lab.report.comparing import Comparison, Figure, compare, plot, report
    from longplay.lab.studies.study import StudyResult, study
    from longplay.suites import Suite, get_suite
    from longplay.tracks.scores import score_run
    from longplay.validation import Report, validate_run
    from longplay.verify.verification import Verification, verify_run

    __version__: str

# Public name -> the module it lives in; the others are errors. Imported at first use:
# importing longplay costs next to nothing.
_HOMES = {
    "Comparison": "longplay.lab.report.comparing",
    "ControlScore": "longplay.contract.documents",
    "Experiment": "longplay.experiments.experiment",
    "ExperimentDirectory": "longplay.lab.analysis.experiment",
    "ExperimentResult": "longplay.experiments.experiment",
    "Figure": "longplay.lab.report.comparing",
    "LoadedAgent": "longplay.agents.source.loading",
    "PredictionScore": "longplay.contract.documents",
    "ProbeResult": "longplay.experiments.probing",
    "Report": "longplay.validation",
    "RunDirectory": "longplay.contract.rundir",
    "RunResult": "longplay.experiments.job",
    "Score": "longplay.contract.documents",
    "StudyResult": "longplay.lab.studies.study",
    "Suite": "longplay.suites",
    "Table": "longplay.lab.analysis.table",
    "Verification": "longplay.verify.verification",
    "compare": "longplay.lab.report.comparing",
    "get_suite": "longplay.suites",
    "load_agent": "longplay.agents.source.saved",
    "plot": "longplay.lab.report.comparing",
    "probe": "longplay.experiments.probing",
    "read_experiment": "longplay.lab.analysis.experiment",
    "read_run": "longplay.contract.rundir",
    "report": "longplay.lab.report.comparing",
    "run": "longplay.experiments.experiment",
    "score_run": "longplay.tracks.scores",
    "study": "longplay.lab.studies.study",
    "validate_run": "longplay.validation",
    "verify_run": "longplay.verify.verification",
}

__all__ = [
    "AgentError",
    "AgentLoadError",
    "CannotVerifyError",
    "Comparison",
    "ConfigError",
    "ConsoleError",
    "ContractVersionError",
    "ControlScore",
    "DifferenceError",
    "DocumentError",
    "Experiment",
    "ExperimentDirectory",
    "ExperimentResult",
    "Figure",
    "IncompleteRunError",
    "LoadedAgent",
    "LongplayError",
    "MissingExtraError",
    "NotARunError",
    "OutputError",
    "PackError",
    "PredictionScore",
    "ProbeResult",
    "RecordingError",
    "ReferenceFailed",
    "Report",
    "ResumeError",
    "RunCancelled",
    "RunDirectory",
    "RunFailed",
    "RunPreempted",
    "RunResult",
    "Score",
    "StudyResult",
    "Suite",
    "Table",
    "UnknownNameError",
    "Verification",
    "__version__",
    "compare",
    "get_suite",
    "load_agent",
    "plot",
    "probe",
    "read_experiment",
    "read_run",
    "report",
    "run",
    "score_run",
    "study",
    "validate_run",
    "verify_run",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from longplay.provenance import longplay_version

        return longplay_version()
    if name not in __all__:
        raise AttributeError(f"module 'longplay' has no attribute {name!r}")
    home = _HOMES.get(name, "longplay.errors")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return list(__all__)
