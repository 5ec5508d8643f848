"""Values that several requests share, and what they raise if there are none."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

_Value = TypeVar("_Value")


class PageNotFoundError(Exception):
    """There is no such run, experiment or episode."""


class Kept(Generic[_Value]):
    """A few values by key, each with a lock; the least recently used one goes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._values: OrderedDict[Any, tuple[threading.Lock, list[_Value]]]
        self._values = OrderedDict()

    @contextmanager
    def hold(self, key: Any) -> Iterator[list[_Value]]:
        """A place for the value, empty at first; held by one thread at a time."""
        with self._lock:
            entry = self._values.setdefault(key, (threading.Lock(), []))
            self._values.move_to_end(key)
            while len(self._values) > self._most:
                self._values.popitem(last=False)
        lock, place = entry
        with lock:
            yield place
