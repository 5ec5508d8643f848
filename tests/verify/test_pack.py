"""A pack unpacks to the same bytes; anything else is refused and leaves nothing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zstandard

import longplay
from longplay.contract.rundir import ROW_FILES
from longplay.errors import (
    CannotVerifyError,
    IncompleteRunError,
    LongplayError,
    OutputError,
    PackError,
)
from longplay.experiments.experiment import Experiment, plan_seeds
from longplay.verify.archive import render_archive
from longplay.verify.pack import pack_run, unpack_run
from longplay.verify.pack_file import PackFile
from longplay.verify.verification import verify_run, write_verification
from playing import play_run
from repacking import Contents, close_pack, open_contents

_SETTINGS = {"games": ["centipede", "asterix"], "base_visit_frames": 300}
_CONTROL = {"games": ["asterix"], "base_visit_frames": 400}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small genuine run. Do not change it: copy it."""
    out = tmp_path_factory.mktemp("packed") / "experiment"
    return play_run("stream-smoke-v1", "random", out=out, overrides=_SETTINGS).run_dir


@pytest.fixture(scope="module")
def pack(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, packed. Do not change it."""
    path = tmp_path_factory.mktemp("pack") / "run.longplay"
    pack_run(run, path)
    return path


def _read_folder(folder: Path) -> Contents:
    """The files of a run; the kept agent's folder is not packed."""
    files = (path for path in folder.iterdir() if path.is_file())
    return {path.name: path.read_bytes() for path in files}


def _refused(path: Path, folder: Path, error: type[LongplayError] = PackError) -> str:
    """Unpacks a pack that must be refused; returns the message, checks the folder.

    The folder has one file beside the target, to detect writes next to it.
    """
    folder.mkdir()
    (folder / "neighbour").write_bytes(b"untouched")
    outside = sorted(folder.parent.iterdir())
    with pytest.raises(error) as caught:
        unpack_run(path, folder / "target")
    assert [path.name for path in folder.iterdir()] == ["neighbour"]
    assert (folder / "neighbour").read_bytes() == b"untouched"
    assert sorted(folder.parent.iterdir()) == outside
    return str(caught.value)


# --- Round trips ----------------------------------------------------------------


def test_pack_unpacks_to_the_same_bytes(run: Path, pack: Path, tmp_path: Path) -> None:
    unpack_run(pack, tmp_path / "again")
    assert _read_folder(tmp_path / "again") == _read_folder(run)
    assert list(tmp_path.iterdir()) == [tmp_path / "again"]


def test_unpacking_that_was_killed_does_not_block_the_next(
    run: Path, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        signal.raise_signal(signal.SIGKILL)

    # In a container, every process may have the same id.
    monkeypatch.setattr("os.getpid", lambda: 1)
    pid = os.fork()
    if pid == 0:
        try:
            monkeypatch.setattr("longplay.verify.pack.move_directory", end)
            unpack_run(pack, tmp_path / "target")
        finally:  # an error must not make a second test runner of this process
            os._exit(0)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    assert not (tmp_path / "target").exists()
    assert _read_folder(unpack_run(pack, tmp_path / "target")) == _read_folder(run)


def test_pack_of_version_1_gets_its_curves(
    run: Path, pack: Path, tmp_path: Path
) -> None:
    contents = open_contents(pack)
    curves = contents.pop("curves.jsonl")
    old = close_pack(pack, tmp_path / "old.longplay", contents, version=1)
    with PackFile(old) as opened:
        assert opened.read_documents().curves is None
    unpack_run(old, tmp_path / "again")
    assert (tmp_path / "again" / "curves.jsonl").read_bytes() == curves
    assert _read_folder(tmp_path / "again") == _read_folder(run)


def test_tuning_run_round_trips(tmp_path: Path) -> None:
    plans = plan_seeds("control-smoke-v1", [1000], _CONTROL, stop_after=0.5)
    experiment = Experiment.create(plans, "random", out=tmp_path / "tuned")
    run = experiment.run_sequentially()[0].run_dir
    pack_run(run, tmp_path / "run.longplay")
    unpack_run(tmp_path / "run.longplay", tmp_path / "again")
    assert (tmp_path / "again" / "tuning.json").is_file()
    assert _read_folder(tmp_path / "again") == _read_folder(run)


def test_curves_that_replay_does_not_give_are_refused(
    pack: Path, tmp_path: Path
) -> None:
    contents = open_contents(pack)
    text = contents["curves.jsonl"]
    contents["curves.jsonl"] = text.replace(b"0.0,", b"1.0,", 1)
    false = close_pack(pack, tmp_path / "false.longplay", contents)
    assert "curves.jsonl: replay did not reproduce" in _refused(false, tmp_path / "f")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"score.json": None}, "expected one of score.json, tuning.json, probe.json"),
        ({"tuning.json": b"{}"}, "found score.json and tuning.json"),
    ],
)
def test_pack_has_one_result(
    pack: Path, tmp_path: Path, change: dict[str, bytes | None], message: str
) -> None:
    contents = open_contents(pack) | change
    kept = {name: content for name, content in contents.items() if content is not None}
    other = close_pack(pack, tmp_path / "other.longplay", kept)
    assert message in _refused(other, tmp_path / "f")


def test_same_directory_gives_the_same_pack(
    run: Path, pack: Path, tmp_path: Path
) -> None:
    elsewhere = shutil.copytree(run, tmp_path / "elsewhere")
    pack_run(elsewhere, tmp_path / "second.longplay", workers=2)
    assert (tmp_path / "second.longplay").read_bytes() == pack.read_bytes()


def test_packing_does_not_change_the_run(run: Path, tmp_path: Path) -> None:
    before = _read_folder(run)
    pack_run(run, tmp_path / "run.longplay")
    assert _read_folder(run) == before


def test_control_run_with_output_and_verdict_round_trips(tmp_path: Path) -> None:
    agent = tmp_path / "talker.py"
    agent.write_text(
        "def init(observation_shape, num_actions):\n    print('Grüße'); return 0\n"
        "def step(state, previous, observation, reward):\n"
        "    return state + 1, state * 7 % 18\n"
    )
    out = tmp_path / "experiment"
    run = play_run("control-smoke-v1", str(agent), out=out, overrides=_CONTROL).run_dir
    write_verification(verify_run(run))
    pack_run(run, tmp_path / "run.longplay")
    unpack_run(tmp_path / "run.longplay", tmp_path / "again")
    assert _read_folder(tmp_path / "again") == _read_folder(run)
    assert (tmp_path / "again" / "agent_output.txt").read_text() == "Grüße\n"


def test_any_tar_lists_a_pack(pack: Path) -> None:
    with tarfile.open(pack) as archive:
        members = archive.getmembers()
        manifest = json.load(archive.extractfile("manifest.json"))  # type: ignore[arg-type]
    assert [member.name for member in members] == [
        "manifest.json",
        "config.json.zst",
        "run_summary.json.zst",
        "score.json.zst",
        "status.json.zst",
        "episode_config.json.zst",
        "episode_record.json.zst",
        "curves.jsonl.zst",
        "answers.zst",
    ]
    assert {(member.mtime, member.uid, member.mode) for member in members} == {
        (0, 0, 0o644)
    }
    assert (manifest["format"], manifest["version"]) == ("longplay-pack", 2)
    assert manifest["sizes"].keys() == manifest["sha256"].keys()


def test_manifest_has_sizes_and_hashes_of_the_rows(run: Path, pack: Path) -> None:
    with PackFile(pack) as opened:
        manifest = opened.manifest
    for name in ROW_FILES:
        content = (run / name).read_bytes()
        assert manifest.sizes[name] == len(content)
        assert manifest.sha256[name] == hashlib.sha256(content).hexdigest()


@pytest.mark.exhaustive
def test_answers_take_less_than_a_byte_per_four_frames(tmp_path: Path) -> None:
    """A small version of the suite: only the answers grow with its length."""
    settings = {"games": ["qbert"], "num_cycles": 1, "base_visit_frames": 12_000}
    run = play_run("stream-3x2-v1", "random", out=tmp_path / "run", overrides=settings)
    manifest = pack_run(run.run_dir, tmp_path / "run.longplay")
    fixed = sum(
        size for name, size in manifest.sizes.items() if name.endswith("json.zst")
    )
    # Headers, padding and manifest of 9 members beside them.
    assert fixed < 8_000
    frames = longplay.read_run(run.run_dir).config.total_frames
    assert manifest.sizes["answers.zst"] / frames < 0.15


@pytest.mark.exhaustive
def test_whole_suite_packs_to_a_quarter_byte_per_frame(tmp_path: Path) -> None:
    run = play_run("stream-3x2-v1", "random", out=tmp_path / "run").run_dir
    pack_run(run, tmp_path / "run.longplay", workers=2)
    frames = longplay.read_run(run).config.total_frames
    assert (tmp_path / "run.longplay").stat().st_size / frames < 0.25
    unpack_run(tmp_path / "run.longplay", tmp_path / "again")
    assert _read_folder(tmp_path / "again") == _read_folder(run)


# --- Runs that are not packed ---------------------------------------------------


def test_forged_run_is_not_packed(
    run: Path, copy_of: Callable[[Path], Path], tmp_path: Path
) -> None:
    copy = copy_of(run)
    text = (copy / "events.jsonl").read_text()
    (copy / "events.jsonl").write_text(text.replace('"lives":3', '"lives":4', 1))
    with pytest.raises(PackError, match="lives logged 4, replayed 3"):
        pack_run(copy, tmp_path / "run.longplay")
    assert not (tmp_path / "run.longplay").exists()


def test_invalid_run_is_not_packed(
    run: Path, copy_of: Callable[[Path], Path], tmp_path: Path
) -> None:
    copy = copy_of(run)
    (copy / "score.json").unlink()
    with pytest.raises(PackError, match=r"score\.json"):
        pack_run(copy, tmp_path / "run.longplay")


def test_incomplete_run_is_not_packed(
    run: Path, copy_of: Callable[[Path], Path], tmp_path: Path
) -> None:
    copy = copy_of(run)
    lines = (copy / "events.jsonl").read_bytes().splitlines(keepends=True)
    (copy / "events.jsonl").write_bytes(b"".join(lines[:-5]))
    with pytest.raises(IncompleteRunError):
        pack_run(copy, tmp_path / "run.longplay")


def test_existing_file_is_not_overwritten(run: Path, tmp_path: Path) -> None:
    (tmp_path / "run.longplay").write_bytes(b"mine")
    with pytest.raises(OutputError, match="exists"):
        pack_run(run, tmp_path / "run.longplay")
    assert (tmp_path / "run.longplay").read_bytes() == b"mine"


# --- Damaged packs --------------------------------------------------------------

FLIPS = 200


@pytest.mark.exhaustive
def test_bit_flipped_anywhere_is_refused(pack: Path, tmp_path: Path) -> None:
    content = pack.read_bytes()
    rng = np.random.default_rng(0)
    places = rng.choice(len(content), FLIPS, replace=False).tolist()
    for number, place in enumerate(places):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "flipped.longplay").write_bytes(flipped)
        message = _refused(tmp_path / "flipped.longplay", tmp_path / str(number))
        assert re.search("not a valid pack|not unpacked: .*(damaged|packed)", message)


def test_bit_flipped_in_headers_padding_and_end_is_refused(
    pack: Path, tmp_path: Path
) -> None:
    content = pack.read_bytes()
    for number, place in enumerate((0, 124, 148, 156, 257, 300, 511, -1, -600, -1024)):
        flipped = bytearray(content)
        flipped[place] ^= 1
        (tmp_path / "flipped.longplay").write_bytes(flipped)
        _refused(tmp_path / "flipped.longplay", tmp_path / str(number))


def test_cut_pack_is_refused(pack: Path, tmp_path: Path) -> None:
    content = pack.read_bytes()
    cuts = [0, 1, 511, 512, 1000, *range(2048, len(content), 1777), len(content) - 1]
    for number, cut in enumerate(cuts):
        (tmp_path / "cut.longplay").write_bytes(content[:cut])
        _refused(tmp_path / "cut.longplay", tmp_path / str(number))


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"\0" * 10_240, b"PK\x03\x04" * 500], ids=repr
)
def test_files_that_are_not_packs_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other.longplay").write_bytes(content[:20_000])
    assert "not a valid pack" in _refused(tmp_path / "other.longplay", tmp_path / "in")


def test_missing_file_is_refused(tmp_path: Path) -> None:
    assert "No such file" in _refused(tmp_path / "none.longplay", tmp_path / "in")


def test_bytes_after_the_end_are_refused(pack: Path, tmp_path: Path) -> None:
    (tmp_path / "long.longplay").write_bytes(pack.read_bytes() + bytes(512))
    message = _refused(tmp_path / "long.longplay", tmp_path / "in")
    assert "has data after its end" in message


# --- Hostile packs: tars --------------------------------------------------------


def _tar(pack: Path, *extra: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """A tar of a pack's members and an additional one."""
    buffer = io.BytesIO()
    with (
        tarfile.open(pack) as original,
        tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as changed,
    ):
        for member in original:
            changed.addfile(member, original.extractfile(member))
        for member, content in extra:
            member.size = len(content)
            changed.addfile(member, io.BytesIO(content))
    return buffer.getvalue().rstrip(b"\0") + bytes(2048)


def _entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (_entry("/etc/passwd"), "is a path"),
        (_entry("../evil"), "is a path"),
        (_entry("a/../../evil"), "is a path"),
        (_entry("folder/file"), "is a path"),
        (_entry(".."), "is a path"),
        (_entry("evil\\file"), "is a path"),
        (_entry("events.jsonl", tarfile.SYMTYPE, "/etc/passwd"), "a symbolic link"),
        (_entry("score.json.zst", tarfile.LNKTYPE, "config.json"), "a hard link"),
        (_entry("device", tarfile.CHRTYPE), "a device"),
        (_entry("device", tarfile.BLKTYPE), "a device"),
        (_entry("pipe", tarfile.FIFOTYPE), "a pipe"),
        (_entry("folder", tarfile.DIRTYPE), "a folder"),
        (_entry("more.txt.zst"), "not part of a pack"),
        (_entry("events.jsonl.zst"), "not part of a pack"),
        (_entry("config.json.zst"), "twice"),
        (_entry("manifest.json"), "twice"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_hostile_member_is_refused(
    pack: Path, tmp_path: Path, entry: tarfile.TarInfo, message: str
) -> None:
    (tmp_path / "evil.longplay").write_bytes(_tar(pack, (entry, b"")))
    assert message in _refused(tmp_path / "evil.longplay", tmp_path / "in")


def test_size_far_beyond_the_file_is_refused(pack: Path, tmp_path: Path) -> None:
    info = _entry("agent_output.txt.zst")
    info.size = 8 * 2**30 - 1
    evil = _tar(pack).rstrip(b"\0")
    evil += bytes(-len(evil) % 512) + info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024)
    (tmp_path / "evil.longplay").write_bytes(evil)
    message = _refused(tmp_path / "evil.longplay", tmp_path / "in")
    assert "cut short within agent_output.txt.zst" in message


# --- Hostile packs: well-formed ones --------------------------------------------


def test_pack_rebuilt_by_hand_unpacks(pack: Path, tmp_path: Path) -> None:
    path = close_pack(pack, tmp_path / "own.longplay", open_contents(pack))
    unpack_run(path, tmp_path / "again")


def test_more_bytes_than_in_the_manifest_are_refused(
    pack: Path, tmp_path: Path
) -> None:
    contents = open_contents(pack)
    sizes = {"status.json": len(contents["status.json"]) - 1}
    path = close_pack(pack, tmp_path / "evil.longplay", contents, sizes=sizes)
    message = _refused(path, tmp_path / "in")
    assert re.search("status.json: expected [0-9,]+ bytes, found more", message)


def test_fewer_bytes_than_in_the_manifest_are_refused(
    pack: Path, tmp_path: Path
) -> None:
    contents = open_contents(pack)
    sizes = {"status.json": len(contents["status.json"]) + 1}
    path = close_pack(pack, tmp_path / "evil.longplay", contents, sizes=sizes)
    message = _refused(path, tmp_path / "in")
    assert re.search("expected [0-9,]+ bytes, found [0-9]", message)


def test_bomb_is_refused_within_little_memory(pack: Path, tmp_path: Path) -> None:
    import resource

    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(2**30))
    assert len(bomb) < 100_000
    contents = open_contents(pack)
    path = close_pack(
        pack,
        tmp_path / "bomb.longplay",
        contents,
        {"status.json.zst": bomb},
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    message = _refused(path, tmp_path / "in")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert re.search("status.json: expected [0-9,]+ bytes, found more", message)
    assert after - before < 64 * 1024  # KiB


def test_bomb_with_its_size_in_the_manifest_is_refused(
    pack: Path, tmp_path: Path
) -> None:
    bomb = zstandard.ZstdCompressor(level=19).compress(bytes(2**29))
    sizes = {"status.json": 2**29}
    path = close_pack(
        pack,
        tmp_path / "bomb.longplay",
        open_contents(pack),
        {"status.json.zst": bomb},
        sizes=sizes,
    )
    assert "are too many" in _refused(path, tmp_path / "in")


def test_frame_that_wants_a_large_window_is_refused(pack: Path, tmp_path: Path) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=30)
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    contents = open_contents(pack)
    stream = compressor.compressobj()  # of unknown size: the header names a window
    greedy = stream.compress(contents["status.json"]) + stream.flush()
    path = close_pack(
        pack, tmp_path / "evil.longplay", contents, {"status.json.zst": greedy}
    )
    assert "cannot be decompressed" in _refused(path, tmp_path / "in")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda frame: frame + b"more", "does not end where it should"),
        (lambda frame: frame + bytes(4096), "after its end"),
        (lambda frame: frame[:-3], "does not end where it should"),
        (lambda frame: b"", "does not end where it should"),
        (lambda frame: b"garbage" * 9, "cannot be decompressed"),
        (lambda frame: frame + frame, "end"),
    ],
)
def test_member_that_is_not_one_frame_is_refused(
    pack: Path, tmp_path: Path, spoil: Callable[[bytes], bytes], message: str
) -> None:
    contents = open_contents(pack)
    spoilt = spoil(zstandard.compress(contents["status.json"]))
    path = close_pack(
        pack, tmp_path / "evil.longplay", contents, {"status.json.zst": spoilt}
    )
    assert message in _refused(path, tmp_path / "in")


def test_run_larger_than_the_disk_is_refused(pack: Path, tmp_path: Path) -> None:
    sizes = {"events.jsonl": 2**60}
    path = close_pack(
        pack, tmp_path / "evil.longplay", open_contents(pack), sizes=sizes
    )
    assert "are free" in _refused(path, tmp_path / "in", OutputError)


def test_endless_run_stops_at_the_size_in_the_manifest(
    pack: Path, tmp_path: Path
) -> None:
    contents = open_contents(pack)
    config = json.loads(contents["config.json"])
    config["decision_interval"] = 2**40
    for visit in config["schedule"]:
        visit["visit_frames"] = 2**40
    contents["config.json"] = json.dumps(config).encode()
    path = close_pack(pack, tmp_path / "evil.longplay", contents)
    assert "replay gave more than the expected" in _refused(path, tmp_path / "in")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a[:-1], "do not fit its schedule"),
        (lambda a: a + b"\0", "1 of its answers were not used"),
        (lambda a: bytes([99]) + a[1:], "do not fit its schedule"),
        (
            lambda a: bytes([(a[0] + 1) % 18]) + a[1:],
            "did not reproduce what was packed",
        ),
        (lambda a: b"", "do not fit its schedule"),
    ],
)
def test_changed_answers_are_refused(
    pack: Path, tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    contents = open_contents(pack)
    contents["answers"] = change(contents["answers"])
    path = close_pack(pack, tmp_path / "evil.longplay", contents)
    assert message in _refused(path, tmp_path / "in")


def test_different_emulator_is_named_when_rows_do_not_match(
    pack: Path, tmp_path: Path
) -> None:
    contents = open_contents(pack)
    config = json.loads(contents["config.json"])
    config["versions"]["ale_py"] = "0.11.0"
    contents["config.json"] = json.dumps(config).encode()
    sha256 = {"events.jsonl": "0" * 64}
    path = close_pack(pack, tmp_path / "evil.longplay", contents, sha256=sha256)
    message = _refused(path, tmp_path / "in", CannotVerifyError)
    assert "ale-py 0.11.0" in message
    assert "0.12.1" in message


def _edit_manifest(pack: Path, target: Path, edit: Callable[[bytes], bytes]) -> Path:
    with tarfile.open(pack) as archive:
        parts = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    parts["manifest.json"] = edit(parts["manifest.json"])
    target.write_bytes(b"".join(render_archive(parts.items())))
    return target


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m.replace(b'"version": 2', b'"version": 3'), "a newer longplay"),
        (lambda m: m.replace(b'"version": 2', b'"version": "2"'), "version"),
        (lambda m: m.replace(b"longplay-pack", b"other-pack"), "format"),
        (lambda m: m.replace(b'"version": 2', b'"version":  2'), "not formatted"),
        (lambda m: m.replace(b'"events.jsonl"', b'"evil.jsonl"'), "does not list"),
        (lambda m: b"[" * 100_000, "not readable"),
        (lambda m: b"null\n", "format"),
        (lambda m: b"\xff", "not readable"),
        (lambda m: m + b" " * 2**20, "too many"),
    ],
)
def test_invalid_manifest_is_refused(
    pack: Path, tmp_path: Path, edit: Callable[[bytes], bytes], message: str
) -> None:
    path = _edit_manifest(pack, tmp_path / "evil.longplay", edit)
    assert message in _refused(path, tmp_path / "in")


# --- Targets --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
def test_existing_target_is_refused(pack: Path, tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    if kind == "folder":
        target.mkdir()
    elif kind == "file":
        target.write_bytes(b"mine")
    else:
        target.symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="exists"):
        unpack_run(pack, target)
    assert not (tmp_path / "nowhere").exists()


def test_target_in_a_missing_folder_is_refused(pack: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no such folder"):
        unpack_run(pack, tmp_path / "none" / "target")
    assert list(tmp_path.iterdir()) == []


# --- The command line -----------------------------------------------------------


def test_commands_pack_show_and_unpack(
    run: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    path, again = tmp_path / "run.longplay", tmp_path / "again"
    answer = invoke("pack", run, "-o", path, "--workers", 1, "--json")
    assert answer.exit_code == 0
    assert answer.json["bytes"] == path.stat().st_size
    shown, own = invoke("show", path), invoke("show", run)
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[:8] == own.stdout.splitlines()[:8]
    assert "run.longplay" in shown.stdout
    score = json.loads((run / "score.json").read_text())
    assert invoke("show", path, "--json").json["score"] == score
    assert invoke("unpack", path, "-o", again).exit_code == 0
    assert _read_folder(again) == _read_folder(run)


def test_verify_replays_a_pack(
    run: Path, pack: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    path = shutil.copy(pack, tmp_path / "run.longplay")
    answer = invoke("verify", path, "--workers", 1)
    assert answer.exit_code == 0
    assert "rows replayed, all identical to the log" in answer.stdout
    document = invoke("verify", path, "--workers", 1, "--json").json
    frames = json.loads((run / "run_summary.json").read_text())["frames"]
    assert (document["run_dir"], document["frames"]) == (str(path), frames)
    assert document["level"] == "replayed"
    assert [file.name for file in tmp_path.iterdir()] == ["run.longplay"]


def test_verify_finds_another_answer_in_a_pack(
    pack: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    contents = open_contents(pack)
    answers = contents["answers"]
    contents["answers"] = bytes([(answers[0] + 1) % 18]) + answers[1:]
    path = close_pack(pack, tmp_path / "forged.longplay", contents)
    answer = invoke("verify", path, "--workers", 1)
    assert answer.exit_code == 1
    assert "replay did not reproduce what was packed" in answer.stderr


def test_verify_finds_another_score_in_a_pack(
    pack: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    contents = open_contents(pack)
    score = json.loads(contents["score.json"])
    score["final_score"] += 1
    contents["score.json"] = json.dumps(score).encode()
    path = close_pack(pack, tmp_path / "forged.longplay", contents)
    answer = invoke("verify", path, "--workers", 1)
    assert answer.exit_code == 1
    assert "does not reproduce" in answer.stdout
    assert "final_score" in answer.stdout


@pytest.mark.parametrize("option", [("--visit", 0), ("--reexecute",)])
def test_verify_refuses_options_that_a_pack_cannot_answer(
    pack: Path, invoke: Callable[..., Any], option: tuple[Any, ...]
) -> None:
    answer = invoke("verify", pack, *option)
    assert answer.exit_code == 2
    assert f"{option[0]}: not with a packed run" in answer.stderr
    assert f"longplay unpack {pack}" in " ".join(answer.stderr.split())


def test_show_refuses_a_damaged_pack(
    pack: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    (tmp_path / "cut.longplay").write_bytes(pack.read_bytes()[:-700])
    answer = invoke("show", tmp_path / "cut.longplay")
    assert answer.exit_code == 1
    assert "not a valid pack" in answer.stderr


def test_pack_is_shown_without_an_emulator(pack: Path) -> None:
    code = (
        "import sys; sys.modules['ale_py'] = None\n"
        "from longplay.cli.app import app\n"
        f"app(['show', {str(pack)!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "centipede" in done.stdout
