"""An agent's config: its id, loading the agent from it, and secrets."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from longplay.agents.source.config import AgentConfig
from longplay.agents.source.loading import BUILT_IN_AGENTS, load_agent
from longplay.contract.confidential import check_no_secrets
from longplay.contract.config import AgentEntry
from longplay.errors import AgentLoadError, ConfigError
from longplay.eval_log.records import AgentInfo

SOURCE = """
class Agent:
    def __init__(self, num_actions, seed, speed=1):
        pass

    def step(self, obs_rgb, reward, terminated, truncated, info):
        return 0
"""


@pytest.fixture
def agent_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    return path


# --- config and id ------------------------------------------------------------------


@pytest.mark.seed("001", "invariant-2")
def test_config_of_a_built_in_agent_by_hand():
    config = AgentConfig.from_entry(load_agent("random").entry)
    text = '{"_type": "longplay.agents.random.RandomAgent", "args": {}}'
    assert json.dumps(config.model_dump(mode="json"), sort_keys=True) == text
    assert config.agent_id == hashlib.sha256(text.encode()).hexdigest()


def test_config_of_a_file_by_hand(agent_file):
    entry = load_agent(f"{agent_file}:Agent", {"speed": 2}).entry
    config = AgentConfig.from_entry(entry)
    digest = hashlib.sha256(SOURCE.encode()).hexdigest()
    text = (
        '{"_type": "mine.Agent", "args": {"speed": 2}, "file": "mine.py", '
        f'"source_sha256": "{digest}"}}'
    )
    assert config.agent_id == hashlib.sha256(text.encode()).hexdigest()
    assert config.entry == entry


@pytest.mark.parametrize("name", BUILT_IN_AGENTS)
def test_config_round_trips_through_json(name):
    config = AgentConfig.from_entry(load_agent(name).entry)
    assert AgentConfig.model_validate_json(config.model_dump_json()) == config


@pytest.mark.seed("001", "agent-16")
def test_agent_info_has_the_same_id(agent_file):
    config = AgentConfig.from_entry(load_agent(str(agent_file)).entry)
    info = AgentInfo.from_agent_config(config)
    assert info.agent_id == config.agent_id
    assert info.config_type == "mine.Agent"
    assert info.config == config.entry.config


def test_id_that_does_not_match_the_config_is_refused():
    entry = AgentEntry(config={"_type": "a.B", "args": {}}, agent_id="0" * 64)
    with pytest.raises(ConfigError, match=r"agent agent_id: expected .* found 0000"):
        AgentConfig.from_entry(entry)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "agent config _type: expected a value, found none"),
        ({"_type": ""}, "agent config _type: expected a string that is not empty"),
        (
            {"_type": "a.B", "args": 3},
            "agent config args: expected an object",
        ),
        ({"_type": "a.B", "seed": 3}, "agent config seed: expected no such key"),
        (
            {"_type": "a.B", "source_sha256": "x"},
            "agent config source_sha256: expected text like",
        ),
    ],
)
def test_invalid_agent_config_is_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        AgentConfig.from_config(config)


def test_config_cannot_be_changed():
    config = AgentConfig.from_config({"_type": "a.B"})
    with pytest.raises(ValidationError, match="frozen"):
        config.file = "other.py"


# --- loading ------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUILT_IN_AGENTS)
def test_built_in_agent_is_loaded_without_a_spec(name):
    config = AgentConfig.from_entry(load_agent(name).entry)
    assert config.is_built_in
    assert config.load().name == name


def test_other_agent_is_never_imported_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for type_name in ("trap.Agent", "trap:Agent", "os.system", "trap"):
        config = AgentConfig.from_config({"_type": type_name, "args": {}})
        assert not config.is_built_in
        with pytest.raises(AgentLoadError, match="is not built in"):
            config.load()
    assert "trap" not in sys.modules


def test_file_with_the_name_of_a_built_in_agent_is_not_built_in():
    config = AgentConfig.from_config(
        {
            "_type": "longplay.agents.random.RandomAgent",
            "args": {},
            "file": "random.py",
            "source_sha256": "0" * 64,
        }
    )
    with pytest.raises(AgentLoadError, match="is not built in"):
        config.load()


def test_other_agent_is_loaded_from_its_spec(agent_file, tmp_path):
    config = AgentConfig.from_entry(load_agent(str(agent_file), {"speed": 2}).entry)
    agent = config.load(str(agent_file))
    assert agent.entry == config.entry
    assert agent.agent_args == {"speed": 2}
    moved = agent_file.rename(tmp_path / "elsewhere.py")
    with pytest.raises(
        AgentLoadError, match=r"expected _type 'mine\.Agent', found 'else"
    ):
        config.load(str(moved))


def test_changed_source_is_a_different_agent(agent_file):
    config = AgentConfig.from_entry(load_agent(str(agent_file)).entry)
    agent_file.write_text(SOURCE + "# changed\n")
    with pytest.raises(
        AgentLoadError, match="is a different agent: expected source_sha256"
    ):
        config.load(str(agent_file))


def test_spec_of_a_different_agent_is_refused():
    config = AgentConfig.from_entry(load_agent("random").entry)
    with pytest.raises(
        AgentLoadError, match="agent noop is a different agent: expected _t"
    ):
        config.load("noop")


# --- secrets ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key",
    [
        "api_key",
        "API_KEY",
        "api-key",
        "apiKey",
        "openai_api_key",
        "llm.api_key",
        "secret",
        "client_secret",
        "Client-Secret",
        "password",
        "db_password",
        "access_token",
        "auth_token",
        "hf-auth-token",
        "private_key",
        "credential",
        "credentials",
        "AWS_CREDENTIALS",
    ],
)
def test_key_for_a_secret_is_refused_at_any_depth(key):
    for mapping in ({key: "x1"}, {"llm": {key: "x1"}}, {"all": [1, ({key: "x1"},)]}):
        with pytest.raises(ConfigError) as caught:
            check_no_secrets(mapping, "--set")
        message = str(caught.value)
        assert message.startswith("--set ")
        assert f"{key}: a key of this name may hold a secret" in message
        assert "x1" not in message


@pytest.mark.parametrize(
    "key",
    ["max_tokens", "token", "key", "secretary", "passwords_tried", "keyboard", "n", 3],
)
def test_other_keys_are_fine(key):
    check_no_secrets({key: {"inner": [key]}}, "--set")


def test_path_of_the_key_is_named():
    mapping = {"llm": {"tools": [{}, {"api_key": "x"}]}}
    with pytest.raises(ConfigError, match=r"agent args llm\.tools\[1\]\.api_key: "):
        check_no_secrets(mapping, "agent args")


def test_agent_config_with_a_secret_is_refused():
    config = {"_type": "a.B", "args": {"llm": {"api_key": "x"}}}
    with pytest.raises(ConfigError, match=r"llm\.api_key"):
        AgentConfig.from_config(config)
    with pytest.raises(ConfigError, match=r"llm\.api_key"):
        AgentConfig.model_validate_json(json.dumps(config))
    with pytest.raises(ConfigError, match="password"):
        AgentConfig.from_config({"_type": "a.B", "password": "x"})
