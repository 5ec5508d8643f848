"""Shipped references: read strictly, rejected if they do not match their facts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import save

from frozen_networks import make_arrays, make_pairs
from longplay.errors import DocumentError, LongplayError
from longplay.reference.library import list_references, load_reference, read_facts
from made_up_references import make_facts, write_reference


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_reference(tmp_path, "pong", make_arrays(0), make_arrays(1, outputs=1))
    return tmp_path


def test_a_reference_plays_and_values(data: Path) -> None:
    reference, pair = load_reference("pong", data), make_pairs(1)[0]
    assert list_references(data) == ["pong"]
    assert reference.policy.choose_greedily(pair) in reference.policy.actions
    assert reference.values.evaluate(pair).dtype == "float32"


def test_lead_is_in_standard_errors(data: Path) -> None:
    # (4 − 2) / √(0.3² + 0.4²)
    assert read_facts("pong", data).policy.lead_in_errors == pytest.approx(4.0)


def flip_a_bit(data: Path) -> None:
    path = data / "pong.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def remove_networks(data: Path) -> None:
    (data / "pong.safetensors").unlink()


def cut_facts(data: Path) -> None:
    path = data / "pong.json"
    path.write_text(path.read_text()[:-20])


def remove_an_array(data: Path) -> None:
    arrays = {f"policy.{name}": array for name, array in make_arrays().items()}
    networks = save(arrays)
    (data / "pong.safetensors").write_bytes(networks)
    facts = make_facts(networks).model_dump(mode="json")
    (data / "pong.json").write_text(json.dumps(facts))


def remove_facts(data: Path) -> None:
    (data / "pong.json").unlink()


def put_a_pipe(data: Path) -> None:
    remove_facts(data)
    os.mkfifo(data / "pong.json")


def grow_networks(data: Path) -> None:
    os.truncate(data / "pong.safetensors", 12 * 2**30)


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (flip_a_bit, DocumentError, "expected SHA-256 .* found .* reinstall longplay"),
        (remove_networks, DocumentError, "cannot be read: .* reinstall longplay"),
        (cut_facts, DocumentError, "pong.json"),
        (remove_an_array, DocumentError, "values input_bits: expected an array"),
        (remove_facts, DocumentError, "pong.json: cannot be read: .* LONGPLAY_REF"),
        (put_a_pipe, DocumentError, "expected a regular file, found a pipe"),
        (grow_networks, DocumentError, "at most 268,435,456 bytes, found 12,884"),
    ],
)
def test_damage_is_named(
    data: Path, damage: object, error: type[LongplayError], message: str
) -> None:
    assert callable(damage)
    damage(data)
    with pytest.raises(error, match=message):
        load_reference("pong", data)


def test_a_folder_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Callable[..., Any]
) -> None:
    monkeypatch.setenv("LONGPLAY_REFERENCES", str(tmp_path / "nowhere"))
    shown = invoke("reference", "show")
    assert shown.exit_code != 0
    assert "nowhere: expected a folder of references" in shown.stderr
    played = invoke("run", "prediction-smoke-v1", "--agent", "random", "--dry-run")
    assert played.exit_code != 0
    assert "pong.json: cannot be read" in played.stderr
    assert "LONGPLAY_REFERENCES" in played.stderr


@pytest.mark.parametrize("game", list_references())
def test_shipped_references_load(game: str) -> None:
    assert load_reference(game).facts.game == game
