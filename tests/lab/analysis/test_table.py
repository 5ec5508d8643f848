"""Runs -> tidy columns."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from longplay.errors import ConfigError
from longplay.lab.analysis.runs import RunReader
from longplay.lab.analysis.table import make_table, read_table
from longplay.lab.report.site.verdicts import open_pack
from made_up_anchors import make_anchors, make_game
from written_runs import make_config, name_short_suite, write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two seeds of six visits of 60 frames; the reward of a frame is its visit."""
    for seed in (3, 4):
        rewards = np.repeat(np.arange(6.0), 60)
        write_run(tmp_path / "runs" / str(seed), make_config(seed=seed), rewards)
    return tmp_path / "runs"


def test_a_row_is_a_visit(runs: Path) -> None:
    table = read_table(runs, windows=False)
    assert len(table) == 12
    assert "window" not in table.columns
    assert table["seed"].tolist() == [3] * 6 + [4] * 6
    assert table["visit_idx"].tolist() == [*range(6)] * 2
    assert table["visit"].tolist() == [0, 0, 0, 1, 1, 1] * 2
    assert table["cycle"].tolist() == [0, 0, 0, 1, 1, 1] * 2
    assert table["frame"].tolist() == [0, 60, 120, 180, 240, 300] * 2
    assert table["reward"].tolist() == [0.0, 60.0, 120.0, 180.0, 240.0, 300.0] * 2
    assert table["rate"].tolist() == [*map(float, range(6))] * 2
    assert set(table["arguments"]) == {"{}"}
    assert np.isnan(table["z"]).all()


def test_a_row_is_a_window(runs: Path) -> None:
    table = read_table(runs)
    assert len(table) == 12 * 60
    assert table["window"][:61].tolist() == [*range(60), 0]
    assert table["rate"][59:61].tolist() == [0.0, 1.0]


def test_z_is_that_of_the_game(runs: Path) -> None:
    """Lower anchor 1, upper anchor 3 for qbert alone: rate 5 is z 2."""
    found = RunReader().read([runs]).runs
    anchors = make_anchors(name_short_suite(), qbert=make_game(lower=1.0, upper=3.0))
    table = make_table(found, anchors, windows=False)
    of_qbert = table["game"] == "qbert"
    assert np.isnan(table["z"][~of_qbert]).all()
    expected = (table["rate"][of_qbert] - 1) / 2
    assert table["z"][of_qbert].tolist() == expected.tolist()


def test_csv_and_parquet_say_the_same(invoke, runs: Path, tmp_path: Path) -> None:
    for ending in ("csv", "parquet"):
        assert invoke("table", runs, "-o", tmp_path / f"t.{ending}").exit_code == 0
    with (tmp_path / "t.csv").open() as file:
        lines = list(csv.DictReader(file))
    rows = pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pylist()
    assert len(lines) == len(rows) == 12
    for line, row in zip(lines, rows, strict=True):
        assert line["z"] == ""
        assert row["z"] is None
        assert {k: "" if v is None else str(v) for k, v in row.items()} == line


def test_a_pack_has_the_rows_of_its_run(invoke, tmp_path: Path) -> None:
    pack = next((Path(__file__).parents[3] / "results/control-v1/dqn").iterdir())
    assert invoke("table", pack, "-o", tmp_path / "t.csv", "--windows").exit_code == 0
    (run,) = RunReader(open_pack).read([pack]).runs
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert len(lines) == 1 + 20 * 60
    visits = make_table([run], windows=False)
    windows = make_table([run])
    sums = windows["reward"].reshape(20, 60).sum(axis=1)
    assert visits["reward"].tolist() == sums.tolist()
    assert not np.isnan(visits["z"][visits["game"] == "qbert"]).any()


def test_arguments_are_the_agents(tmp_path: Path) -> None:
    config = make_config()
    agent = config.model_dump(mode="json")["agent"]
    agent["config"]["args"] = {"step_size": 0.5, "memory": "reset"}
    write_run(tmp_path / "run", config, [0.0] * 360, agent=agent)
    found = set(read_table(tmp_path, windows=False)["arguments"])
    assert found == {json.dumps({"memory": "reset", "step_size": 0.5})}


def test_other_endings_are_refused(runs: Path, tmp_path: Path) -> None:
    table = read_table(runs, windows=False)
    with pytest.raises(ConfigError, match=r"expected \*\.csv or \*\.parquet"):
        table.write(tmp_path / "table.xlsx")
    assert not (tmp_path / "table.xlsx").exists()
