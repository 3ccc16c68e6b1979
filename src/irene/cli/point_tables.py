"""Operating points for reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console, Group

from irene.cli.output import Output, command, say
from irene.cli.tables import pairs
from irene.numbers import percent, share
from irene.point import OperatingPoint
from irene.point_words import amount, asked_words, in_a_line
from irene.run import Run


def show_point(run: Run, point: OperatingPoint, output: Output) -> None:
    """Say what an operating point is expected to show."""
    table = pairs(_lines(point), title=f"operating point {point.name} of {run.path}, version {point.version}")
    data = () if "test" in run.manifest["banks"] else ("--data", "SPEC")
    hint = command("evaluate", run.path, "--point", point.name, *data)

    def show(screen: Console) -> None:
        screen.print(table)
        words = f"\ntry it: {hint}\nwithout --point the run stops as it was trained"
        say(screen, words)

    output.result({"run": str(run.path), "point": summary(point)}, show)


def summary(point: OperatingPoint) -> dict[str, Any]:
    """A point as plain values, its policy by name."""
    return {**point.to_dict(), "policy": point.policy.name, "threshold": point.policy.threshold}


def points_table(points: Sequence[OperatingPoint], *, title: str) -> Group:
    """One line a point: what was asked and what is expected."""
    rows = []
    for point in points:
        words = in_a_line(point.policy.name, point.asked, point.expected, point.why)
        rows.append((point.name, f"{words} (version {point.version}, {point.date})"))
    return pairs(rows or [("none", "make one with `irene calibrate`")], title=title)


def _lines(point: OperatingPoint) -> list[tuple[str, str]]:
    expected, asked = point.expected, point.asked
    unit = expected["unit"]
    quality = "accuracy" if "accuracy" in expected else "mse"

    def with_interval(name: str, show: Callable[[float], str]) -> str:
        low, high = expected["intervals"][name]
        return f"{show(expected[name])} ({show(low)} to {show(high)})"

    lines = [
        ("asked", asked_words(asked)),
        ("policy", point.why),
        ("cost", with_interval("cost", lambda value: amount(value, unit)) + f" {unit}"),
        (quality, with_interval(quality, percent if quality == "accuracy" else lambda value: f"{value:.4g}")),
        ("drop", with_interval("drop", percent)),
    ]
    if "p99" in expected:
        lines.append(("p99", f"{expected['p99']:.4g} ms"))
    if "risk" in expected:
        lines.append(("risk", f"{expected['risk']['value']:.2%}, at most {expected['risk']['bound']:.2%} promised"))
    lines += [(f"used {count}", percent(value)) for count, value in enumerate(expected["used"], 1)]
    lines.append(("samples", f"{point.data['samples']:,}, intervals at {share(expected['confidence'])}"))
    return lines
