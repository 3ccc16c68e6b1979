"""Processes that work side by side: how many there is room for, and that none outlives the one that started it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from multiprocessing.connection import wait


def cores() -> int:
    """The processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_with_parent() -> None:
    """Let a worker end when its parent says so or is gone, and not before.

    One whose parent was killed would go on writing runs that somebody else may have taken up again.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all of us; the parent ends us in order
    threading.Thread(target=_watch_parent, daemon=True).start()


def _watch_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
