"""metrics.jsonl: the metrics an agent reports, in windows of its decisions.

    {"global_frame_idx": …, "visit_idx": …, "<metric>": mean or null, …}

There is a row every 1,000 decisions of a visit and at the visit's end, for agents that
report metrics. The file is additive: outside the digest chain, and ignored by replay.
It is bit-identical for the same suite, seed and agent if the agent is deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from longplay.agents.metrics import Metrics
from longplay.contract.files import RowFile
from longplay.contract.rows import EventRow
from longplay.errors import AgentError

METRICS_FILE = "metrics.jsonl"
WINDOW_DECISIONS = 1000

_RESERVED = ("global_frame_idx", "visit_idx")
_encode = msgspec.json.Encoder().encode


def check_names(metrics: Mapping[str, object]) -> None:
    """Rejects the names of keys that every row has.

    Raises:
        AgentError: A metric has a reserved name.
    """
    for name in _RESERVED:
        if name in metrics:
            raise AgentError(
                f"metrics: {name!r} is reserved, because every row has this key"
            )


class MetricRows:
    """Rows of metrics.jsonl; the file appears with the first one.

    Attributes:
        last: The newest row's metrics.
    """

    def __init__(self, path: Path | None = None, size_bytes: int = 0) -> None:
        self._path = path
        self._size_bytes = size_bytes
        self._file: RowFile | None = None
        self._pending: list[bytes] = []
        self.last: Metrics = {}

    @classmethod
    def restore(cls, path: Path, size_bytes: int) -> MetricRows:
        """Continues a file; rows written after the checkpoint are cut off."""
        rows = cls(path, size_bytes)
        if size_bytes:
            rows._file = RowFile.reopen(path, size_bytes)
        else:
            path.unlink(missing_ok=True)
        return rows

    @property
    def size_bytes(self) -> int:
        """Length of the file."""
        return self._size_bytes

    def write(self, event: EventRow, metrics: Metrics) -> None:
        """Writes the metrics of the window that ends with a frame.

        Raises:
            AgentError: A metric has a reserved name.
        """
        if not metrics:
            return
        check_names(metrics)
        self.last = dict(metrics)
        place = {name: getattr(event, name) for name in _RESERVED}
        self._append(_encode({**place, **metrics}) + b"\n")

    def _append(self, row: bytes) -> None:
        if self._path is None:
            self._pending.append(row)
            return
        if self._file is None:
            self._file = RowFile.create(self._path)
        self._file.append(row)
        self._size_bytes = self._file.size_bytes

    def start_writing(self, path: Path) -> None:
        """Writes the pending rows, replacing the file of an earlier try."""
        self._path = path
        path.unlink(missing_ok=True)
        pending, self._pending = self._pending, []
        for row in pending:
            self._append(row)

    def sync(self) -> None:
        """Waits until every row written is on the disk."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
