"""The verbs of the command, and what its user is told when something goes wrong."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer
import typer.main

from irene import __version__
from irene.cli.bank import bank
from irene.cli.bench import bench
from irene.cli.calibrate import calibrate
from irene.cli.compare import compare
from irene.cli.data import data
from irene.cli.demo import demo
from irene.cli.doctor import doctor
from irene.cli.drift import drift
from irene.cli.evaluate import evaluate
from irene.cli.export import export
from irene.cli.import_ import import_
from irene.cli.methods import methods
from irene.cli.output import command, leads
from irene.cli.points import points
from irene.cli.predict import predict
from irene.cli.report import report
from irene.cli.study import study
from irene.cli.train import train
from irene.cli.tune import tune
from irene.cli.verb import Verb
from irene.errors import IreneError, first_line

DEBUG = "IRENE_DEBUG"
USER_MISTAKE, OUR_MISTAKE, INTERRUPTED = 2, 1, 130
_FULL = (errno.ENOSPC, errno.EDQUOT)  # a disk, or a user's share of it
# What typer raises for a wrong command line: its own click's error in recent versions, click's in older ones.
_UsageError = typer.BadParameter.__mro__[1]


def _unwrapped(text: str) -> str:
    """A docstring with a line for each paragraph, which help wraps to the width of the screen."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n")).strip()


app = typer.Typer(
    name="irene",
    help="Deep ensembles that stop early: as accurate as the whole ensemble, at a fraction of its cost.",
    epilog="Start with: irene demo",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
for verb, example in (
    (demo, "irene demo"),
    (train, "irene train irene --data digits --members 3 --cost 1.3 --out runs/mine"),
    (evaluate, "irene evaluate runs/mine --split test"),
    (calibrate, "irene calibrate runs/mine --max-drop 0.5%"),
    (points, "irene points runs/mine"),
    (drift, "irene drift runs/mine --point calibrated --data new.csv"),
    (predict, "irene predict runs/mine photo.png more/ --out answers.csv"),
    (export, "irene export runs/mine --format onnx --out exported"),
    (compare, "irene compare --methods all --data digits --seeds 3 --out runs/digits"),
    (study, "irene study pareto --data digits --seeds 3 --out runs/digits"),
    (bench, "irene bench runs/mine --out bench.svg"),
    (report, "irene report runs/one runs/two --out report.html"),
    (tune, "irene tune --data digits --cost 1.3 --trials 24 --out runs/tune"),
    (import_, "irene import --members small.onnx large.onnx --data npz:labelled.npz --out runs/mine"),
    (bank, "irene bank logits.npz --out runs/mine"),
    (data, "irene data csv:table.csv --target price"),
    (methods, "irene methods"),
    (doctor, "irene doctor"),
):
    name, words = verb.__name__.rstrip("_"), _unwrapped(verb.__doc__ or "")
    app.command(name, cls=Verb, help=words, epilog=f"Example: {example}")(verb)


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"irene {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; a user's mistake is one line on stderr and 2."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    verbs = typer.main.get_command(app)
    written = {"command": command(*given)}
    try:
        code = verbs.main(args=given, prog_name="irene", standalone_mode=False, obj=written)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:  # whoever read our stdout has seen enough
        _give_up_unwritten()
        return OUR_MISTAKE
    except Exception as error:
        if os.environ.get(DEBUG):
            traceback.print_exc()
        _give_up_unwritten()
        return _explain(error, given)
    if code == INTERRUPTED:
        return _fail("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def _give_up_unwritten() -> None:
    """Drop what stdout does not take: Python would try again at its end, and complain."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain(error: Exception, given: Sequence[str]) -> int:
    if isinstance(error, IreneError):
        return _fail(str(error), USER_MISTAKE)
    if isinstance(error, _UsageError):
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "irene"
        words = getattr(error, "format_message", error.__str__)()
        return _fail(f"{words} (see {where} --help)", USER_MISTAKE)
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f"{error.filename}: "
        remedy = f": {_after_making_room(given)}" if error.errno in _FULL else ""
        return _fail(f"{where}{error.strerror}{remedy}", USER_MISTAKE)
    kind = type(error).__name__
    # Of torch, on a GPU and on a CPU, and of numpy and Python.
    if kind == "OutOfMemoryError" or "can't allocate memory" in str(error) or isinstance(error, MemoryError):
        why = first_line(error) or kind
        return _fail(
            f"out of memory ({why}): take smaller batches, or fewer or smaller members", USER_MISTAKE, always=True
        )
    return _fail(f"unexpected {kind}: {error} (run again with {DEBUG}=1 to see where)", OUR_MISTAKE, always=True)


def _after_making_room(given: Sequence[str]) -> str:
    """How to go on with a command that a full disk has ended."""
    if given[:1] == ["train"] and "--resume" not in given:
        return "make room, then repeat the command with --resume and the --out of the run, to go on"
    return "make room, then repeat the command"


def _fail(message: str, code: int, *, always: bool = False) -> int:
    """Say one line; the processes that torchrun started beside the first would only repeat it."""
    if leads() or always:
        print(f"irene: {' '.join(message.splitlines())}", file=sys.stderr)
    return code
