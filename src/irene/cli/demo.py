"""`irene demo`: train small ensembles on bundled data and compare them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from irene.cli.output import speaking, typed
from irene.cli.params import Device, Json


def demo(
    context: typer.Context,
    out: Annotated[
        Path, typer.Option(help="Where the runs and the report go; an earlier demo there is replaced.")
    ] = Path("runs/demo"),
    seed: Annotated[
        int, typer.Option(help="Random seed of the initial weights, the order of samples, and which are held out.")
    ] = 0,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Train small ensembles on bundled handwritten digits and compare them, in under 3 minutes."""
    from irene.cli.tables import figures_table
    from irene.evaluation.demo import run_demo

    with speaking(json) as output:
        result = run_demo(
            out,
            seed=seed,
            device=device,
            command=typed(context) or "irene demo",
            console=output.console,
        )
        table = figures_table(result.rows, title="Handwritten digits, test samples")
        value = {
            "runs": {name: str(path) for name, path in result.runs.items()},
            "report": str(result.report),
            "seconds": result.seconds,
            "test": result.rows,
            "next": [command for command, _ in result.next],
        }

        def show(screen: Console) -> None:
            screen.print(table)
            screen.print(f"\n{result.headline}", markup=False, highlight=False)
            screen.print(f"Took {result.seconds:.0f} s. Open {result.report} in a browser. Next, try:", highlight=False)
            for command, words in result.next:
                screen.print(f"  {command}", style="bold", highlight=False, markup=False, soft_wrap=True)
                screen.print(f"      {words}", highlight=False)

        output.result(value, show)
