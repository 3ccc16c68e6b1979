"""Samples that wait at a stage, in order of arrival."""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


class Queue:
    """Ascending numbers of samples, put in and taken out many at a time."""

    def __init__(self) -> None:
        self._chunks: deque[Numbers] = deque()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def head(self) -> int:
        """The oldest number."""
        return int(self._chunks[0][0])

    def push(self, numbers: Numbers) -> None:
        """Put numbers in, all of them later than those inside."""
        if len(numbers):
            self._chunks.append(numbers)
            self._length += len(numbers)

    def pop(self, most: int) -> Numbers:
        """Take out the oldest numbers, at most so many."""
        taken: list[Numbers] = []
        room = min(most, self._length)
        self._length -= room
        while room:
            chunk = self._chunks.popleft()
            if len(chunk) > room:
                self._chunks.appendleft(chunk[room:])
                chunk = chunk[:room]
            taken.append(chunk)
            room -= len(chunk)
        return np.concatenate(taken)
