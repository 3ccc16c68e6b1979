"""`irene bench`: how fast a run's cascade is, beside what is possible."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from irene.cli.output import say, speaking
from irene.cli.params import Device, Json, Point, RunFolder

QUICK = {"batches": (1, 8), "backends": ("eager",), "seconds": 0.0, "samples": 16, "stream_batches": 4}


def bench(
    folder: RunFolder,
    batch: Annotated[
        list[int] | None,
        typer.Option(min=1, help="A batch size; repeat the option for several. By default 1, 4, 16, ... 4096."),
    ] = None,
    backend: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME[:PRECISION]",
            help="What runs the members: eager, compile:bf16, onnx:int8, ...; repeat the option for several. By "
            "default all that are installed.",
        ),
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Mean members per sample; by default as on the run's test samples, or as expected of the operating "
            "point. A run that never stops early gets a policy that does.",
        ),
    ] = None,
    point: Point = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0, help="How long each mode is timed at each batch size; by default 1, 0 with --quick."),
    ] = None,
    growth: Annotated[bool, typer.Option("--growth", help="Also time 1 to 32 members, and more samples.")] = False,
    out: Annotated[Path | None, typer.Option(help="Draw the figures into this .svg, .png or .pdf file.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Two small batches on one backend, to try it out.")] = False,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Time one member, the whole ensemble, the plain loop and the engines, and compare with the most that can be saved.

    limit is the speed-up over the whole ensemble if stopping cost nothing, and ratio the share of it that is reached.
    The inputs are random, and the threshold is set so that they use as many members as real ones do; the time of a
    member does not depend on the values of its inputs.
    """
    from irene.cli.bench_output import (
        able_to_cost,
        check_picture,
        draw,
        growth_of,
        off_target,
        plan,
        row_table,
        usual_cost,
        why_low,
    )
    from irene.devices import pick_device
    from irene.run import Run
    from irene.runtime import bench as benching

    with speaking(json) as output:
        check_picture(out)
        run, picked = Run.open(folder), pick_device(device)
        chosen: dict[str, Any] = {"backends": benching.default_backends(picked)}
        chosen |= QUICK if quick else {}
        chosen |= {"seconds": seconds} if seconds is not None else {}
        chosen |= {"batches": tuple(dict.fromkeys(batch))} if batch else {}
        chosen |= {"backends": tuple(dict.fromkeys(backend))} if backend else {}
        options = benching.BenchOptions(**chosen)
        target = cost or usual_cost(run, point)
        given = run.cascade(picked, point=point)
        inputs = benching.noise_for(given, tuple(run.manifest["data"]["shape"]), 64 if quick else 1024, picked)
        cascade = benching.at_cost(able_to_cost(given, target), inputs, target)
        policy = cascade.policy.name
        skipped: dict[str, str] = {}

        def remark(words: str) -> None:
            output.console.print(words, markup=False, highlight=False)

        def skip(name: str, reason: str) -> None:
            skipped[name] = reason
            remark(f"{name} is left out: {reason}")

        def report(row: benching.Row) -> None:
            remark(f"{row['backend']}, batch {row['batch']}, {row['mode']}: {row['ms']:.3g} ms")

        remark(plan(options))
        if policy != given.policy.name:
            remark(f"the run never stops early, so for --cost {target:g} the {policy} policy stops its samples")
        elif policy == "never":
            remark("the run never stops early: --cost or --point shows what stopping saves")
        rows = benching.bench(cascade, inputs, options, report=report, skip=None if backend else skip)
        value: dict[str, Any] = {
            "run": str(folder),
            "point": point,
            "policy": policy,
            "hardware": benching.hardware(picked),
            "rows": rows,
            "skipped": skipped,
        }
        growing = growth_of(cascade, inputs, target, quick=quick) if growth else None
        if growing is not None:
            value["growth"] = growing
        if out is not None:
            value["pictures"] = [str(path) for path in draw(rows, growing, out)]
        shown = row_table(rows)
        words = [
            off_target(rows, target),
            None if policy == "never" else why_low(rows),
            *(f"picture written to {path}" for path in value.get("pictures", ())),
        ]

        def show(screen: Console) -> None:
            screen.print(shown)
            for line in filter(None, words):
                say(screen, line)

        output.result(value, show)
