"""Every page shows the numbers of the documents, and says what it cannot show."""

from __future__ import annotations

import html
import json
import re
import shlex
import shutil
import time
from pathlib import Path

import pytest

from compared_runs import Compared
from generated_runs import edit
from longplay.lab.report.draw.colours import Style
from longplay.lab.report.tables import comparison_to_csv, make_agents_table
from longplay.verify.pack import pack_run
from viewer_requests import Viewer, open_viewer
from written_runs import make_config, write_run


def read_score(run_dir: Path) -> dict[str, object]:
    return json.loads((run_dir / "score.json").read_text())


def test_list_shows_every_run_with_its_score(played, finished_run):
    reply = played.get("/")
    assert reply.status == 200
    score = read_score(finished_run)
    assert f">{score['final_score']:.5g}<" in reply.text
    assert f'href="{played.run_address(finished_run)}"' in reply.text
    assert "✓ COMPLETED" in reply.text
    assert "1 run, 1 experiment." in reply.text


def test_list_shows_z_of_every_run(agents, three_agents):
    (suite,) = three_agents.comparison.suites
    text = agents.get("/").text
    for agent in suite.agents:
        for value in agent.per_run["average"]:
            assert f'data-value="{value}">{value:.5g}</td>' in text


def test_list_groups_runs(agents):
    text = agents.get("/?group=agent").text
    headings = re.findall(r'scope="rowgroup">(.*?)</th>', text)
    assert headings == [
        "&lt;b&gt;beta&lt;/b&gt; &amp; co (3)",
        "alpha (3)",
        "gamma (3)",
    ]
    assert agents.get("/?group=agent").text.count("<tbody>") == 3
    assert 'scope="rowgroup"' not in agents.get("/?group=nonsense").text


def test_run_page_shows_score_games_and_evidence(played, finished_run):
    address = played.run_address(finished_run)
    text = played.get(address).text
    score = read_score(finished_run)
    for name in ("final_score", "mean_score", "plasticity_mean"):
        assert f">{score[name]:.5g}</td>" in text
    for game, value in score["per_game_scores"].items():
        assert f">{game}</td>" in text
        assert f">{value:.5g}</td>" in text
    assert "claimed: it was not verified" in text
    assert "longplay run stream-smoke-v1 --agent random" in html.unescape(text)
    assert f'data-source="{address}/timeline.json"' in text
    assert "data-news" not in text  # the run is complete


def test_timeline_has_every_episode_as_a_link(played, finished_run):
    address = played.run_address(finished_run)
    figure = played.get(f"{address}/timeline.json").json
    rows = [
        json.loads(line)
        for line in (finished_run / "episodes.jsonl").read_text().splitlines()
    ]
    (dots,) = [trace for trace in figure["data"] if trace.get("meta") == "episodes"]
    assert dots["customdata"] == [
        f"{address}/episodes/{row['episode_id']}" for row in rows
    ]
    assert dots["y"] == [row["return"] for row in rows]
    spans = {shape["x1"] for shape in figure["layout"]["shapes"]}
    config = json.loads((finished_run / "config.json").read_text())
    total = sum(visit["visit_frames"] for visit in config["schedule"])
    assert max(spans) == total
    table = played.get(f"{address}/timeline.csv").text.splitlines()
    assert table[0] == "panel,series,x,y,low,high"
    # Two ends of the level line of `random` in every visit.
    assert len(table) == 1 + len(rows) + (60 + 2) * len(config["schedule"])


def test_pack_shows_visits_and_metrics(finished_run, copy_of, tmp_path):
    run_dir = copy_of(finished_run)
    row = {"global_frame_idx": 7, "visit_idx": 0, "<loss>": 1.5}
    (run_dir / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    pack = tmp_path / "my runs" / "$(one).longplay"
    pack.parent.mkdir()
    pack_run(run_dir, pack)
    viewer = open_viewer(pack)
    address = viewer.run_address(pack)
    text = html.unescape(viewer.get(address).text)
    assert f"longplay unpack '{pack.resolve()}' -o '$(one)'" in text
    assert 'id="episodes"' not in text
    figure = viewer.get(f"{address}/timeline.json").json
    rate, level, loss = figure["data"]
    assert (level["name"], level["line"]["dash"]) == ("random", "dash")
    assert rate["line"]["dash"] == loss["line"]["dash"] == "solid"
    whole = open_viewer(run_dir)
    address_of_run = whole.run_address(run_dir)
    of_run = whole.get(f"{address_of_run}/timeline.json").json["data"][0]
    assert rate["y"] == of_run["y"]
    assert (loss["meta"], loss["x"], loss["y"]) == ("metric:<loss>", [7.0], [1.5])
    part = viewer.get(f"{address}/timeline.json?from=0&to=50").json
    assert part["data"] == figure["data"]


def test_pack_has_the_curve_of_a_run_that_was_scanned(finished_run, tmp_path):
    pack = tmp_path / "one.longplay"
    pack_run(finished_run, pack)
    viewer = open_viewer(pack, finished_run)
    figures = []
    for path in (finished_run, pack):  # the run is scanned, the pack is not
        figure = viewer.get(f"{viewer.run_address(path)}/timeline.json").json
        figures.append([t for t in figure["data"] if t.get("meta") == "rate"])
    assert figures[0] == figures[1] != []


def test_commands_are_quoted(finished_run, tmp_path):
    run_dir = tmp_path / "a'; rm -rf $HOME #"
    shutil.copytree(finished_run, run_dir)
    viewer = open_viewer(run_dir)
    address = viewer.run_address(run_dir)
    quoted = shlex.quote(str(run_dir.resolve()))
    verify = f"longplay verify {quoted}"
    assert verify in html.unescape(viewer.get(address).text)
    video = f"longplay video {quoted} --episode 0 -o episode-0.mp4"
    assert video in html.unescape(viewer.get(f"{address}/episodes/0").text)


def test_experiment_page(played, finished_run):
    address = re.search(r"/experiments/[0-9a-f]+", played.get("/").text).group()
    text = played.get(address).text
    assert "Learning curves" in text
    assert f">{read_score(finished_run)['final_score']:.5g}</td>" in text
    assert "config_given" in text
    table = played.get(f"{address}/0/seeds.csv")
    assert table.headers["content-type"].startswith("text/csv")
    assert table.text.count("seed 0") == 6 * 20


def test_comparison_has_the_numbers_of_compare(agents: Viewer, three_agents: Compared):
    ids = re.findall(r'name="run" value="([0-9a-f]+)"', agents.get("/").text)
    assert len(ids) == 9
    query = "&".join(f"run={run_id}" for run_id in ids)
    text = agents.get(f"/compare?{query}").text
    (suite,) = three_agents.comparison.suites
    for row in make_agents_table(suite).rows:
        for cell in row:
            assert html.escape(cell.text) in text
    assert "agent.config._type" in text  # what differs in the configs
    numbers = agents.get(f"/compare.csv?{query}").text
    assert numbers == comparison_to_csv(three_agents.comparison)
    figure = agents.get(f"/compare/0/profile.csv?{query}")
    assert figure.status == 200
    assert agents.get(f"/compare/1/profile.csv?{query}").status == 404


def test_agents_look_as_the_file_of_styles_says(three_agents: Compared):
    (suite,) = three_agents.comparison.suites
    styles = {suite.agents[0].label: Style("#123456", 2)}
    viewer = open_viewer(three_agents.path, styles=styles)
    ids = re.findall(r'name="run" value="([0-9a-f]+)"', viewer.get("/").text)
    query = "&".join(f"run={run_id}" for run_id in ids)
    assert "#123456" in viewer.get(f"/compare?{query}").text


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("/runs/0123456789ab", "no run has this id"),
        ("/experiments/0123456789ab", "no experiment has this id"),
        ("/studies/0123456789ab", "no study has this id"),
        ("{run}/agent_output.txt", "the agent printed nothing"),
        ("/compare", "tick two or more runs"),
        ("/compare?run=x", "no run has this id"),
        ("/nothing", "there is no such page"),
        ("/static/base.html", "there is no such file"),
        ("/static/..%2F..%2Fpages.py", "there is no such"),
        ("{run}?page=x", "expected a whole number"),
        ("{run}?page=-1", "expected a whole number"),
        ("{run}/episodes/99999", "expected 0 … "),
        ("{run}/episodes/" + "9" * 5000, "expected a whole number"),
        ("{run}/visits/6", "expected 0 … 5, found 6"),
        ("{run}/episodes/0?frame=999999", "has the frames 0 to"),
        ("{run}/frames.png?from=5&to=5", "expected 1 to 64 frames"),
        ("{run}/frames.png?from=0&to=5000", "expected 1 to 64 frames"),
        ("{run}/frames.png?from=9000000&to=9000001", "the run has"),
        ("{run}/frames.png", "expected a whole number"),
    ],
)
def test_what_is_not_there_is_said(played, finished_run, address, message):
    reply = played.get(address.format(run=played.run_address(finished_run)))
    assert reply.status in (404, 500)
    assert message in reply.text


def test_run_that_appears_later_is_found(tmp_path, monkeypatch):
    write_run(tmp_path / "a", make_config(), [1.0] * 360)
    viewer = open_viewer(tmp_path)
    write_run(tmp_path / "b", make_config(seed=1), [1.0] * 360)
    monkeypatch.setattr(viewer.site.index, "_next_scan_s", 0.0)
    assert viewer.get("/").text.count('name="run"') == 2
    shutil.rmtree(tmp_path / "a")
    shutil.rmtree(tmp_path / "b")
    monkeypatch.setattr(viewer.site.index, "_next_scan_s", 0.0)
    assert "0 runs." in viewer.get("/").text


def test_failed_run_says_why(tmp_path):
    run_dir = write_run(tmp_path / "a", make_config(), [1.0] * 100)
    error = {"type": "AgentError", "message": "no & nothing", "frame": 9, "game": None}
    edit(run_dir / "status.json", state="FAILED", error=error)
    viewer = open_viewer(tmp_path)
    text = viewer.get(viewer.run_address(run_dir)).text
    assert "AgentError: no &amp; nothing" in text
    assert "✗ FAILED" in text
    assert "agent_output.txt" not in text


def test_run_leads_to_what_its_agent_printed(tmp_path):
    run_dir = write_run(tmp_path / "a", make_config(), [1.0] * 360)
    (run_dir / "agent_output.txt").write_text("<b>loss</b> 1.5\n")
    viewer = open_viewer(tmp_path)
    address = f"{viewer.run_address(run_dir)}/agent_output.txt"
    assert f'href="{address}"' in viewer.get(viewer.run_address(run_dir)).text
    reply = viewer.get(address)
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.text == "<b>loss</b> 1.5\n"
    (run_dir / "agent_output.txt").unlink()
    (run_dir / "agent_output.txt").symlink_to(run_dir / "config.json")
    reply = viewer.get(address)
    assert (reply.status, "expected a regular file" in reply.text) == (500, True)


def test_list_shows_arguments_and_date(tmp_path):
    run_dir = write_run(tmp_path / "a", make_config(), [1.0] * 360)
    config = {"_type": "alpha.Agent", "args": {"rate": 0.5, "name": "<b>"}}
    edit(run_dir / "config.json", agent={"agent_id": "0" * 64, "config": config})
    edit(run_dir / "run_summary.json", started_utc="2026-11-18T09:12:44.000Z")
    text = html.unescape(open_viewer(tmp_path).get("/").text)
    assert '>rate=0.5 name="<b>"</td>' in text
    assert ">2026-11-18 09:12</td>" in text


def test_actions_of_an_episode_and_metrics_at_its_frames(finished_run, copy_of):
    run_dir = copy_of(finished_run)
    rows = [{"global_frame_idx": n, "visit_idx": 0, "loss": n / 2} for n in (9, 1999)]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (run_dir / "metrics.jsonl").write_text(lines)
    events = [
        json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()
    ]
    viewer = open_viewer(run_dir)
    text = viewer.get(f"{viewer.run_address(run_dir)}/visits/0").text
    figure = json.loads(re.search(r'data-figure="actions">(.*?)</script>', text)[1])
    (bars,) = figure["data"]
    played = [row["applied_action_idx"] for row in events if row["visit_idx"] == 0]
    assert sum(bars["y"]) == len(played)
    counts = dict(zip(bars["x"], bars["y"], strict=True))
    assert counts["NOOP"] == played.count(0)
    assert counts["FIRE"] == played.count(1)
    metrics = json.loads(re.search(r'id="metrics">(.*?)</script>', text)[1])
    assert metrics == {"loss": {"ends": [9, 1999], "values": [4.5, 999.5]}}


def test_two_hundred_runs_are_listed_fast(tmp_path):
    """Processor time: the machine may be busy with something else."""
    run_dir = write_run(tmp_path / "0", make_config(), [1.0] * 360)
    for number in range(1, 200):
        shutil.copytree(run_dir, tmp_path / str(number))
        edit(tmp_path / str(number) / "config.json", seed=number)
    started_s = time.process_time()
    viewer = open_viewer(tmp_path)
    assert viewer.get("/").text.count('name="run"') == 200
    assert time.process_time() - started_s < 2
    started_s = time.process_time()
    viewer.get("/")
    assert time.process_time() - started_s < 0.5
