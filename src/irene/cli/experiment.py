"""What `irene compare` and `irene study` share: what is trained, how and by whom, and what is said of missing runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from irene.cli.output import Output, say
from irene.cli.params import ENSEMBLE, LOOP, Backbone, Backbones, Device, Heldout, Root, Size, Source, Target, TaskName

if TYPE_CHECKING:
    from rich.console import Console

    from irene.evaluation.experiment import Done, Experiment

MACHINE = "Machine"
FAILED = 1  # the exit code where runs are missing

Folders = Annotated[list[Path] | None, typer.Argument(metavar="RUN", help="Existing runs; then nothing is trained.")]


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags of a training; None is one that was not given."""

    data: Source = None
    target: Target = None
    task: TaskName = None
    root: Root = None
    size: Size = None
    heldout: Heldout = None
    backbone: Backbone = None
    backbones: Backbones = None
    seeds: Annotated[
        int, typer.Option(help="How many runs of each kind, with seeds 0, 1, ...", rich_help_panel=ENSEMBLE)
    ] = 3
    device: Device = "auto"
    epochs: Annotated[
        int | None,
        typer.Option(
            help="Passes over the training samples; by default 20, or 15 for fewer than 10,000 samples.",
            rich_help_panel=LOOP,
        ),
    ] = None
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="Samples per step; by default 128, or 64 for fewer than 10,000 samples.", rich_help_panel=LOOP
        ),
    ] = None
    lr: Annotated[float | None, typer.Option(help="Learning rate; 0.1 by default.", rich_help_panel=LOOP)] = None
    compile: Annotated[bool, typer.Option("--compile", help="Train through torch.compile.", rich_help_panel=LOOP)] = (
        False
    )
    set: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD.NAME=VALUE",
            help="An option of a method, such as irene.cost=1.5; repeat the option for several.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            help="Runs trained in parallel; by default one per core, or one on a GPU.", rich_help_panel=MACHINE
        ),
    ] = None
    ray: Annotated[
        bool,
        typer.Option(
            "--ray",
            help="Train each run as a task of a Ray cluster whose machines can access --out.",
            rich_help_panel=MACHINE,
        ),
    ] = False


def with_flags(verb: Callable[..., None]) -> Callable[..., None]:
    """The verb with an option for each field of `Flags`, where it has a parameter `flags`."""
    types = get_type_hints(Flags, include_extras=True)
    shared = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=types[field.name])
        for field in fields(Flags)
    ]
    own = signature(verb, eval_str=True).parameters.values()
    taken = [one for parameter in own for one in (shared if parameter.name == "flags" else [parameter])]

    @wraps(verb)
    def taking(**given: Any) -> None:
        verb(flags=Flags(**{one.name: given.pop(one.name) for one in shared}), **given)

    taking.__dict__["__signature__"] = Signature(taken)
    taking.__annotations__ = {one.name: one.annotation for one in taken}
    return taking


def make_experiment(flags: Flags, out: Path | None, console: Console, command: str) -> Experiment:
    """The experiment the flags describe; its data is loaded here, so that a wrong name is heard of at once."""
    from irene.cli import options as given_options
    from irene.errors import OptionError
    from irene.evaluation import jobs
    from irene.evaluation.experiment import Experiment, default_loop

    if flags.data is None:
        raise OptionError("give runs to compare, or the data to train on, for example --data digits")
    backbones = given_options.backbones(flags.backbone, flags.backbones)
    described: dict[str, Any] = {"task": flags.task}  # `load` says what a task may be
    source = jobs.Source(spec=flags.data, target=flags.target, root=flags.root, size=flags.size, **described)
    loop = default_loop(source.load())
    asked = {
        "epochs": flags.epochs,
        "batch_size": flags.batch_size,
        "optimizer.lr": flags.lr,
        "compile": flags.compile or None,
    }
    return Experiment(
        data=source,
        out=out or Path("runs") / given_options.folder_name(flags.data),  # which experiments on it share
        seeds=flags.seeds,
        backbones=backbones,
        heldout=given_options.share_or_count(flags.heldout),
        device=flags.device,
        loop=given_options.apply(loop, given_options.given(asked), "the training of a member"),
        workers=flags.workers,
        ray=flags.ray,
        console=console,
        command=command,
    )


def member_count(experiment: Experiment, otherwise: int) -> int:
    """How many members, where --members does not say: one for each of several backbones."""
    return len(experiment.backbones) if len(experiment.backbones) > 1 else otherwise


def own_options(settings: Sequence[str] | None) -> dict[str, Any]:
    """The options of methods, by method, from METHOD.NAME=VALUE."""
    from irene.cli import options as given_options
    from irene.errors import OptionError
    from irene.training.methods import find_method

    given: dict[str, dict[str, tuple[str, str]]] = {}
    for key, text in given_options.settings(settings or ()).items():
        name, dot, option = key.partition(".")
        if not dot:
            raise OptionError(f"--set takes METHOD.NAME=VALUE, such as irene.cost=1.5, got {key}={text}")
        given.setdefault(name, {})[option] = (f"--set {key}", text)
    return {name: given_options.apply(find_method(name).options(), its, name) for name, its in given.items()}


def refuse_training(flags: Flags, **more: object) -> None:
    """Refuse flags of a training where runs that exist are given; `more` are those of a single verb."""
    from irene.cli import options as given_options
    from irene.errors import OptionError

    switches = {"compile": flags.compile or None, "ray": flags.ray or None}
    asked = {**more, **vars(flags), **switches, "seeds": None, "device": None}
    for flag, _ in given_options.given(asked).values():
        raise OptionError(f"{flag} is for training, and runs that exist are not trained: leave one or the other out")


def tell(done: Done, output: Output) -> None:
    """Say which runs are missing, and why."""
    alike: dict[str, list[str]] = {}
    for name, reason in done.left_out().items():
        alike.setdefault(reason, []).append(name)
    for reason, names in alike.items():
        say(output.console, f"left out: {', '.join(names)}: {reason}")
    for name, reason in done.lost().items():
        words = f"{name} is missing: {reason}; the same command goes on with it"
        say(output.console, words)
