"""`irene predict`: the answers of a run for files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from irene.cli.output import speaking
from irene.cli.params import Device, Json, Point, RunFolder


def predict(
    folder: RunFolder,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Images (resized to those of the run), folders of them, .npz (array x), .csv or .parquet files.",
        ),
    ],
    out: Annotated[Path | None, typer.Option(help="The file to write; by default stdout.")] = None,
    format: Annotated[
        str | None,
        typer.Option(metavar="csv|jsonl|parquet", help="Output format; by default the extension of --out, else csv."),
    ] = None,
    point: Point = None,
    probs: Annotated[bool, typer.Option("--probs", help="Add the probability of every class.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted call with this --out.")] = False,
    backend: Annotated[
        str,
        typer.Option(
            metavar="NAME[:PRECISION]", help="What runs the members: eager, compile, onnx or openvino; also eager:bf16."
        ),
    ] = "eager",
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Samples a member runs at once; by default 1024, or 64 images on a CPU.")
    ] = None,
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Predict for files: one line per sample, with the class, its probability and how many members ran.

    With --out, answers are kept chunk by chunk in a folder beside the file until all are there: a call that was
    interrupted goes on from there with --resume.
    """
    from irene.cli.inputs import find_files, shown
    from irene.cli.predict_files import check_apart, pick_format, print_all
    from irene.cli.predict_parts import Parts, identity
    from irene.cli.predict_progress import Progress
    from irene.cli.predictions import Answers, bucket_for
    from irene.devices import pick_device
    from irene.errors import OptionError
    from irene.files import check_writable
    from irene.run import Run

    with speaking(json) as output:
        if resume and out is None:
            raise OptionError("--resume continues a file: name it with --out")
        if out is not None:
            check_writable(out)
        kind = pick_format(format, out)
        run, picked = Run.open(folder), pick_device(device)
        if probs and run.task == "regression":
            raise OptionError(f"{folder} answers with values, which have no probabilities: leave out --probs")
        predictor = run.predictor(picked, point=point)  # first: of a run that cannot predict, no file is looked at
        found = find_files(files, run.manifest["data"])
        if out is not None:
            check_apart(out, [*found, *run.files()])
        bucket = bucket_for(run, found, picked, batch_size)
        answers = Answers(run, predictor, picked, point=point, backend=backend, bucket=bucket, warn=output.warn)
        apart = out is not None or json or not output.stdout.isatty()  # from the answers on a terminal
        with Progress(output.console, answers, alone=apart) as progress:
            if out is not None:
                asked = identity(run, found, point, kind, picked.type, backend, probs, bucket)
                with Parts(out, kind, asked, found, resume=resume) as parts:
                    progress.go_on(parts.done.samples, parts.done.members)
                    try:
                        for chunk in answers.chunks(found, probs=probs, skip=parts.done.parts):
                            parts.add([record for records in chunk for record in progress.seen(records)])
                        parts.join()
                    except BaseException:
                        if parts.kept:
                            output.console.print(parts.kept, highlight=False)
                        raise
            elif json:
                chunks = answers.chunks(found, probs=probs)
                told = [record for chunk in chunks for records in chunk for record in progress.seen(records)]
            else:
                chunks = answers.chunks(found, probs=probs)
                print_all((progress.seen(records) for chunk in chunks for records in chunk), kind, output.stdout)
        value = {"run": shown(folder), "samples": progress.samples, "mean_members": progress.mean_members}
        if not json:
            words = progress.words + (f", written to {out}" if out else "")
            output.console.print(words, markup=False, highlight=False)
        elif out is None:
            output.result({**value, "predictions": told}, lambda screen: None)
        else:
            output.result({**value, "samples_per_s": progress.samples_per_s, "out": shown(out)}, lambda screen: None)
