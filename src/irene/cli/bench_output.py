"""What `irene bench` shows: a table for people, pictures, and how time grows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from rich.text import Text
from torch import Tensor

from irene.cascade import Cascade
from irene.cli.tables import Folding
from irene.errors import OptionError
from irene.files import check_writable, write_atomically
from irene.halting.policies import Never, plain_policy
from irene.pictures import rendered
from irene.run import Run
from irene.runtime.backend import parse_backend
from irene.runtime.bench import BenchOptions, Mode, Row
from irene.runtime.bench_picture import bench_picture, growth_picture
from irene.runtime.growth import MEMBERS, growth

FORMATS = (".svg", ".png", ".pdf")
OFF_TARGET = 0.15  # members
TINY_MS = 1.0  # above this, a low ratio has other reasons than the size of a member


def check_picture(out: Path | None) -> None:
    """Refuse a name that says nothing of a picture, or where none can be written, before anything is measured."""
    if out is None:
        return
    if out.suffix.lower() not in FORMATS:
        raise OptionError(f"pictures are written as {', '.join(FORMATS)}, got {out}")
    check_writable(out)


def plan(options: BenchOptions) -> str:
    """What will be timed, for users who wait for it."""
    rows = len(options.backends) * len(options.batches) * len(get_args(Mode))
    for name in options.backends:
        parse_backend(name)  # a mistake is all that is said then
    names, sizes = ", ".join(options.backends), ", ".join(map(str, options.batches))
    return (
        f"timing {names} in batches of {sizes}: {rows} rows of {options.seconds:g} s or more, and warming up; "
        "--batch, --backend, --seconds or --quick make it shorter"
    )


def usual_cost(run: Run, point: str | None) -> float:
    """Members that are expected of an operating point on average, or that the run's test samples used."""
    if point is not None:
        return float(sum(count * share for count, share in enumerate(run.point(point).expected["used"], 1)))
    if "test" not in run.figures:
        raise OptionError(f"{run.path}: has no test samples that tell how many members are used: give --cost")
    return float(run.figures["test"]["cost"])


def able_to_cost(cascade: Cascade, cost: float) -> Cascade:
    """The cascade, with another policy where its own stops no sample and `cost` asks that some stop."""
    if cost > len(cascade.members):
        raise OptionError(f"--cost is from 1 to the {len(cascade.members)} members of the run, got {cost:g}")
    if not isinstance(cascade.policy, Never) or cost == len(cascade.members):
        return cascade
    return cascade.stopped_by(plain_policy(cascade.task))


def growth_of(cascade: Cascade, inputs: Tensor, cost: float, *, quick: bool) -> list[Row]:
    """Time against members and samples, with a policy that takes any number of members."""
    policy = plain_policy(cascade.task)
    bucket = 16 if quick else 256
    counts = MEMBERS[:3] if quick else MEMBERS
    return growth(cascade.members, policy, inputs, bucket=bucket, cost=cost, counts=counts, task=cascade.task)


def row_table(rows: Sequence[Row]) -> Folding:
    """One line a measurement; figures that compare beside those that were measured."""
    lines = [["backend", "mode", "batch", "cost", "ms", "samples/s", "speed-up", "limit", "ratio"]]
    for row in rows:
        figures = (f"{row[name]:.3g}" for name in ("mean_cost", "ms"))
        compared = (f"{row[name]:.2f}" for name in ("speedup", "limit", "ratio"))
        speed = f"{row['images_per_s']:,.0f}"
        lines.append([row["backend"], row["mode"], f"{row['batch']:>5}", *figures, speed, *compared])
    return Folding([[Text(cell) for cell in line] for line in lines], names=3, gap=2)


def why_low(rows: Sequence[Row]) -> str | None:
    """Why ratios are low where that is because members are tiny: then stopping adds more than a member takes."""
    member_ms = {(row["backend"], row["batch"]): row["ms"] for row in rows if row["mode"] == "single"}
    for row in rows:
        ms = member_ms[row["backend"], row["batch"]]
        added = row["ms"] - row["mean_cost"] * ms
        if row["mode"] == "engine" and ms < TINY_MS and added > ms:
            return (
                f"ratios are low where members are tiny: one takes {ms:.2g} ms for a batch of {row['batch']} on "
                f"{row['backend']}, and stopping adds {added:.2g} ms whatever its size "
                "(docs/engine.md, When it does not pay)"
            )
    return None


def off_target(rows: Sequence[Row], cost: float) -> str | None:
    """Where the samples that were timed used other numbers of members than asked for."""
    found = [row["mean_cost"] for row in rows if row["mode"] == "engine"]
    if all(abs(one - cost) <= OFF_TARGET for one in found):
        return None
    timed = " and ".join(f"{one:.3g}" for one in dict.fromkeys(found))
    return (
        f"{cost:.3g} members a sample were wanted and {timed} timed: this policy comes no nearer with these members, "
        "or on so few samples"
    )


def draw(rows: Sequence[Row], growing: Sequence[Row] | None, out: Path) -> list[Path]:
    """Write the pictures: of the rows to `out`, of the growth to a file beside it."""
    pictures = {out: bench_picture(rows)}
    if growing is not None:
        pictures[out.with_stem(f"{out.stem}-growth")] = growth_picture(growing)
    for path, picture in pictures.items():
        write_atomically(path, rendered(picture, path.suffix[1:].lower()))
    return list(pictures)
