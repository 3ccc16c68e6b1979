"""Batches from a source that may be slow: it is read on a thread of its own, so that waiting can end."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

_LOOK = 0.05  # seconds after which the thread looks whether its items are still wanted


def in_time(source: Iterable[Any], seconds_left: Callable[[], float | None]) -> Iterator[Any]:
    """The items of a source, and None whenever none has come for `seconds_left()` seconds."""
    ready: queue.Queue[tuple[bool, Any]] = queue.Queue(1)
    left = threading.Event()

    def put(item: tuple[bool, Any]) -> bool:
        while not left.is_set():
            try:
                ready.put(item, timeout=_LOOK)
            except queue.Full:
                continue
            return True
        return False

    def read() -> None:
        try:
            for one in source:
                if not put((True, one)):
                    return
        except BaseException as error:  # raised again where the items are read
            put((False, error))
        else:
            put((False, None))

    threading.Thread(target=read, daemon=True, name="irene-arrivals").start()
    try:
        while True:
            try:
                more, item = ready.get(timeout=seconds_left())
            except queue.Empty:
                yield None
                continue
            if not more:
                if item is not None:
                    raise item
                return
            yield item
    finally:
        left.set()
