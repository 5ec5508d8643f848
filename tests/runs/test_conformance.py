"""`longplay check-agent`: the agent contract as a checklist."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longplay.agents.global_random import GlobalRandomState

BUILT = "is built as Agent(num_actions, seed, **agent_args)"
CONTROLS = "plays the control track, without info['lives']"
ANSWERS = "answers every decision with an action"
REPEATS = "repeats its choices for the same seed"
SPARES_RANDOM = "draws from random generators of its own"
METRICS = "offers metrics: numbers"
SAVES = "offers save() and load() together"
CONTINUES = "continues from what it saved"


@pytest.fixture(autouse=True)
def restored_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the traces that agents leave, so that they do not affect other tests."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture
def check(invoke: Callable[..., Any], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs the check on an agent's source; sentence -> what was found."""

    def check(body: str, exit_code: int) -> dict[str, Any]:
        path = tmp_path / "checked_agent.py"
        path.write_text(f"import numpy as np\nclass Agent:\n{body}")
        answer = invoke("check-agent", path, "--json")
        assert answer.exit_code == exit_code, answer.stdout
        return {item["sentence"]: item for item in answer.json}

    return check


def agent_body(step: str, init: str = "self.num_actions = num_actions") -> str:
    return (
        f"    def __init__(self, num_actions, seed):\n        {init}\n"
        "    def step(self, obs_rgb, reward, terminated, truncated, info):\n"
        f"        {step}\n"
    )


def failed(checks: dict[str, Any]) -> set[str]:
    return {name for name, item in checks.items() if item["passed"] is False}


@pytest.mark.parametrize("name", ["random", "repeat", "noop"])
def test_built_in_passes(name: str, invoke: Callable[..., Any]) -> None:
    answer = invoke("check-agent", name, "--json")
    checks = {item["sentence"]: item["passed"] for item in answer.json}
    assert answer.exit_code == 0
    assert {BUILT, ANSWERS, REPEATS, SPARES_RANDOM} <= set(checks)
    assert False not in checks.values()
    assert all(checks[name] for name in (BUILT, ANSWERS, REPEATS, SPARES_RANDOM))


def test_built_in_passes_for_people_too(invoke: Callable[..., Any]) -> None:
    answer = invoke("check-agent", "random")
    assert answer.exit_code == 0
    assert REPEATS in " ".join(answer.stdout.split())


def test_arguments_reach_the_agent(invoke: Callable[..., Any]) -> None:
    assert invoke("check-agent", "repeat", "--agent-arg", "action=5").exit_code == 0
    answer = invoke("check-agent", "repeat", "--agent-arg", "action=18", "--json")
    assert answer.exit_code == 1
    assert answer.json[0]["sentence"] == BUILT
    assert "0 … 17, found 18" in answer.json[0]["detail"]


def test_functional_module_passes(invoke: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "functions.py"
    path.write_text(
        "def init(observation_shape, num_actions):\n    return 0\n"
        "def step(state, previous_observation, observation, reward):\n"
        "    return state + 1, state % 18\n"
    )
    assert invoke("check-agent", path).exit_code == 0


def test_non_deterministic_agent(check: Callable[..., Any]) -> None:
    checks = check(
        agent_body(
            "return int(self.rng.integers(18))", "self.rng = np.random.default_rng()"
        ),
        exit_code=1,
    )
    assert failed(checks) == {REPEATS}
    assert "decision" in checks[REPEATS]["detail"]


@pytest.mark.parametrize(
    "init",
    ["pass", "np.random.seed(seed)", "np.random.seed(1)"],
    ids=["unseeded", "seeded", "fixed"],
)
def test_agent_that_draws_from_global_random(
    init: str, check: Callable[..., Any]
) -> None:
    step = "return int(np.random.randint(18))"
    checks = check(agent_body(step, init), exit_code=0)
    assert checks[REPEATS]["passed"] is True
    assert checks[SPARES_RANDOM]["passed"] is None
    assert "seeded for it" in checks[SPARES_RANDOM]["detail"]


def test_check_leaves_the_global_generators_alone(check: Callable[..., Any]) -> None:
    before = GlobalRandomState.read()
    check(agent_body("return int(np.random.randint(18))"), exit_code=0)
    assert GlobalRandomState.read() == before


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("18", "found 18 (int)"),
        ("-1", "found -1 (int)"),
        ("True", "found True (bool)"),
        ("2.0", "found 2.0 (float)"),
        ("None", "found None (NoneType)"),
        ("18 if info['global_frame_idx'] > 300 else 0", "found 18"),
    ],
)
def test_agent_that_answers_with_an_invalid_action(
    answer: str, found: str, check: Callable[..., Any]
) -> None:
    checks = check(agent_body(f"return {answer}"), exit_code=1)
    assert checks[ANSWERS]["passed"] is False
    assert "expected an int in 0 … 17" in checks[ANSWERS]["detail"]
    assert found in checks[ANSWERS]["detail"]
    assert checks[BUILT]["passed"] is True


def test_agent_that_raises_in_step(check: Callable[..., Any]) -> None:
    checks = check(agent_body("raise RuntimeError('too hard')"), exit_code=1)
    assert checks[ANSWERS]["passed"] is False
    assert checks[ANSWERS]["detail"] == "RuntimeError: too hard (checked_agent.py:6)"


def test_the_same_error_is_printed_once_below_the_table(
    invoke: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(
        "class Agent:\n"
        + agent_body("return 0")
        + "    def metrics(self): return self.means_of_everything\n"
        + "    def save(self, directory): directory.missing_method()\n"
        + "    def load(self, directory): pass\n"
    )
    answer = invoke("check-agent", path)
    table, first, second = re.split(r"\n \([12]\)  ", answer.stdout)
    assert table.count("(1)") == table.count("(2)") == 1
    assert "Error" not in table
    assert first.startswith("AttributeError: 'Agent' object has no attribute 'means_of")
    assert "(wrong.py:6)" in first
    assert "no attribute 'missing_method' (wrong.py:7)" in " ".join(second.split())


def test_agent_that_cannot_be_built(check: Callable[..., Any]) -> None:
    checks = check(agent_body("return 0", "raise RuntimeError('no')"), exit_code=1)
    assert checks[BUILT]["passed"] is False
    assert "RuntimeError: no" in checks[BUILT]["detail"]


def test_pixels_that_an_agent_opted_out_of_are_missing(
    check: Callable[..., Any],
) -> None:
    body = agent_body("return int(obs_rgb[0, 0, 0]) % 18")
    assert failed(check(body, exit_code=0)) == set()
    checks = check(f"    looks_between_decisions = False\n{body}", exit_code=1)
    assert ANSWERS in failed(checks)


def test_garbage_between_decisions_is_fine(check: Callable[..., Any]) -> None:
    step = "return 3 if info['is_decision_frame'] else 'whatever'"
    assert failed(check(agent_body(step), exit_code=0)) == set()


# --- modules of functions -----------------------------------------------------------

FUNCTIONS = """
import numpy as np
def init(observation_shape, num_actions, seed):
    return np.random.default_rng(seed)
def step(state, previous_observation, observation, reward{more}):
    {body}
"""


@pytest.fixture
def check_functions(
    invoke: Callable[..., Any], tmp_path: Path
) -> Callable[..., dict[str, Any]]:
    """Runs the check on a module of functions; sentence -> what was found."""

    def check(body: str, exit_code: int, more: str = "") -> dict[str, Any]:
        path = tmp_path / "checked_functions.py"
        path.write_text(FUNCTIONS.format(body=body, more=more))
        answer = invoke("check-agent", path, "--json")
        assert answer.exit_code == exit_code, answer.stdout
        return {item["sentence"]: item for item in answer.json}

    return check


def test_functions_pass(check_functions: Callable[..., Any]) -> None:
    checks = check_functions("return state, int(state.integers(18))", exit_code=0)
    assert failed(checks) == set()
    built = checks["is built as init(observation_shape, num_actions)"]
    assert built["passed"] is True
    assert checks[CONTROLS]["detail"] == "710 timesteps"
    assert checks[METRICS]["passed"] is None


@pytest.mark.parametrize("offered", ["save(state, directory)", "load(directory)"])
def test_functions_with_only_one_of_save_and_load(
    offered: str, check_functions: Callable[..., Any]
) -> None:
    body = f"return state, 1\ndef {offered}: pass"
    checks = check_functions(body, exit_code=1)
    assert failed(checks) == {SAVES}
    assert f"it has {offered[:4]}() without" in checks[SAVES]["detail"]


def test_functions_with_metrics_and_info_pass(
    check_functions: Callable[..., Any],
) -> None:
    body = "return state, 1, {'seen': float(observation.mean()), 'r': reward}"
    checks = check_functions(body, exit_code=0, more=", info")
    assert (checks[METRICS]["passed"], checks[METRICS]["detail"]) == (True, "seen, r")


BAD_FUNCTIONS = [
    ("return state", "", "step must return (state, action) or"),
    ("return state, 18", "", "expected an int in 0 … 17, found 18"),
    ("return state, 1, {'loss': 'low'}", "", "expected a number"),
    ("return state, 1", ", game", "missing a required argument: 'game'"),
    ("return state, 1, info['lives']", ", info", "KeyError: 'lives'"),
]


@pytest.mark.parametrize(("body", "more", "detail"), BAD_FUNCTIONS)
def test_functions_that_fail(
    body: str, more: str, detail: str, check_functions: Callable[..., Any]
) -> None:
    checks = check_functions(body, exit_code=1, more=more)
    assert ANSWERS in failed(checks)
    assert detail in checks[ANSWERS]["detail"]


def test_agent_that_needs_lives_is_for_streaming_suites(
    check: Callable[..., Any],
) -> None:
    checks = check(agent_body("return info['lives'] % 18"), exit_code=0)
    assert checks[CONTROLS]["passed"] is None
    assert "info['lives']" in checks[CONTROLS]["detail"]


EXTRAS = [
    ("def metrics(self): return {'loss': float('nan')}", METRICS, True, "not finite"),
    ("def metrics(self): return [1.0]", METRICS, False, "must be a dict"),
    ("def metrics(self): return {'loss': 0.5}", METRICS, True, "loss"),
    ("def save(self, directory): pass", SAVES, False, "save() without load()"),
    ("def load(self, directory): pass", SAVES, False, "load() without save()"),
    ("unrelated = 1", METRICS, None, "optional"),
    ("unrelated = 1", SAVES, None, "optional"),
]


@pytest.mark.parametrize(("extra", "sentence", "passed", "detail"), EXTRAS)
def test_optional_parts(
    extra: str,
    sentence: str,
    passed: bool | None,
    detail: str,
    check: Callable[..., Any],
) -> None:
    body = agent_body("return 0") + f"    {extra}\n"
    checks = check(body, exit_code=1 if passed is False else 0)
    assert checks[sentence]["passed"] is passed
    assert detail in checks[sentence]["detail"]
    assert failed(checks) == ({sentence} if passed is False else set())


DRAWS = agent_body(
    "self.count += 1; return int(self.rng.integers(self.count % 13 + 2))",
    "self.rng, self.count = np.random.default_rng(seed), 0",
)
SAVES_RNG = """
        (directory / 'rng').write_text(repr(self.rng.bit_generator.state))
    def load(self, directory):
        state = eval((directory / 'rng').read_text())
        self.rng.bit_generator.state = state
"""
SAVES_COUNT = """
        (directory / 'count').write_text(str(self.count))
    def load(self, directory):
        self.count = int((directory / 'count').read_text())
"""
SAVES_ALL = (
    SAVES_RNG.replace(
        "(directory / 'rng')",
        "(directory / str(self.count)).touch(); (directory / 'rng')",
        1,
    )
    + "        self.count = int(min(p.name for p in directory.iterdir()))\n"
)


@pytest.mark.parametrize(
    ("save_and_load", "continues"),
    [
        ("pass\n    def load(self, directory): pass\n", False),
        (SAVES_RNG, False),
        (SAVES_COUNT, False),
        (SAVES_ALL, True),
    ],
    ids=["nothing", "generator", "counter", "all"],
)
def test_incomplete_save_is_a_failure(
    save_and_load: str, continues: bool, check: Callable[..., Any]
) -> None:
    body = f"{DRAWS}    def save(self, directory): {save_and_load}"
    if not save_and_load.startswith("pass"):
        body = f"{DRAWS}    def save(self, directory):{save_and_load}"
    checks = check(body, exit_code=0 if continues else 1)
    assert failed(checks) == (set() if continues else {CONTINUES})
    detail = checks[CONTINUES]["detail"]
    expected = "decisions compared" if continues else "after load(): the action was"
    assert expected in detail


LEARNS_LATE = """
import time
import numpy as np
def init(observation_shape, num_actions):
    return {{"decisions": 0, "worth": 0.0}}
def step(state, previous_observation, observation, reward):
    state["decisions"] += 1
    if state["decisions"] > 600:
        state["worth"] += 0.1 * (reward - state["worth"])
    return state, 3, {metrics}
def save(state, directory):
    np.save(directory / "state.npy", [state["decisions"], {saved}])
def load(directory):
    return dict(zip(["decisions", "worth"], np.load(directory / "state.npy")))
"""
WORTH, TIME = '"worth": state["worth"]', '"seconds": time.perf_counter()'


@pytest.mark.parametrize(
    ("metrics", "saved", "continues", "detail"),
    [
        (WORTH, 'state["worth"]', True, "400 decisions compared, with metrics"),
        (WORTH, "0.0", False, "decision 1 after load(): metric 'worth' was"),
        (
            TIME,
            'state["worth"]',
            True,
            "left out metric 'seconds': different in a second",
        ),
        (f"{WORTH}, {TIME}", "0.0", False, "after load(): metric 'worth' was"),
        (f"{WORTH}, {TIME}", 'state["worth"]', True, "compared; left out metric"),
        ("", 'state["worth"]', True, "there are no metrics to compare"),
    ],
)
def test_metrics_show_what_was_not_saved(
    metrics: str,
    saved: str,
    continues: bool,
    detail: str,
    invoke: Callable[..., Any],
    tmp_path: Path,
) -> None:
    path = tmp_path / "learns_late.py"
    path.write_text(LEARNS_LATE.format(metrics=f"{{{metrics}}}", saved=saved))
    *_, check = invoke("check-agent", path, "--json").json
    assert (check["sentence"], check["passed"]) == (CONTINUES, continues)
    assert detail in check["detail"]


def test_metric_that_is_missing_after_a_load(check: Callable[..., Any]) -> None:
    body = agent_body("self.seen = True; return 0", "self.seen = False")
    checks = check(
        body + "    def metrics(self): return {'a': 1} if hasattr(self, 'b') else {}\n"
        "    def save(self, directory): pass\n"
        "    def load(self, directory): self.b = 0\n",
        exit_code=1,
    )
    expected = "metric 'a' was 1.0, without saving and loading it was not reported"
    assert expected in checks[CONTINUES]["detail"]


def test_agent_that_turns_out_not_to_be_deterministic(
    check: Callable[..., Any],
) -> None:
    step = "self.n += 1; return int(self.rng.integers(18)) if self.n > 3500 else 0"
    body = agent_body(step, "self.n, self.rng = 0, np.random.default_rng()") + (
        "    def save(self, directory): (directory / 'n').write_text(str(self.n))\n"
        "    def load(self, directory): self.n = int((directory / 'n').read_text())\n"
    )
    checks = check(body, exit_code=1)
    assert failed(checks) == {CONTINUES}
    assert "not deterministic: the action at decision" in checks[CONTINUES]["detail"]


def test_global_generators_are_restored_with_the_agent(
    check: Callable[..., Any],
) -> None:
    body = agent_body("return int(np.random.randint(18))") + (
        "    def save(self, directory): np.random.rand()\n"
        "    def load(self, directory): pass\n"
    )
    assert check(body, exit_code=0)[CONTINUES]["passed"] is True


def test_agent_without_save_need_not_continue(check: Callable[..., Any]) -> None:
    checks = check(agent_body("return 0"), exit_code=0)
    assert checks[CONTINUES]["passed"] is None


def test_a_save_that_raises_is_a_failure(check: Callable[..., Any]) -> None:
    body = agent_body("return 0") + (
        "    def save(self, directory): raise OSError('full')\n"
        "    def load(self, directory): pass\n"
    )
    checks = check(body, exit_code=1)
    assert failed(checks) == {CONTINUES}
    assert "full" in checks[CONTINUES]["detail"]


def test_output_of_the_agent_does_not_reach_the_terminal(
    invoke: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "chatty.py"
    path.write_text(
        "class Agent:\n" + agent_body("print('chatter'); return 0", "print('hello')")
    )
    answer = invoke("check-agent", path, "--json")
    assert json.loads(answer.stdout)
    assert "chatter" not in answer.stdout + answer.stderr


def test_checking_writes_nothing(
    invoke: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    invoke("check-agent", "random")
    assert list(tmp_path.iterdir()) == []


PREDICTS = "answers every timestep with a finite number"
STEP = "def step(state, previous_observation, observation, reward):\n"


@pytest.mark.parametrize(
    ("init", "given", "sentence"),
    [
        ("observation_shape", (), PREDICTS),
        ("observation_shape, seed", (), PREDICTS),
        ("observation_shape, rate=0.1", (), PREDICTS),
        ("observation_shape, **more", (), PREDICTS),
        ("observation_shape, rate", ("--agent-arg", "rate=0.5"), PREDICTS),
        ("observation_shape, num_actions=18", (), ANSWERS),
        ("observation_shape, count", (), ANSWERS),
    ],
)
def test_signature_of_init_distinguishes_predictors_from_actors(
    invoke: Callable[..., Any],
    tmp_path: Path,
    init: str,
    given: tuple[str, ...],
    sentence: str,
) -> None:
    path = tmp_path / "module.py"
    path.write_text(f"def init({init}):\n    return 0\n{STEP}    return state, 1\n")
    answer = invoke("check-agent", path, "--json", *given)
    assert answer.exit_code == 0
    sentences = {item["sentence"] for item in answer.json}
    assert sentence in sentences
    assert len(sentences & {PREDICTS, ANSWERS}) == 1


def test_predictor_that_forgets_is_a_failure(
    invoke: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "def init(observation_shape):\n    return 0\n"
        f"{STEP}    return state + 1, state\n"
        "def save(state, directory): pass\ndef load(directory): return 0\n"
    )
    *_, check = invoke("check-agent", path, "--json").json
    assert check["detail"] == (
        "decision 1 after load(): the prediction was 0.0, without saving and loading "
        "it was 800.0"
    )


def test_predictor_is_refused_on_a_track_that_needs_actions(
    invoke: Callable[..., Any], tmp_path: Path
) -> None:
    path, out = tmp_path / "module.py", tmp_path / "out"
    init = "def init(observation_shape, step_size=0.1):\n    return 0\n"
    path.write_text(f"{init}{STEP}    return state, 1\n")
    answer = invoke("run", "control-smoke-v1", "--agent", path, "--out", out)
    assert answer.exit_code == 2
    assert "it is a predictor, and this track needs actions" in answer.stderr
    assert not list(out.glob("episodes/*/events.jsonl"))
