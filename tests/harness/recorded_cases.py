"""The commands whose answers are recorded, and why the others have none.

They run in this order, in one folder for each of the two tables (`recorded_outputs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
GOLDEN = ROOT / "tests" / "golden"


@dataclass(frozen=True)
class Case:
    """A command whose answers are recorded.

    Attributes:
        name: Of its files in `recorded/`, without an ending.
        command: The words after `longplay`, separated by blanks.
        each: What `{}` in the command stands for, one after the other; the answer is
            then one object, with what was printed for each.
        files: Files that it writes, recorded too; `*` matches as in a shell.
        varies: More keys whose values are hidden.
        is_played: Whether it shows runs that were played here.
        is_forked: Whether the command works in a process that it forks.
    """

    name: str
    command: str
    each: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    varies: tuple[str, ...] = ()
    is_played: bool = False
    is_forked: bool = False


def _list_packs() -> tuple[str, ...]:
    packs = RESULTS.glob("*/*/*.longplay")
    return tuple(sorted(path.relative_to(ROOT).as_posix() for path in packs))


GOLDEN_RUNS = tuple(
    sorted(f"golden/{path.parent.name}" for path in GOLDEN.glob("*/config.json"))
)
PACKS = _list_packs()
# One of every agent and suite.
_SHOWN_PACKS = tuple(pack for pack in PACKS if pack.endswith("/seed-0.longplay"))
RESULT_FOLDERS = tuple(sorted({pack.split("/")[1] for pack in PACKS}))
_SUITES = (
    "stream-smoke-v1",
    "stream-3x2-v1",
    "stream-8x3-v1",
    "stream-8x3-1m-v1",
    "control-smoke-v1",
    "control-v1",
    "control-6x3-v1",
    "prediction-smoke-v1",
    "prediction-v1",
)
_FIGURES = {
    "average": "control-6x3-v1",
    "lifetime": "control-6x3-v1",
    "curves": "stream-3x2-v1",
    "games": "control-v1",
    "profile": "control-6x3-v1",
    "retention": "stream-8x3-v1",
    "stream": "stream-3x2-v1",
    "improvement": "control-6x3-v1",
    "predictions": "prediction-v1",
}
_STREAM = "stream-smoke-v1 --set base_visit_frames=300"
_PREDICTION = (
    'prediction-smoke-v1 --set games=["breakout","space_invaders"] '
    "--set base_visit_frames=640"
)
_PLAYED = ("runs/random", "runs/repeat", "runs/control", "runs/prediction")
_EEE = "--organization example --relationship first_party"

# What is shipped: nothing is played.
SHIPPED_CASES = (
    # What there is.
    Case("suites", "suites --json"),
    Case("settings", "settings {} --json", each=_SUITES),
    Case("games", "games --json"),
    Case("agents", "agents --json"),
    Case("reference-show", "reference show --json"),
    Case("run-dry", "run stream-8x3-v1 --seed 3 --dry-run --json", is_forked=True),
    # Golden runs.
    Case("golden-validate", "validate {} --json", each=GOLDEN_RUNS),
    Case("golden-score", "score {} --json", each=GOLDEN_RUNS),
    Case("golden-score-windows", "score golden/v1 --window-frames 50 --partial --json"),
    Case("golden-explain", "score golden/control-v1 --explain breakout --json"),
    Case("golden-show", "show {} --json", each=GOLDEN_RUNS),
    Case(
        "golden-compare",
        "compare golden --baselines -o analysis.json --csv golden.csv "
        "--latex golden.tex --games --json",
        files=("analysis.json", "golden.csv", "golden.tex"),
    ),
    # Packs.
    # Machine and checkout of the player are the pack's, and not for this record.
    Case(
        "packs-show", "show {} --json", each=_SHOWN_PACKS, varies=("git", "host", "pid")
    ),
    *(
        Case(
            f"packs-compare-{name}",
            f"compare results/{name} --csv {name}.csv --latex {name}.tex "
            "--games --json",
            files=(f"{name}.csv", f"{name}.tex"),
        )
        for name in RESULT_FOLDERS
    ),
    Case(
        "packs-compare-versus",
        "compare results/control-6x3-v1 --versus random --baselines --json",
    ),
    Case("packs-leaderboard", "leaderboard results -o board --json"),
    *(
        Case(
            f"packs-plot-{kind}",
            f"plot results/{suite} --kind {kind} -o {kind}.svg --csv {kind}.csv",
            files=(f"{kind}.csv",),
        )
        for kind, suite in _FIGURES.items()
    ),
)

# In the order in which they run: later ones show what earlier ones played.
PLAYED_CASES = (
    # Experiments.
    *(
        Case(
            f"run-{agent}",
            f"run {_STREAM} --agent {agent} --seeds 0-1 --out runs/{agent} --json",
            is_played=True,
            is_forked=True,
        )
        for agent in ("random", "repeat")
    ),
    Case(
        "run-control",
        "run control-smoke-v1 --agent random --seed 1 --out runs/control --json",
        is_played=True,
        is_forked=True,
    ),
    Case(
        "run-prediction",
        f"run {_PREDICTION} --agent predictor.py --seed 1 --out runs/prediction --json",
        is_played=True,
        is_forked=True,
    ),
    Case(
        "run-tuning",
        f"run {_STREAM} --agent random --stop-after 0.5 --out tuning --json",
        is_played=True,
        is_forked=True,
    ),
    Case("status", "status {} --json", each=(*_PLAYED, "tuning"), is_played=True),
    Case("validate", "validate {} --json", each=(*_PLAYED, "tuning"), is_played=True),
    Case("score", "score {} --json", each=_PLAYED, is_played=True),
    Case("show", "show {} --json", each=(*_PLAYED, "tuning"), is_played=True),
    Case(
        "compare",
        "compare runs --csv runs.csv --latex runs.tex --games --json",
        files=("runs.csv", "runs.tex"),
        is_played=True,
    ),
    Case(
        "report",
        "report runs -o report",
        # Not provenance.csv, which names versions.
        files=(
            "report/analysis.json",
            "report/*.csv",
            "report/*/[!p]*.csv",
            "report/*/predictions.csv",
        ),
        is_played=True,
    ),
    Case("leaderboard", "leaderboard runs -o small-board --json", is_played=True),
    *(
        Case(
            f"export-{level}",
            f"export runs/random --jsonl {level}.jsonl --level {level} --json",
            files=(f"{level}.jsonl",),
            is_played=True,
        )
        for level in ("run", "visit")
    ),
    Case(
        "export-eee",
        f"export runs/control --eee eee {_EEE} --json",
        files=("eee/**/*.json*",),
        varies=("eval_library", "retrieved_timestamp", "checksum", "latency_ms"),
        is_played=True,
    ),
    Case(
        "atlas",
        "atlas runs/random runs/repeat runs/control -o atlas --json",
        # Not experiments.csv, which is sorted by ids that vary.
        files=("atlas/[adt]*.csv", "atlas/missing.csv", "atlas/atlas.json"),
        is_played=True,
    ),
    Case("findings-apply", "findings apply runs/control findings.jsonl --json"),
    # Proof.
    Case(
        "verify",
        "verify runs/control --workers 1 --json",
        is_played=True,
        is_forked=True,
    ),
    Case("show-verified", "show runs/control --json", is_played=True),
    Case(
        "pack",
        "pack runs/control -o control.longplay --workers 1 --json",
        varies=("bytes", "run_bytes"),  # clocks are not always of the same length
        is_played=True,
    ),
    Case("show-pack", "show control.longplay --json", is_played=True),
    Case("unpack", "unpack control.longplay -o unpacked --json"),
    Case("score-unpacked", "score unpacked --json", is_played=True),
    Case("compare-pack", "compare control.longplay --json", is_played=True),
    Case("video", "video unpacked --frame 100 -o picture.png --json"),
    # What has nothing left to do says what there is.
    Case("resume", "resume runs/random --json", is_played=True, is_forked=True),
    Case("retry", "retry runs/random --json", is_played=True, is_forked=True),
    Case("check-agent", "check-agent random --json", is_forked=True),
    # Studies.
    Case(
        "study-dry", "study run study.toml --out study --dry-run --json", is_forked=True
    ),
    Case(
        "study-run",
        "study run study.toml --out study --json",
        is_played=True,
        is_forked=True,
    ),
    Case("study-show", "study show study --json", is_played=True, is_forked=True),
    Case("study-status", "study status study --json", is_played=True, is_forked=True),
    Case("study-directory", "status study --json", is_played=True),
    Case("study-validate", "validate study --json", is_played=True),
    Case("study-compare", "compare study --json", is_played=True),
)
CASES = (*SHIPPED_CASES, *PLAYED_CASES)

# Command -> why nothing of it is recorded.
NOT_RECORDED = {
    "doctor": "its answer is about the machine",
    "view": "a server; tests/view opens its pages",
    "new-agent": "writes a template; tests/learners play each of them",
    "table": "tests/lab/analysis/test_table.py compares its columns",
    "probe": "plays; tests/experiments/test_probing.py compares its bytes",
}
