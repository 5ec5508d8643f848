"""The agent's process: its start, the sandbox, and the agent's server.

The referee starts `python -I -S -c BOOT FILE`, where FILE holds a `Setup` as JSON. The
process forks: the parent becomes the keeper, the child drops its privileges, enters the
sandbox, and only then imports NumPy and the agent. From there on it answers requests
until the pipe closes.

Only the standard library is imported at the top, because the sandbox comes first.
"""

from __future__ import annotations

import dataclasses
import os
import resource
import signal
from typing import Any

from longplay.agents.isolation import keeper, landlock, seccomp

BOOT = (
    "import json, os, sys; "
    "setup = json.load(open(sys.argv[1], encoding='utf-8')); os.unlink(sys.argv[1]); "
    "sys.path[:] = setup['sys_path']; "
    "from longplay.agents.isolation.child import main; main(setup)"
)


@dataclasses.dataclass(frozen=True)
class Setup:
    """Everything an agent's process gets at its start, as plain JSON.

    Attributes:
        sys_path: Where modules are found.
        requests, replies, frames: Descriptors of the agent.
        lifeline, status: Descriptors of the keeper.
        folder: The agent's own folder; the agent's files are in its folder `files`.
        rules: What Landlock allows; None for no sandbox.
        source: Name, spec, module, attribute and file of an `AgentSource`.
        files: Paths of its files; None for built-in agents.
        modules, namespaces: As in `AgentFiles`.
        unlisted: Modules beside the agent that are not among its files.
        agent_args: Arguments the agent is built with.
        memory_bytes: The limit of resident memory.
    """

    sys_path: list[str]
    requests: int
    replies: int
    frames: int
    lifeline: int
    status: int
    folder: str
    rules: list[tuple[str, str]] | None
    source: dict[str, Any]
    files: list[str] | None
    modules: dict[str, str]
    namespaces: dict[str, str]
    unlisted: list[str]
    agent_args: dict[str, Any]
    memory_bytes: int | None


def main(given: dict[str, Any]) -> None:
    """Forks into the keeper and the agent."""
    setup = Setup(**given)
    landlock.become_subreaper()
    landlock.set_dumpable(False)
    agent_pid = os.fork()
    if agent_pid:
        for fd in (setup.requests, setup.replies, setup.frames):
            os.close(fd)
        keeper.keep(
            agent_pid,
            setup.lifeline,
            setup.status,
            setup.memory_bytes,
            setup.folder,
        )
        os._exit(0)
    # The parent may have died before this took effect; then the pipes are closed.
    landlock.die_with_parent(signal.SIGKILL)
    landlock.set_dumpable(True)
    for fd in (setup.lifeline, setup.status):
        os.close(fd)
    _run_agent(setup)


def _run_agent(setup: Setup) -> None:
    for fd in (setup.requests, setup.replies, setup.frames):
        os.set_inheritable(fd, False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    landlock.forbid_new_privileges()
    landlock.drop_capabilities()
    if setup.rules is not None:
        landlock.restrict_files(landlock.Rule(*rule) for rule in setup.rules)
        seccomp.install_filter()
    from longplay.agents.isolation.server import AgentServer

    AgentServer(setup).serve()
    os._exit(0)  # does not wait for the agent's threads
