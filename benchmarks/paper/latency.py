"""Accuracy against measured time: cascades streamed over real test images, beside one of their largest networks alone.

    python benchmarks/paper/latency.py RUN... --data DIR --device cuda --backends eager:bf16 --workers 8
        [--reference RUN] [--join SMALL LARGE] --out docs/benchmarks/latency-h200.json
    python benchmarks/paper/latency.py --join SMALL LARGE --data DIR --device cpu
        --backends eager onnx onnx:int8 openvino:int8 --threads 2 --rounds 3 --seconds 3 --out ...

Each RUN is a cascade whose members were trained together, with weights, or those of them to `--take`; `--join` makes
one of the first two members of a SMALL run and the first two of a LARGE one. One network and the plain ensemble are
those of `--reference`, of LARGE, or else the largest members of the cascade. Costs are asked for in FLOPs (`--costs`)
and in time (`--times`) of one such network.

For every backend: members answer the held-out images in buckets on that very backend; its policies are fitted and its
thresholds set on these answers; then test images stream through `irene.Stream`, all of them once for accuracy and cost,
and in passes for time, in turns with the network alone at the same bucket, so that both meet the same clock. int8 is
calibrated on the held-out images. Rows are written as they come; those of other members, runs and backends stay in the
file.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from irene.errors import IreneError, first_line
from irene.files import write_atomically

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from documents import json_in_lines
from streaming.bench import POLICIES, Asked, Bench
from streaming.subjects import Subject, fewer, joined, jointly_trained

STARTED = time.monotonic()


class Record:
    """The JSON file, whole after every row."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.content: dict[str, list[dict[str, Any]]] = {"networks": [], "rows": []}
        if path is not None and path.exists():
            self.content = json.loads(path.read_text())

    def begin(self, key: dict[str, Any], about: dict[str, Any]) -> None:
        """Forget what was measured of these members of this run on this backend before."""
        same = ("run", "backbones", "backend")
        for part in ("networks", "rows"):
            self.content[part] = [one for one in self.content[part] if any(one[name] != key[name] for name in same)]
        self.add("networks", {**key, **about})

    def add(self, part: str, entry: dict[str, Any]) -> None:
        self.content[part].append(rounded(entry))
        if self.path is not None:
            write_atomically(self.path, json_in_lines(self.content).encode())


def rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def say(text: str) -> None:
    print(f"[{time.monotonic() - STARTED:5.0f} s] {text}", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="*", help="cascades that were trained together")
    parser.add_argument("--join", type=Path, nargs=2, action="append", default=[], metavar=("SMALL", "LARGE"))
    parser.add_argument("--members", type=int, nargs=2, default=[2, 2], help="how many of SMALL and of LARGE")
    parser.add_argument("--take", type=int, nargs="+", default=[], help="of a RUN only these members, from 1")
    parser.add_argument("--reference", type=Path, help="independent large networks, to compare RUNs with")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--backends", nargs="+", default=["eager:bf16"])
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=list(POLICIES))
    parser.add_argument("--costs", type=float, nargs="*", default=Asked.costs, help="FLOPs of one large network")
    parser.add_argument("--times", type=float, nargs="*", default=Asked.times, help="time of one large network")
    parser.add_argument("--bucket", type=int, help="by default 1024 on a GPU and 64 on a CPU")
    parser.add_argument("--images", type=int, help="of held-out and of test images, at most")
    parser.add_argument("--seconds", type=float, default=Asked.seconds, help="of one pass of the network alone")
    parser.add_argument("--rounds", type=int, default=Asked.rounds, help="passes of each kind")
    parser.add_argument("--threads", type=int, help="of a CPU")
    parser.add_argument("--workers", type=int, default=Asked.workers, help="processes that fit selectors")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if not arguments.runs and not arguments.join:
        parser.error("give a RUN, or --join SMALL LARGE")
    return arguments


def subjects(arguments: argparse.Namespace) -> Iterator[Subject]:
    for path in arguments.runs:
        yield fewer(jointly_trained(path, arguments.reference, arguments.data, arguments.take), arguments.images)
    for small, large in arguments.join:
        yield fewer(joined(small, large, arguments.members, arguments.data), arguments.images)


def main() -> None:
    arguments = parse()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    asked = Asked(
        device=arguments.device,
        costs=tuple(arguments.costs),
        times=tuple(arguments.times),
        bucket=arguments.bucket,
        seconds=arguments.seconds,
        rounds=arguments.rounds,
        workers=arguments.workers,
    )
    record = Record(arguments.out)
    for subject in subjects(arguments):
        say(subject.name)
        for name in arguments.backends:
            try:
                bench = Bench(subject, name, asked, say)
            except (IreneError, ImportError, RuntimeError) as error:  # RuntimeError: what a backend cannot do
                say(f"{name} left out: {first_line(error)}")
                continue
            key = {**subject.about, "backend": name, "device": bench.device.type, "bucket": bench.bucket}
            record.begin(key, bench.about())
            for policy in arguments.policies:
                for row in bench.rows(policy):
                    record.add("rows", {**key, **row})
                    say(f"{name}, {policy}: {told(row)}")


def told(row: dict[str, Any]) -> str:
    time_of, rate = row["time"], row["images_per_s"]["median"]
    return (
        f"asked {row['asked']:g} {row['unit']}, accuracy {row['accuracy']:.4f} at {row['flops']:.3f} FLOPs, "
        f"time {time_of['median']:.3f} ({time_of['low']:.3f} to {time_of['high']:.3f}), {rate:,.0f} images/s"
    )


if __name__ == "__main__":
    main()
