"""What `irene tune` does with its flags."""

from __future__ import annotations

from rich.console import Console

from irene.cli.loading import load_data
from irene.cli.options import given, settings, share_or_count
from irene.cli.output import Output, command, say
from irene.cli.tables import pairs
from irene.cli.training import Flags, data_spec, loop_options, method_options, train_options
from irene.errors import OptionError
from irene.training.methods import find_method
from irene.training.search.trial import SEARCHED, TuneOptions
from irene.training.search.trials import load_optuna
from irene.training.search.tune import Tuned, tune


def run_search(flags: Flags, *, trials: int, workers: int, validation: str | None, console: Console) -> Tuned:
    """Search as the flags say."""
    spec = data_spec(flags)
    assert flags.out is not None  # it has a default
    load_optuna()  # without it nothing is begun
    method = find_method(flags.method)
    own = method_options(method, flags)
    for name in settings(flags.settings):
        if name in SEARCHED:
            raise OptionError(f"--set {name} is what is searched for: leave it out")
    return tune(
        load_data(spec, flags.reading),
        flags.out,
        options=TuneOptions(trials=trials, workers=workers, validation=share_or_count(validation, "--validation")),
        train=train_options(method, flags),
        loop=loop_options(flags, own),
        own=own,
        console=console,
    )


def show_tuned(flags: Flags, tuned: Tuned, output: Output) -> None:
    """Say what was best, what decides, and how to train with it."""
    to_train = train_command(flags, tuned)
    lines = [
        ("trials", ", ".join(f"{count} {state}" for state, count in tuned.trials.items())),
        ("best", f"{tuned.value:.4f} (standard error {tuned.standard_error:.4f}) in {tuned.run}"),
        *((name, f"{value:.4g}") for name, value in tuned.parameters.items()),
        *((f"decides: {name}", f"{share:.0%}") for name, share in tuned.importances.items()),
    ]
    if tuned.picture is not None:
        lines.append(("picture", str(tuned.picture)))
    table = pairs(lines, title=f"search in {flags.out}")
    value = {
        "out": str(flags.out),
        "trials": tuned.trials,
        "best": {
            "value": tuned.value,
            "standard_error": tuned.standard_error,
            "parameters": tuned.parameters,
            "run": str(tuned.run),
        },
        "importances": tuned.importances,
        "picture": None if tuned.picture is None else str(tuned.picture),
        "train": to_train,
    }

    def show(screen: Console) -> None:
        screen.print(table)
        say(screen, f"\ntrain with it: {to_train}")

    output.result(value, show)


def train_command(flags: Flags, tuned: Tuned) -> str:
    """The command that trains with what was found, on all training samples."""
    asked: dict[str, object] = {
        "data": flags.data,
        **vars(flags.reading),
        "heldout": flags.heldout,
        "members": flags.members,
        "backbone": flags.backbone,
        "backbones": flags.backbones,
        "seed": flags.seed,
        **flags.loop,
        **flags.own,
    }
    words = ["train", "irene"]
    for flag, text in given(asked).values():
        words += [flag, text]
    for setting in (*flags.settings, *(f"{name}={value:.4g}" for name, value in tuned.parameters.items())):
        words += ["--set", setting]
    return command(*words)
