"""Where a verb's words go: its result to stdout, for people or as one JSON object, all else to stderr."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import typer
from rich.console import Console

from irene.files import as_json


def leads() -> bool:
    """Whether this process is the one that speaks: under torchrun, the first of them."""
    return os.environ.get("RANK", "0") == "0"


def command(*words: object) -> str:
    """A command to be copied: names with spaces are quoted."""
    return shlex.join(["irene", *map(str, words)])


def typed(context: typer.Context) -> str:
    """The command as it was typed, for the record of a run."""
    return str((context.obj or {}).get("command", ""))


def say(console: Console, words: str) -> None:
    """Print words as they are: names come from users and are no markup, and lines to be copied must not be broken."""
    console.print(words, markup=False, highlight=False, soft_wrap=True)


class Output:
    """Where a verb prints: its result to stdout, and all else to stderr, also what libraries print meanwhile."""

    def __init__(self, *, json_wanted: bool) -> None:
        self.json_wanted = json_wanted
        self.console = Console(stderr=True, quiet=not leads())  # progress, notes and remarks
        self.stdout = sys.stdout
        self.screen = Console(file=self.stdout, quiet=not leads())  # the result, for people

    def warn(self, words: str) -> None:
        """Say, beside the result, what may make it wrong."""
        say(self.console, f"warning: {words}")

    def result(self, value: dict[str, Any], show: Callable[[Console], None]) -> None:
        """Say what came out: `value` as one line of JSON, or whatever `show` draws."""
        if not leads():
            return
        if self.json_wanted:
            print(json.dumps(as_json(value), allow_nan=False), file=self.stdout, flush=True)
        else:
            show(self.screen)


@contextmanager
def speaking(json_wanted: bool) -> Iterator[Output]:
    """The output of a verb, with stdout kept clean for its result."""
    output = Output(json_wanted=json_wanted)
    with redirect_stdout(sys.stderr):
        yield output
