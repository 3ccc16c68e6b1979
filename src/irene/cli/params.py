"""The options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DATA, ENSEMBLE, LOOP = "Data", "Ensemble", "Training of each member"


def sources(incomplete: str) -> list[tuple[str, str]]:
    from irene.data.sources import names

    found = [(name.replace("PATH", ""), words) for name, words in names()]
    return [(name, words) for name, words in found if name.startswith(incomplete)]


def _backbones(incomplete: str) -> list[tuple[str, str]]:
    from irene.models import backbones

    return [(name, words) for name, words in backbones().items() if name.startswith(incomplete)]


def _device(name: str) -> str:
    """Refuse a device that is not there, also where a command would not come to use it."""
    if name != "auto":
        from irene.devices import pick_device

        pick_device(name)
    return name


Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, everything else on stderr.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, as written by train, import or bank.")]
Source = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="SPEC",
        help="digits, diabetes, cifar10, cifar100, folder:PATH, npz:PATH or csv:PATH; `irene data` explains them.",
        autocompletion=sources,
        rich_help_panel=DATA,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(metavar="COLUMN", help="The column of a csv to predict.", rich_help_panel=DATA),
]
OwnTarget = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="COLUMN",
        help="The column of a csv to predict; by default the one that the run was trained to predict.",
        rich_help_panel=DATA,
    ),
]
TaskName = Annotated[
    str | None,
    typer.Option(
        "--task",
        metavar="TASK",
        help="classification or regression, if the targets do not show which.",
        rich_help_panel=DATA,
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(help="The folder that holds the CIFAR files; IRENE_DATA or ./data by default.", rich_help_panel=DATA),
]
Size = Annotated[
    int | None,
    typer.Option(
        metavar="PIXELS",
        help="Resize the images of a folder to this many pixels square; by default to their most frequent size.",
        rich_help_panel=DATA,
    ),
]
Readers = Annotated[
    int,
    typer.Option(
        metavar="COUNT",
        help="Processes that read the images of a folder which does not fit in memory; 0 is this one alone. Results "
        "are the same.",
        rich_help_panel=DATA,
    ),
]
Heldout = Annotated[
    str | None,
    typer.Option(
        metavar="SHARE|COUNT",
        help="Training samples to hold out from the members, to learn when to stop: a share such as 0.1, or a number. "
        "By default a fifth, or from 10,000 samples on a tenth, at most 5,000.",
        rich_help_panel=DATA,
    ),
]
Device = Annotated[
    str, typer.Option(callback=_device, help="auto, cpu, cuda or cuda:N; auto is a GPU if there is one.")
]
Point = Annotated[
    str | None,
    typer.Option(
        "--point",
        metavar="NAME",
        help="Stop as set at this operating point (`irene points` lists them); by default as the run was trained to.",
    ),
]
Members = Annotated[int | None, typer.Option(help="How many members; 3 by default.", rich_help_panel=ENSEMBLE)]
Backbone = Annotated[
    str | None,
    typer.Option(
        help="One backbone for all members: mlp, cnn, vgg8, resnet8 to resnet110, any of these with a width such as "
        "resnet18x0.25, timm/NAME or your module:function. By default mlp for tables, cnn for images below 28 "
        "pixels, else resnet32.",
        autocompletion=_backbones,
        rich_help_panel=ENSEMBLE,
    ),
]
Backbones = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,C",
        help="One backbone for each member, in the order in which they run: cheap ones first.",
        rich_help_panel=ENSEMBLE,
    ),
]
