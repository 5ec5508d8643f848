"""Which keys and values count as secrets."""

from __future__ import annotations

from typing import Any

import pytest

from longplay.contract.confidential import check_no_secrets
from longplay.errors import ConfigError

KEYS = [
    "hub_token", "HF_TOKEN", "hfToken", "wandb-key", "signing_key", "encryptionKey",
    "passwd", "db_passwd", "passphrase", "authorization", "Authorization",
    "aws_session", "AWS_REGION", "llm.bot_token",
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS)
def test_key_with_a_text_is_refused(key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_no_secrets({"llm": [{key: "x1y2"}]}, "agent args")
    message = str(caught.value)
    assert f"agent args llm[0].{key}: a key of this name may hold a secret" in message
    assert "--agent-env NAME" in message
    assert "x1y2" not in message


VALUES = [
    "AKIA" + "ABCDEFGHIJKLMNOP",
    "ghp_" + "a1" * 18,
    "github_pat_" + "A1" * 12,
    "glpat-" + "ab12" * 5,
    "sk-" + "proj-abc_123" * 3,
    "sk-ant-" + "api03-abcdef012345",
    "hf_" + "aB" * 17,
    "xoxb-" + "1234567890-abc",
    "AIza" + "A" * 35,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2ln",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE",
    "Bearer " + "abcdefghij0123456789",
    "postgres://me:hunter2@db.example.org/runs",
    "see redis://:hunter2@cache:6379",
]


@pytest.mark.parametrize("value", VALUES)
def test_value_that_looks_like_a_secret_is_refused(value: str) -> None:
    for mapping in ({"note": value}, {"a": {"b": [0, (value,)]}}):
        with pytest.raises(ConfigError, match="its value looks like a secret") as found:
            check_no_secrets(mapping, "--set")
        assert value not in str(found.value)


FINE: list[dict[str, Any]] = [
    {"max_tokens": 3, "token": "x", "key": "x", "n_keys": "all"},
    {"rng_key": 3, "pad_token": None, "sort_key": True, "eos_token": ""},
    {"monkey": "x", "keyboard": "x", "tokenizer": "bpe", "aws": "x", "laws_of": "x"},
    {"url": "https://example.org:8080/a@b", "mail": "me@example.org", "sk": "sk-short"},
    {"sha": "a" * 40, "text": "AKIA is a prefix; hf_hub is a package", "flask-x": "y"},
]


@pytest.mark.parametrize("mapping", FINE)
def test_harmless_values_are_accepted(mapping: dict[str, Any]) -> None:
    check_no_secrets(mapping, "--set")


def test_long_text_is_searched_quickly() -> None:
    check_no_secrets({"text": "eyJ" * 10**6, "url": "a:" * 10**6}, "--set")
