"""The files of an agent: which they are, their hash, and how they are imported."""

from __future__ import annotations

import hashlib
import json
import os
import py_compile
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longplay.agents.source.closure import (
    AgentFiles,
    collect_folder_files,
    collect_module_files,
    list_imports,
)
from longplay.agents.source.imports import AgentModules
from longplay.agents.source.loading import LoadedAgent, load_agent
from longplay.errors import AgentLoadError
from playing import play_run

AGENT = """
class Agent:
    def __init__(self, num_actions, seed):
        pass
    def step(self, obs_rgb, reward, terminated, truncated, info):
        return {answer}
"""

Write = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def clean_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Every test starts and ends without an agent's modules."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)
    yield
    if AgentModules._active is not None:
        AgentModules._active.forget()
    for name in set(sys.modules) - set(before):
        module = sys.modules[name]
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        # Others stay: an extension module must not be loaded twice in a process.
        if any(place and place.startswith(str(tmp_path)) for place in places):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, text: str = "") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def paths_of(files: AgentFiles | None) -> list[str]:
    assert files is not None
    return [file.path for file in files.files]


def answer_of(loaded: LoadedAgent) -> object:
    info = {"is_decision_frame": True}
    return loaded.build(7).step(np.zeros(1, np.uint8), 0.0, False, False, info)


# --- import statements ------------------------------------------------------------

IMPORTS = [
    ("import a, b.c as d", "", ["a", "b.c"]),
    ("from a import b, c", "", ["a", "a.b", "a.c"]),
    ("def f():\n    if 1:\n        import a", "", ["a"]),
    ("from . import x", "p.q", ["p.q", "p.q.x"]),
    ("from .y import x", "p.q", ["p.q.y", "p.q.y.x"]),
    ("from ..y import x", "p.q", ["p.y", "p.y.x"]),
    ("from ...y import x", "p.q", []),  # Python refuses it
    ("from . import x", "", []),
    ("import a\nimport a", "", ["a"]),
    ("import (", "", []),  # raises when it is executed
    ("\0", "", []),
    ("x = " + "(" * 5000, "", []),
    ("# coding: no-such-codec\nimport a", "", []),
]


@pytest.mark.parametrize(("source", "package", "expected"), IMPORTS)
def test_imports_of_a_source(source: str, package: str, expected: list[str]) -> None:
    assert list_imports(source.encode(), package) == expected


# --- folders ----------------------------------------------------------------------


def test_closure_of_a_file(write: Write) -> None:
    entry = write("agent.py", "import one\nimport lab.net\nimport json, numpy\n")
    write("one.py", "def f():\n    from two import x\n")
    write("two.py", "x = 1")
    write("lab/__init__.py", "from .core import base")
    write("lab/core/base.py", "from ..tools import tool")  # a folder without __init__
    write("lab/tools.py", "")
    write("lab/net.py", "")
    write("lab/unused.py", "")
    write("unused.py", "")
    files = collect_folder_files(entry)
    assert paths_of(files) == [
        "agent.py",
        "lab/__init__.py",
        "lab/core/base.py",
        "lab/net.py",
        "lab/tools.py",
        "one.py",
        "two.py",
    ]
    assert files.modules["lab.core.base"] == "lab/core/base.py"
    assert dict(files.namespaces) == {"lab.core": "lab/core"}


def test_hash_of_the_list_by_hand(write: Write) -> None:
    entry = write("agent.py", "import one\n")
    write("one.py", "x = 1\n")
    first = hashlib.sha256(b"import one\n").hexdigest()
    second = hashlib.sha256(b"x = 1\n").hexdigest()
    text = (
        f'[{{"path":"agent.py","sha256":"{first}"}},'
        f'{{"path":"one.py","sha256":"{second}"}}]'
    )
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert collect_folder_files(entry).sha256 == digest


def test_folder_of_data_is_not_a_package(write: Write) -> None:
    entry = write("agent.py", "import numpy, wandb\n")
    write("numpy/weights.npz")
    write("wandb/run-1/log.txt")
    files = collect_folder_files(entry)
    assert paths_of(files) == ["agent.py"]
    assert not files.modules and not files.namespaces


def test_standard_library_and_longplay_are_never_part_of_an_agent(
    write: Write,
) -> None:
    entry = write("agent.py", "import random, longplay.errors, json.decoder\n")
    for name in ("random.py", "longplay/__init__.py", "json/decoder.py"):
        write(name, "raise SystemExit")
    assert paths_of(collect_folder_files(entry)) == ["agent.py"]


def test_modules_may_import_each_other(write: Write) -> None:
    entry = write("agent.py", "import one")
    write("one.py", "import two, agent")
    write("two.py", "import one")
    assert paths_of(collect_folder_files(entry)) == ["agent.py", "one.py", "two.py"]


def test_patterns_add_files_and_folders(write: Write) -> None:
    entry = write("agent.py")
    write("weights/a.npz", "a")
    write("weights/deep/b.npz", "b")
    write("weights/__pycache__/c.pyc", "c")
    write("plugin_x.py", "import helper")
    write("helper.py")
    files = collect_folder_files(entry, ["weights", "plugin_*.py"])
    assert paths_of(files) == [
        "agent.py",
        "helper.py",
        "plugin_x.py",
        "weights/a.npz",
        "weights/deep/b.npz",
    ]
    assert set(files.modules) == {"plugin_x", "helper"}
    assert files.get("weights/a.npz").sha256 == hashlib.sha256(b"a").hexdigest()


REFUSED_PATTERNS = [
    ("nothing*", "--agent-files nothing.*: expected a pattern that matches a file"),
    ("/etc/passwd", "--agent-files /etc/passwd: expected a pattern inside the agent's"),
    ("../*", r"--agent-files \.\./\*: expected a pattern inside the agent's folder"),
    ("", "--agent-files : expected a pattern inside the agent's folder"),
]


@pytest.mark.parametrize(("pattern", "message"), REFUSED_PATTERNS)
def test_refused_pattern(pattern: str, message: str, write: Write) -> None:
    write("elsewhere.txt")
    entry = write("folder/agent.py")
    with pytest.raises(AgentLoadError, match=message):
        collect_folder_files(entry, [pattern])


@pytest.mark.parametrize("agent", ["random", "json:loads"])
def test_pattern_for_an_agent_without_files_is_refused(agent: str) -> None:
    with pytest.raises(AgentLoadError, match=r"--agent-files: .* has no other files"):
        load_agent(agent, agent_files=["*"])


# --- packages ---------------------------------------------------------------------


def test_closure_of_a_module_stays_in_its_package(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("lab/__init__.py")
    write("lab/agents.py", "from lab.net import x\nimport beside")
    write("lab/net.py", "x = 1")
    write("lab/data/w.npz", "w")
    write("beside.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    files = collect_module_files("lab.agents", ["lab/data/*"])
    assert paths_of(files) == [
        "lab/__init__.py",
        "lab/agents.py",
        "lab/data/w.npz",
        "lab/net.py",
    ]
    assert "lab" not in sys.modules


def test_closure_of_a_plain_module_is_its_folder_unless_installed(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("my_plain_module.py", "import beside_it")
    write("beside_it.py")
    write("site-packages/my_installed_module.py", "import also_installed")
    write("site-packages/also_installed.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "site-packages"))
    plain = collect_module_files("my_plain_module")
    assert paths_of(plain) == ["beside_it.py", "my_plain_module.py"]
    installed = collect_module_files("my_installed_module")
    assert paths_of(installed) == ["my_installed_module.py"]


@pytest.mark.parametrize("module", ["json", "longplay.agents.random", "no_such_one"])
def test_modules_without_files_of_their_own(module: str) -> None:
    assert collect_module_files(module) is None


# --- what is imported is what was hashed ------------------------------------------


def test_config_of_one_file_several_files_and_a_module(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    alone = load_agent(str(write("alone.py", AGENT.format(answer=1))))
    assert set(alone.entry.config) == {"_type", "args", "file", "source_sha256"}
    write("one.py", "ANSWER = 2")
    several = load_agent(
        str(write("several.py", "import one" + AGENT.format(answer="one.ANSWER")))
    )
    assert several.files is not None
    assert several.entry.config["files_sha256"] == several.files.sha256
    module = load_agent("alone:Agent")
    assert module.files is not None
    assert module.entry.config == {
        "_type": "alone.Agent",
        "args": {},
        "files_sha256": module.files.sha256,
    }
    assert load_agent("random").agent_files is None


def test_changed_neighbour_is_a_different_agent(write: Write) -> None:
    entry = str(write("agent.py", "import one" + AGENT.format(answer="one.ANSWER")))
    ids, answers = set(), []
    for answer in (2, 3):
        write("one.py", f"ANSWER = {answer}")
        loaded = load_agent(entry)
        ids.add(loaded.entry.agent_id)
        answers.append(answer_of(loaded))
    assert (len(ids), answers) == (2, [2, 3])


def test_compiled_files_are_neither_read_nor_written(
    write: Write, tmp_path: Path
) -> None:
    neighbour = write("one.py", "ANSWER = 7")
    py_compile.compile(str(neighbour))  # for a source of this size and time
    (cached,) = tmp_path.rglob("*.pyc")
    stale, times_ns = cached.read_bytes(), neighbour.stat().st_mtime_ns
    write("one.py", "ANSWER = 2")
    os.utime(neighbour, ns=(times_ns, times_ns))
    entry = write("agent.py", "import one" + AGENT.format(answer="one.ANSWER"))
    assert answer_of(load_agent(str(entry))) == 2
    assert [path.read_bytes() for path in tmp_path.rglob("*.pyc")] == [stale]


def test_file_that_changes_while_it_is_imported_is_refused(
    write: Write, tmp_path: Path
) -> None:
    source = (
        "from pathlib import Path\nimport one\n"
        "Path(__file__).with_name('one.py').write_text('ANSWER = 3')\n"
        + AGENT.format(answer="one.ANSWER")
    )
    write("one.py", "ANSWER = 2")
    with pytest.raises(AgentLoadError, match=r"one\.py: it changed while the agent"):
        load_agent(str(write("agent.py", source)))


def test_module_hashed_is_module_executed(write: Write, tmp_path: Path) -> None:
    source = (
        "from pathlib import Path\n"
        "place = Path(__file__).with_name('one.py')\n"
        "was = place.read_text(); place.write_text('ANSWER = 3')\n"
        "import one\nplace.write_text(was)\n" + AGENT.format(answer="one.ANSWER")
    )
    write("one.py", "ANSWER = 2")
    assert answer_of(load_agent(str(write("agent.py", source)))) == 2


COMPUTED_IMPORTS = [
    ("import importlib; importlib.import_module('plug' + 'in')", "plugin"),
    ("import lab; __import__('lab.' + 'extra')", "lab/extra"),
]


@pytest.mark.parametrize(("statement", "path"), COMPUTED_IMPORTS)
def test_computed_import_of_a_neighbour_names_the_flag(
    statement: str, path: str, write: Write
) -> None:
    write("plugin.py")
    write("lab/__init__.py")
    write("lab/extra.py")
    entry = str(write("agent.py", statement + AGENT.format(answer=1)))
    hint = rf"ModuleNotFoundError: No module named .* --agent-files '{path}\*'"
    with pytest.raises(AgentLoadError, match=hint):
        load_agent(entry)
    assert answer_of(load_agent(entry, agent_files=[f"{path}*"])) == 1


def test_missing_module_keeps_its_message(write: Write) -> None:
    entry = str(write("agent.py", "import no_such_module_anywhere"))
    with pytest.raises(AgentLoadError) as caught:
        load_agent(entry)
    assert "No module named 'no_such_module_anywhere' (agent.py:1)" in str(caught.value)


def test_each_agent_has_its_own_neighbours(write: Write) -> None:
    lazy = (
        "class Agent:\n"
        "    def __init__(self, num_actions, seed): pass\n"
        "    def step(self, *percept):\n"
        "        import one, late\n"
        "        return one.ANSWER + late.ANSWER\n"
    )
    loaded = []
    for folder, answer in (("a", 2), ("b", 5)):
        write(f"{folder}/one.py", f"ANSWER = {answer}")
        write(f"{folder}/late.py", f"ANSWER = 10 * {answer}")
        loaded.append(load_agent(str(write(f"{folder}/agent.py", lazy))))
    assert [answer_of(agent) for agent in (*loaded, *loaded)] == [22, 55, 22, 55]


def test_resources_of_a_package_are_found(write: Write) -> None:
    write("lab/__init__.py")
    write("lab/answer.txt", "4")
    source = (
        "import importlib.resources, lab\n"
        "TEXT = importlib.resources.files(lab).joinpath('answer.txt').read_text()\n"
    )
    entry = write("agent.py", source + AGENT.format(answer="int(TEXT)"))
    assert answer_of(load_agent(str(entry), agent_files=["lab/*.txt"])) == 4


def test_neighbour_named_like_an_imported_module_is_refused(write: Write) -> None:
    write("msgspec.py")
    entry = str(write("agent.py", "import msgspec" + AGENT.format(answer=1)))
    with pytest.raises(AgentLoadError, match="imported another module 'msgspec', from"):
        load_agent(entry)
    import msgspec

    assert msgspec.Struct


def test_module_of_the_calling_program_is_reused(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("shared_settings.py", "ANSWER = 2")
    monkeypatch.syspath_prepend(str(tmp_path))
    import shared_settings  # type: ignore[import-not-found]

    shared_settings.ANSWER = 6
    source = "import shared_settings" + AGENT.format(answer="shared_settings.ANSWER")
    assert answer_of(load_agent(str(write("agent.py", source)))) == 6


def test_files_are_listed_in_config_json(write: Write, tmp_path: Path) -> None:

    write("one.py", "ANSWER = 2")
    write("weights.txt", "w")
    entry = write("agent.py", "import one" + AGENT.format(answer="one.ANSWER"))
    result = play_run(
        "stream-smoke-v1",
        str(entry),
        out=tmp_path / "out",
        overrides={"games": ["pong"], "num_cycles": 1, "base_visit_frames": 20},
        agent_files=["*.txt"],
    )
    config: Any = json.loads((result.run_dir / "config.json").read_bytes())
    listed = config["agent_files"]
    assert [file["path"] for file in listed] == ["agent.py", "one.py", "weights.txt"]
    assert listed[2]["sha256"] == hashlib.sha256(b"w").hexdigest()
    assert str(tmp_path) not in json.dumps(listed)
    episode = json.loads((result.run_dir / "episode_config.json").read_bytes())
    assert episode["agent_files"] == ["*.txt"]
