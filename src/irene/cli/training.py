"""What `irene train` does with its flags."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from irene.cli import amounts
from irene.cli import options as given_options
from irene.cli.loading import Reading, load_data
from irene.cli.output import Output, leads, say
from irene.cli.tables import figures_table
from irene.errors import IreneError, OptionError
from irene.run import Run
from irene.training.method import Method
from irene.training.methods import find_method
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.schedules import Schedule
from irene.training.train import TrainOptions
from irene.training.train import train as train_run

ADAM_LR = 1e-3  # sgd's default of 0.1 would blow Adam up
PAPER_LOOP = LoopOptions(epochs=200, batch_size=128, optimizer=OptimizerOptions(schedule=Schedule(kind="multistep")))


@dataclass(frozen=True, kw_only=True)
class Flags:
    """What is trained and how, of the command line of `irene train` and `irene tune`; None is a flag not given."""

    method: str
    data: str | None
    reading: Reading
    heldout: str | None
    members: int | None
    backbone: str | None
    backbones: str | None
    seed: int
    device: str
    out: Path | None
    loop: Mapping[str, Any]  # by the name of the option, dotted where it lies within another
    own: Mapping[str, Any]
    settings: tuple[str, ...]


def run_training(
    flags: Flags, console: Console, *, resume: bool, tensorboard: bool, checkpoint_seconds: float, command: str
) -> Run:
    """Train as the flags say; a mistake in them leaves no trace on the disk."""
    spec = data_spec(flags)
    method = find_method(flags.method)
    own = method_options(method, flags)
    loop = loop_options(flags, own)
    options = train_options(method, flags)
    if resume and flags.out is None:
        raise OptionError("--resume needs the directory of the interrupted run: give --out")
    out = flags.out or default_out(flags.method, spec, flags.seed)
    data = load_data(spec, flags.reading)
    with removing_empty_folders(out):
        try:
            run = train_run(
                flags.method,
                data,
                out,
                options=options,
                loop=loop,
                method_options=own,
                resume=resume,
                console=console,
                tensorboard=tensorboard,
                checkpoint_seconds=checkpoint_seconds,
            )
        except KeyboardInterrupt:
            words = f"continue with the same command and --resume --out {shlex.quote(str(out))}"
            say(console, words)
            raise
    if leads() and "command" not in run.manifest:
        run.note_command(command)
    return run


def data_spec(flags: Flags) -> str:
    """The name of the data, which has to be given."""
    if flags.data is None:
        raise OptionError("give the data to train on, for example --data digits (`irene data` lists what there is)")
    return flags.data


def method_options(method: Method, flags: Flags) -> Any:
    """The method's own options, from its flags and from --set."""
    own = dict(flags.own)
    if own["cost"] is not None and amounts.is_time(own["cost"]):  # its own unit, as in `irene calibrate`
        own["cost"], own["cost_unit"] = amounts.cost(own["cost"], own["cost_unit"])
    given = given_options.given(own)
    for name, text in given_options.settings(flags.settings).items():
        if name in given:
            raise OptionError(f"{given[name][0]} and --set {name} are the same option: leave one of the two out")
        given[name] = (f"--set {name}", text)
    return given_options.apply(method.options(), given, method.name)


def loop_options(flags: Flags, own: Any) -> LoopOptions:
    """How each member is trained: as flags say, else as in the paper if that is the recipe, else by default."""
    base = PAPER_LOOP if getattr(own, "recipe", None) == "paper" else LoopOptions()
    given = given_options.given(flags.loop)
    if flags.loop["optimizer.kind"] == "adam":
        given.setdefault("optimizer.lr", ("--lr", str(ADAM_LR)))
    options: LoopOptions = given_options.apply(base, given, "the training of a member")
    return options


def train_options(method: Method, flags: Flags) -> TrainOptions:
    """What is trained and where: members, backbones, seed, device and readers."""
    named = given_options.backbones(flags.backbone, flags.backbones)
    if method.members is not None and flags.members not in (None, method.members):
        raise OptionError(f"{method.name} always has {method.members} member, got --members {flags.members}")
    if method.members is not None and len(named) > method.members:
        raise OptionError(
            f"{method.name} always has {method.members} member, got --backbones {','.join(named)}: give one"
        )
    several = len(named) if len(named) > 1 else TrainOptions.members
    return TrainOptions(
        members=several if flags.members is None else flags.members,
        backbones=named,
        heldout=given_options.share_or_count(flags.heldout),
        seed=flags.seed,
        device=flags.device,
        readers=flags.reading.readers,
    )


def default_out(method: str, spec: str, seed: int) -> Path:
    """runs/METHOD-DATA-seedN, with a number behind it if that is taken.

    Processes under torchrun all come to the same name: none is taken before all of them have met.
    """
    name = given_options.folder_name(method, spec, f"seed{seed}")
    path, number = Path("runs") / name, 2
    while path.exists():
        path, number = Path("runs") / f"{name}-{number}", number + 1
    return path


@contextmanager
def removing_empty_folders(out: Path) -> Iterator[None]:
    """Remove the folders that were made for a run if an error left them empty."""
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        yield
    except IreneError:
        with suppress(OSError):  # where one is not empty, those around it are not either
            for folder in made if leads() else ():
                if folder.exists():
                    folder.rmdir()
        raise


def show_run(run: Run, output: Output) -> None:
    """Say where the run is and what it achieves."""
    if not leads():
        return
    figures = run.figures
    value = {
        "run": str(run.path),
        "method": run.method,
        "task": run.task,
        "data": run.manifest["data"]["data"],
        "seed": run.manifest["seed"],
        "members": len(run.manifest["members"]),
        "seconds": run.manifest["seconds"],
        "notes": run.manifest["notes"],
        **figures,
    }

    def show(screen: Console) -> None:
        if figures:
            screen.print(figures_table(figures, title=f"{run.method} on {run.manifest['data']['data']}"))
        say(screen, f"\nrun written to {run.path}")

    output.result(value, show)
