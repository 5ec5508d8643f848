"""Detects an agent that forks this process, whose copy then continues the run.

The copy would write the same files. It ends at its first write, and tells the original
process, whose run fails. Processes that an agent starts and ends itself are fine.
"""

from __future__ import annotations

import mmap
import os

from longplay.errors import AgentError


class ForkGuard:
    """Belongs to the process that made it."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._shared = mmap.mmap(-1, 1)  # also by copies of this process

    def check(self) -> None:
        """Ends a copy of the process.

        Raises:
            AgentError: In the original, if a copy was found.
        """
        if os.getpid() != self._pid:
            self._shared[0] = 1
            os._exit(1)
        if self._shared[0]:
            raise AgentError(
                "the agent forked this process, and the copy returned from its step; "
                "a child process must end itself"
            )
