"""The works that a pass has claimed and not finished recording."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Container, Iterable

from resources.catalog.rows import QueueItem


class OpenWorks:
    """The dispatcher adds works, the recorder's thread removes them when their commit has returned. `claimed` are those whose
    search has not begun; it is the dispatcher's alone."""

    def __init__(self) -> None:
        self.claimed: deque[QueueItem] = deque()
        self._open: Counter[str] = Counter()  # a work that was taken over and claimed again is open twice
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def __contains__(self, work_id: object) -> bool:
        return work_id in self._open

    def ids(self) -> set[str]:
        with self._lock:
            return set(self._open)

    def add(self, items: Iterable[QueueItem]) -> None:
        with self._lock:
            self._open.update(item.work_id for item in items)

    def remove(self, work_ids: Iterable[str]) -> None:
        with self._lock:
            for work_id in work_ids:
                self._open[work_id] -= 1
                if self._open[work_id] <= 0:
                    del self._open[work_id]

    def take_claimed(self, most: int) -> list[QueueItem]:
        return [self.claimed.popleft() for _ in range(min(most, len(self.claimed)))]

    def drop_claimed(self, work_ids: Container[str]) -> list[QueueItem]:
        """Take those of these works whose search has not begun."""
        dropped = [item for item in self.claimed if item.work_id in work_ids]
        self.claimed = deque(item for item in self.claimed if item.work_id not in work_ids)
        return dropped
