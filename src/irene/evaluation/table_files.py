"""The table of a comparison as CSV, JSON, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from irene.evaluation.table import Gain, Row, Spread, Table, as_dict
from irene.files import check_room, write_atomically, write_json
from irene.numbers import NONE, plain, si

HEADS = {
    "accuracy": "accuracy %",
    "cost": "members",
    "flops": "FLOPs",
    "ms": "ms",
    "nll": "NLL",
    "ece": "ECE",
    "rmse": "RMSE",
    "mae": "MAE",
    "r2": "R2",
    "utility": "utility",
}


@dataclass(frozen=True)
class Cell:
    """A value as text, its spread over seeds if that is shown, and whether it is the best of its column."""

    text: str
    spread: str = ""
    best: bool = False


def heads(table: Table) -> list[str]:
    """The heads of the columns."""
    return ["method", *(HEADS[name] for name in table.columns), f"against {table.reference}"]


def cells(table: Table, row: Row) -> list[Cell]:
    """A row as text, below `heads`."""
    shown = [Cell(row.name)]
    for name in table.columns:
        best = row.name in table.best(name)
        if name == "utility":
            shown.append(Cell(written_utility(row.utility), best=best))
        else:
            shown.append(_cell(name, row.figures[name], best))
    return [*shown, Cell(written_gain(row.gain))]


def note(table: Table) -> str:
    """What the columns mean."""
    seeds = sorted({len(row.seeds) for row in table.rows})
    words = f"{table.data}, {table.samples:,} {table.split} samples; "
    over = f"mean and standard deviation over {' or '.join(map(str, seeds))} seeds"
    words += f"{'one seed' if seeds == [1] else over}, the best of a column marked."
    words += " Members, FLOPs and ms are a sample's; ms are rough, and `irene bench` measures them."
    unit = "accuracy in points" if table.task == "classification" else "squared error saved, in % of its"
    words += f" Against {table.reference}: {unit}, with the 95 % interval of a bootstrap over samples."
    if "utility" in table.columns:
        words += " Utility: accuracy against cost as in the paper, 1 for one model and for the average of three."
    return words


def write_table(table: Table, folder: Path) -> list[Path]:
    """Write table.csv, .json, .md and .tex into a folder."""
    check_room(folder / "table.csv")
    texts = {"csv": as_csv, "md": as_markdown, "tex": as_latex}
    for ending, render in texts.items():
        write_atomically(folder / f"table.{ending}", render(table).encode())
    write_json(folder / "table.json", as_dict(table))
    return [folder / f"table.{ending}" for ending in (*texts, "json")]


def as_csv(table: Table) -> str:
    """All figures with all digits, one column a number; used_2 is the share of samples that used two members."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    figures = list(table.rows[0].figures)
    most = max(len(row.used) for row in table.rows)
    named = [column for name in figures for column in (name, f"{name}_spread")]
    named += [*(f"used_{count}" for count in range(1, most + 1)), "utility", "gain", "gain_low", "gain_high"]
    writer.writerow(["name", "method", "members", "seeds", *named])
    for row in table.rows:
        values = [value for name in figures for value in (row.figures[name].mean, row.figures[name].spread)]
        values += [*row.used, *[0.0] * (most - len(row.used))]
        gained = [math.nan] * 3 if row.gain is None else [row.gain.mean, row.gain.low, row.gain.high]
        numbers = ["" if math.isnan(value) else repr(value) for value in (*values, row.utility, *gained)]
        writer.writerow([row.name, row.method, row.members, len(row.seeds), *numbers])
    return buffer.getvalue()


def as_markdown(table: Table) -> str:
    """A table that GitHub draws."""

    def write(cell: Cell) -> str:
        text = cell.text.replace("|", r"\|")
        text = f"**{text}**" if cell.best else text
        return f"{text} ± {cell.spread}" if cell.spread else text

    lines = [heads(table), ["---", *["---:"] * (len(heads(table)) - 1)]]
    lines += _written(table, write)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{note(table)}\n"


def as_latex(table: Table) -> str:
    """A tabular for booktabs."""

    def write(cell: Cell) -> str:
        text = rf"\textbf{{{_escape(cell.text)}}}" if cell.best else _escape(cell.text)
        return rf"{text} $\pm$ {cell.spread}" if cell.spread else text

    names = [_escape(head) for head in heads(table)]
    lines = [
        f"% {note(table)}",
        rf"\begin{{tabular}}{{l{'r' * (len(names) - 1)}}}",
        r"\toprule",
        rf"{' & '.join(names)} \\",
        r"\midrule",
        *(rf"{' & '.join(line)} \\" for line in _written(table, write)),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _written(table: Table, write: Callable[[Cell], str]) -> list[list[str]]:
    return [[write(cell) for cell in cells(table, row)] for row in table.rows]


def _cell(name: str, figure: Spread, best: bool) -> Cell:
    if math.isnan(figure.mean):
        return Cell(NONE)
    show = _formats(name)
    spread = "" if math.isnan(figure.spread) or name == "flops" else show(figure.spread)
    return Cell(show(figure.mean), spread, best)


def _formats(name: str) -> Callable[[float], str]:
    if name == "accuracy":
        return lambda value: f"{100 * value:.2f}"
    if name == "cost":
        return lambda value: f"{value:.2f}"
    if name == "flops":
        return si
    return (lambda value: f"{value:.3f}") if name in ("nll", "ece", "r2") else (lambda value: f"{value:.3g}")


def written_utility(value: float) -> str:
    """A utility in two decimals, a dash where there is none."""
    return f"{value:.2f}" if abs(value) < 1000 else plain(value)


def written_gain(gain: Gain | None) -> str:
    """A gain in points, or in % of squared error, with its interval; a dash where there is none."""
    if gain is None:
        return NONE
    mean, low, high = (100 * value for value in (gain.mean, gain.low, gain.high))
    return f"{mean:+.2f} [{low:+.2f}, {high:+.2f}]"


def _escape(text: str) -> str:
    for character in ("\\", "&", "%", "$", "#", "_", "{", "}"):
        text = text.replace(character, rf"\{character}" if character != "\\" else r"\textbackslash ")
    return text
