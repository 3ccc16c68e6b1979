"""Are the engines right on this device, and how near do they come to what stopping early can save?

    python benchmarks/engine.py --out engine.json
    python benchmarks/engine.py --parts equality overhead --batches 1 256 1024

Random ResNet-18 members on random images: how long members take does not depend on what they see, and the threshold
is set so that a sample uses about 1.3 members. Parts: `equality` (against Cascade.predict: exact with members whose
answers do not depend on the batch, agreement with networks in fp32 and in reduced precision), `rows` (every mode at
every batch size), `overhead` (what features, policy, gathering and scattering add to a member), `growth` (1 to 32
members, more samples) and `flat` (ten million samples through a stream, with the memory it takes).
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from irene.cascade import Cascade
from irene.devices import synchronise
from irene.files import write_json
from irene.halting.policies import Agreement, Margin, Never, Patience, Random, Window
from irene.halting.policy import Policy
from irene.halting.selector import Selector
from irene.models import Member, MemberSpec, build
from irene.runtime.bench import BenchOptions, Row, at_cost, bench, hardware, load, random_inputs
from irene.runtime.bench_loops import Alone
from irene.runtime.buckets import measure
from irene.runtime.engine import Engine, EngineOptions
from irene.runtime.growth import growth
from irene.runtime.stages import Stages
from irene.runtime.stream import Stream, StreamOptions
from irene.types import Prediction

SHAPE = (3, 32, 32)
PARTS = ("equality", "rows", "overhead", "growth", "flat")  # the last two only when asked for
FUSED = ("margin", "selector", "random")  # compiling takes a while


class Lookup(nn.Module):
    """A member whose answer for a sample is exactly the same in every batch: a row of a table."""

    def __init__(self, outputs_NHK: Tensor) -> None:
        super().__init__()
        self.outputs_NHK: Tensor
        self.register_buffer("outputs_NHK", outputs_NHK)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.outputs_NHK.index_select(0, inputs[:, 0].long())


def main() -> None:
    arguments = parse()
    device = torch.device(arguments.device)
    torch.manual_seed(0)
    found: dict[str, Any] = {"hardware": hardware(device), "options": {**vars(arguments), "out": None}}
    for part in arguments.parts:
        start = time.perf_counter()
        found[part] = []
        for row in WORK[part](arguments, device):
            found[part].append(row)
            say(part, row)
            if arguments.out is not None:
                write_json(arguments.out, found)
        print(f"# {part}: {time.perf_counter() - start:.0f} s", flush=True)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--backbone", default="resnet18")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--cost", type=float, default=1.3)
    parser.add_argument("--backends", nargs="+", default=["eager:bf16"], help="NAME or NAME:PRECISION")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4, 16, 64, 256, 1024, 4096])
    parser.add_argument("--policies", nargs="+", default=["selector", "margin"])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--stream-batches", type=int, default=64)
    parser.add_argument("--pool", type=int, default=256, help="inputs of a pass, or a batch if that is more")
    parser.add_argument("--samples", type=int, default=10_000_000, help="of the part `flat`")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS[:3]))
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def members(arguments: argparse.Namespace, device: torch.device, count: int | None = None) -> list[Member]:
    spec = MemberSpec(backbone=arguments.backbone, shape=SHAPE, outputs=10, heads=2)
    mean, std = torch.full((3,), 127.0), torch.full((3,), 74.0)
    seeds = range(count or arguments.members)
    return [build(spec, seed=seed, mean=mean, std=std).eval().to(device) for seed in seeds]


def policy_of(name: str, device: torch.device) -> Policy:
    return {"selector": Selector, "margin": Margin}[name]().to(device)


def cascade_of(arguments: argparse.Namespace, device: torch.device, policy: str) -> tuple[Cascade, Tensor]:
    inputs = random_inputs(SHAPE, 1024, device)
    return at_cost(Cascade(members(arguments, device), policy_of(policy, device)), inputs, arguments.cost), inputs


def equality(arguments: argparse.Namespace, device: torch.device) -> Iterator[Row]:
    """Exact where members are; for networks the share of samples that agree, and how far answers are apart."""
    yield from exact(device)
    yield from networks(arguments, device)


def exact(device: torch.device) -> Iterator[Row]:
    outputs_NTHK = 2 * torch.randn(2500, 3, 2, 10)
    table = [Lookup(outputs_NTHK[:, t]).to(device) for t in range(3)]
    inputs = torch.arange(2500.0, device=device)[:, None]
    of_three = (Never(), Margin(), Selector(), Agreement(), Patience(), Window(), Random())
    for policy, how_many in [*((policy, 3) for policy in of_three), (Margin(), 2)]:
        start = Cascade(table[:how_many], policy.to(device))
        cascade = start if isinstance(policy, Never) else at_cost(start, inputs, 1.6)
        for fuse in (False, True) if policy.name in FUSED else (False,):
            row: Row = {"members": "exact", "policy": policy.name, "fuse": fuse, "unequal": 0, "furthest": 0.0}
            row["count"] = len(cascade.members)
            engine = Engine(cascade, inputs[:1], options=EngineOptions(largest=1024, fuse=fuse))
            recorded = engine.recorded
            sizes = (0, 1, 2, 7, 97, 1000, 1024, 1025, 2500)
            for size in sizes:
                count(row, engine.predict(inputs[:size]), cascade.predict(inputs[:size]))
            assert engine.recorded == recorded, "recorded again after warm-up"
            stream = Stream(cascade, inputs[:1], options=StreamOptions(bucket=128, window=1024, fuse=fuse))
            batches = [inputs[:size] for size in sizes]
            for answer, batch in zip(stream.predict(batches), batches, strict=True):
                count(row, answer, cascade.predict(batch))
            hosted = [batch.cpu() for batch in batches]  # comes over the bus beside the work
            for answer, batch in zip(stream.predict(hosted), batches, strict=True):
                count(row, answer, cascade.predict(batch))
            always_in_pairs(engine)
            for size in sizes:
                count(row, engine.predict(inputs[:size]), cascade.predict(inputs[:size]))
            yield {**row, "recorded": recorded}


def always_in_pairs(engine: Engine) -> None:
    """Have an engine think that two members at once take no time, where it can run them so."""
    table = engine.costs
    if table is not None:
        pairs = tuple(tuple(0.0 if ms < math.inf else ms for ms in row) for row in table.pairs)
        engine._stages.costs = dataclasses.replace(table, pairs=pairs)
        engine._stages._planned.clear()
        if engine._stages.chain is not None:
            engine._stages.chain._shares.clear()


def count(row: Row, found: Prediction, expected: Prediction) -> None:
    same = found.members_used == expected.members_used
    row["unequal"] += int((~same).sum())
    if bool(same.any()):
        row["furthest"] = max(row["furthest"], float((found.outputs - expected.outputs)[same].abs().max()))
    assert torch.equal(found.trace.isnan(), expected.trace.isnan()) or row["unequal"], "traces differ"


def networks(arguments: argparse.Namespace, device: torch.device) -> Iterator[Row]:
    torch.backends.cudnn.allow_tf32 = False
    inputs = random_inputs(SHAPE, 4096, device, seed=1)
    for policy in arguments.policies:
        cascade, _ = cascade_of(arguments, device, policy)
        expected = torch.cat([cascade.predict(batch).members_used for batch in inputs.split(1024)])
        labels = torch.cat([cascade.predict(batch).labels for batch in inputs.split(1024)])
        for name in ("eager", "eager:bf16", "eager:fp16"):
            backends = load(name, cascade, inputs)
            answers = {
                "engine": Engine(cascade, inputs, backends=backends).predict(inputs),
                "stream": Prediction.cat([*Stream(cascade, inputs, backends=backends).predict(inputs.split(300))]),
            }
            for mode, answer in answers.items():
                yield {
                    "members": arguments.backbone,
                    "policy": policy,
                    "backend": name,
                    "mode": mode,
                    "same_members": float((answer.members_used == expected).double().mean()),
                    "same_labels": float((answer.labels == labels).double().mean()),
                    "mean_cost": float(answer.members_used.double().mean()),
                }
    torch.backends.cudnn.allow_tf32 = True


def rows(arguments: argparse.Namespace, device: torch.device) -> Iterator[Row]:
    """Every mode at every batch size."""
    for policy in arguments.policies:
        cascade, inputs = cascade_of(arguments, device, policy)
        for backend, batch in itertools.product(arguments.backends, arguments.batches):
            options = BenchOptions(
                batches=(batch,),
                backends=(backend,),
                seconds=arguments.seconds,
                stream_batches=arguments.stream_batches,
                samples=arguments.pool,
            )
            for row in bench(cascade, inputs, options):
                yield {"policy": policy, **row}


def overhead(arguments: argparse.Namespace, device: torch.device) -> Iterator[Row]:
    """What a stage takes above its member alone, at batch 1024 or the largest asked for below it."""
    batch = max([size for size in arguments.batches if size <= 1024], default=arguments.batches[0])
    for policy in arguments.policies:
        cascade, inputs = cascade_of(arguments, device, policy)
        for name in arguments.backends:
            backends = load(name, cascade, inputs)
            for fuse in (False, True):
                stages = Stages(cascade, inputs, backends, slots=batch, largest=batch, buckets=(batch,), fuse=fuse)
                alone = Alone(backends[1], inputs[torch.arange(batch, device=device) % len(inputs)])
                row = {"policy": policy, "backend": name, "batch": batch, "fuse": fuse}
                stages.lists[1][:batch].copy_(torch.arange(batch, device=device))
                yield row | compared(partial(stages.run, 1, batch), alone._program, device)


@torch.no_grad()
def compared(stage: Callable[[], None], member: Callable[[], None], device: torch.device) -> dict[str, float]:
    """Milliseconds of a stage and of its member alone, in turn, so that both meet the same clock of the device."""
    times = [(measure(stage, device), measure(member, device)) for _ in range(15)]
    stage_ms, member_ms = (sorted(column)[len(column) // 2] for column in zip(*times, strict=True))
    return {"stage_ms": stage_ms, "member_ms": member_ms, "share": stage_ms / member_ms - 1}


def growth_rows(arguments: argparse.Namespace, device: torch.device) -> Iterator[Row]:
    bucket = 256 if device.type == "cuda" else 32
    inputs = random_inputs(SHAPE, 64 * bucket, device)
    some, policy = members(arguments, device), Margin().to(device)
    yield from growth(some, policy, inputs, bucket=bucket, cost=arguments.cost, backend=arguments.backends[0])


def flat(arguments: argparse.Namespace, device: torch.device) -> Iterator[Row]:
    """Many samples through tiny members: memory does not grow with their number."""
    spec = MemberSpec(backbone="mlp", shape=(16,), outputs=10)
    tiny = [build(spec, seed=seed).eval().to(device) for seed in range(3)]
    size = 8192
    pool = torch.randn(16, size, 16, device=device)
    cascade = at_cost(Cascade(tiny, Margin().to(device)), pool[0], arguments.cost)
    stream = Stream(cascade, pool[0], options=StreamOptions(bucket=size))
    batches = (pool[number % 16] for number in range(arguments.samples // size))
    samples, peaks = 0, []
    start = time.perf_counter()
    for answer in stream.predict(batches):
        samples += len(answer)
        if samples % (32 * size) == 0:
            peaks.append(torch.cuda.max_memory_allocated(device) if device.type == "cuda" else resident())
    synchronise(device)
    seconds = time.perf_counter() - start
    row: Row = {"samples": samples, "seconds": seconds, "samples_per_s": samples / seconds}
    yield {**row, "peak_slots": stream.peak, "window": stream.window, "bytes_in_course": peaks}


def resident() -> int:
    """Bytes of memory this process holds, on Linux."""
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


def say(part: str, row: Row) -> None:
    short = {key: round(value, 5) if isinstance(value, float) else value for key, value in row.items()}
    print(json.dumps({"part": part, **short}), flush=True)


WORK: dict[str, Callable[[argparse.Namespace, torch.device], Iterator[Row]]] = {
    "equality": equality,
    "rows": rows,
    "overhead": overhead,
    "growth": growth_rows,
    "flat": flat,
}

if __name__ == "__main__":
    main()
