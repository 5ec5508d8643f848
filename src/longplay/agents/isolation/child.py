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
import socket
import sys
from typing import Any

from longplay.agents.isolation import keeper, landlock, seccomp

BOOT = (
    "import json, os, sys; "
    "setup = json.load(open(sys.argv[1], encoding='utf-8')); os.unlink(sys.argv[1]); "
    "sys.path[:] = setup['sys_path']; "
    "from longplay.agents.isolation.child import main; main(setup)"
)

SOURCE_FIELDS = ("name", "spec", "module", "attribute", "file")


@dataclasses.dataclass(frozen=True)
class Setup:
    """Everything an agent's process gets at its start, as plain JSON.

    Attributes:
        sys_path: Where modules are found.
        requests, replies, frames: Descriptors of the agent.
        lifeline, status: Descriptors of the keeper.
        folder: An `AgentFolder`, which the keeper removes if the referee dies.
        rules: What Landlock allows; None for no sandbox.
        source: `SOURCE_FIELDS` of an `AgentSource`.
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
    keeper_end, agent_end = socket.socketpair()
    agent_pid = os.fork()
    if agent_pid:
        agent_end.close()
        for fd in (setup.requests, setup.replies, setup.frames):
            os.close(fd)
        # The descriptor of the filter; none without a sandbox.
        _, fds, _, _ = socket.recv_fds(keeper_end, 1, 1)
        keeper.keep(
            agent_pid,
            setup.lifeline,
            setup.status,
            setup.memory_bytes,
            setup.folder,
            fds[0] if fds else None,
        )
        os._exit(0)
    keeper_end.close()
    # The parent may have died before this took effect; then the pipes are closed.
    landlock.die_with_parent(signal.SIGKILL)
    landlock.set_dumpable(True)
    for fd in (setup.lifeline, setup.status):
        os.close(fd)
    _run_agent(setup, agent_end)


def _run_agent(setup: Setup, keeper_socket: socket.socket) -> None:
    os.setsid()  # signals to its own group do not reach the keeper
    for fd in (setup.requests, setup.replies, setup.frames):
        os.set_inheritable(fd, False)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    landlock.forbid_new_privileges()
    landlock.drop_capabilities()
    if setup.rules is not None:
        listener = _enter_sandbox(setup.rules)
        socket.send_fds(keeper_socket, [b"."], [listener])
        os.close(listener)
    keeper_socket.close()
    from longplay.agents.isolation.server import AgentServer

    AgentServer(setup).serve()
    os._exit(0)  # does not wait for the agent's threads


def _enter_sandbox(rules: list[tuple[str, str]]) -> int:
    """Returns the descriptor of the filter, for the keeper."""
    try:
        landlock.restrict_files(landlock.Rule(*rule) for rule in rules)
        return seccomp.install_filter()
    except landlock.SandboxError as error:
        # Nothing of the agent is imported: there is no sandbox without all of it.
        sys.exit(f"--isolate sandbox: {error}")
