"""How fast a cascade runs: one member, the whole ensemble, the plain loop and the engines, beside what is possible."""

from __future__ import annotations

import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from irene.bank import outputs_of
from irene.cascade import Cascade
from irene.devices import seconds_of, synchronise
from irene.errors import IreneError, OptionError, first_line
from irene.halting.trajectory import follow, nearest
from irene.models.onnx_file import OnnxFile
from irene.processes import cores
from irene.runtime.backend import Backend, installed_backends, load_backends
from irene.runtime.bench_loops import Alone, Whole
from irene.runtime.engine import Engine, EngineOptions
from irene.runtime.stream import Stream, StreamOptions

Mode = Literal["single", "full", "plain", "engine", "stream"]
BATCHES = (1, 4, 16, 64, 256, 1024, 4096)
Row = dict[str, Any]
_FEWEST_PASSES, _MOST_PASSES = 3, 50


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What is measured, and for how long."""

    batches: tuple[int, ...] = BATCHES
    backends: tuple[str, ...] = ("eager",)
    """Names of backends, each with a precision if it is not fp32: eager, compile, eager:bf16, onnx:int8."""
    seconds: float = 1.0
    """How long each mode is timed at each batch size, at least."""
    samples: int = 256
    """Different samples that are answered in a pass, at least."""
    stream_batches: int = 32
    """Batches that a stream is given in a pass."""

    def __post_init__(self) -> None:
        if not self.batches or min(self.batches) < 1:
            raise OptionError(f"batch sizes must be 1 or more, got {list(self.batches)}")
        if self.seconds < 0 or self.samples < 1 or self.stream_batches < 1:
            raise OptionError("seconds must be 0 or more, samples and stream batches 1 or more")


class Timing(NamedTuple):
    """Milliseconds a batch: the median of some passes, and the quartiles."""

    ms: float
    low: float
    high: float


class _Pass(NamedTuple):
    """Work to be timed, and how many batches it answers."""

    work: Callable[[], object]
    batches: int


def bench(
    cascade: Cascade,
    inputs: Tensor,
    options: BenchOptions | None = None,
    *,
    report: Callable[[Row], None] = lambda row: None,
    skip: Callable[[str, str], None] | None = None,
) -> list[Row]:
    """Time a cascade on inputs, which lie on the device to be measured; one row a backend, batch size and mode.

    `speedup` is against the whole ensemble on the same backend, `limit` the speed-up that stopping early would
    bring if it cost nothing: time of the whole ensemble / (mean cost x time of a single member), at that batch.
    `single` is the time of a member, weighted by how many samples reach each where members differ. `report` hears of
    each row as it comes, and `skip`, if given, of backends that cannot run these members, and why.
    """
    options = options or BenchOptions()
    rows: list[Row] = []
    for name in options.backends:
        try:
            backends = load(name, cascade, inputs)
        except (IreneError, RuntimeError) as error:  # RuntimeError: torch misses a compiler
            if skip is None:
                raise
            skip(name, first_line(error))
            continue
        for batch in options.batches:
            for row in _measure(cascade, backends, inputs, batch, options):
                rows.append({"device": str(inputs.device), "backend": name, **row})
                report(rows[-1])
    return rows


def load(name: str, cascade: Cascade, inputs: Tensor) -> list[Backend]:
    """The members on the backend and in the precision that `name` says."""
    backends = load_backends(cascade, inputs, name)
    for backend in backends:
        backend.run(inputs[:1])  # some find out only now what they cannot do
    return backends


def default_backends(device: torch.device) -> tuple[str, ...]:
    """Every installed backend that runs on a device, in the precisions that pay there."""
    if device.type == "cuda":
        return ("eager", "eager:bf16", "compile:bf16")
    known = ("eager", "compile", "onnx", "onnx:int8", "openvino", "openvino:int8")
    return tuple(name for name in known if name.partition(":")[0] in installed_backends())


def at_cost(cascade: Cascade, inputs: Tensor, cost: float) -> Cascade:
    """The same cascade with the threshold at which it uses about `cost` members a sample on these inputs."""
    outputs_NTHK = outputs_of(cascade, inputs.split(256)).to(inputs.device)
    way = follow(cascade.policy, cascade.aggregation, cascade.task, outputs_NTHK)
    cuts_M = way.cuts()
    costs_M = way.sweep(cuts_M, way.costs(torch.ones(way.steps, device=inputs.device)))
    return cascade.stopped_by(cascade.policy.at(float(cuts_M[nearest(costs_M, cost)])))


def random_inputs(shape: tuple[int, ...], count: int, device: torch.device, *, seed: int = 0) -> Tensor:
    """Raw inputs of no meaning: images of noise with all kinds of contrast, or features."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(count, *shape, generator=generator)
    if len(shape) != 3:
        return noise.to(device)
    contrast = 80 * torch.rand(count, 1, 1, 1, generator=generator)
    level = 255 * torch.rand(count, shape[0], 1, 1, generator=generator)
    return (level + contrast * noise).clamp(0, 255).to(torch.uint8).to(device)


def noise_for(cascade: Cascade, shape: tuple[int, ...], count: int, device: torch.device) -> Tensor:
    """Raw inputs of no meaning that a cascade's members take: whole numbers where one takes no others."""
    noise = random_inputs(shape, count, device)
    whole = any(isinstance(member, OnnxFile) and member.whole for member in cascade.members)
    return noise.abs().floor() if whole and noise.is_floating_point() else noise


def hardware(device: torch.device) -> dict[str, Any]:
    """What the figures were measured on."""
    cuda = device.type == "cuda"
    return {
        "device": str(device),
        "gpu": torch.cuda.get_device_name(device) if cuda else None,
        "cpu": _cpu_name(),
        "cores": cores(),
        "threads": torch.get_num_threads(),
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "system": platform.system(),
    }


@torch.no_grad()
def _measure(
    cascade: Cascade, backends: Sequence[Backend], inputs: Tensor, batch: int, options: BenchOptions
) -> list[Row]:
    rule = cascade.rule
    pool = _cycled(inputs, -(-max(options.samples, batch) // batch) * batch)
    chunks = list(pool.split(batch))
    streamed = [chunks[i % len(chunks)] for i in range(max(options.stream_batches, len(chunks)))]
    plain = Cascade([backend.run for backend in backends], rule.policy, aggregation=rule.aggregation, task=rule.task)
    engine = Engine(cascade, inputs, backends=backends, options=EngineOptions(largest=batch))
    stream = Stream(cascade, inputs, backends=backends, options=StreamOptions(bucket=batch))
    passes = [
        _each(Whole(backends, rule, chunks[0]).run, chunks),
        _each(plain.predict, chunks),
        _each(engine.predict, chunks),
        _Pass(lambda: sum(len(answer) for answer in stream.predict(streamed)), len(streamed)),
        *(_each(Alone(backend, chunks[0]).run, chunks) for backend in backends),
    ]
    full_ms, plain_ms, engine_ms, stream_ms, *members_ms = _interleaved(passes, inputs.device, options.seconds)

    used_B = torch.cat([engine.predict(chunk).members_used for chunk in chunks])
    reach_T = [float((used_B > t).double().mean()) for t in range(len(backends))]
    cost = sum(reach_T)
    shares = [reach / cost for reach in reach_T]
    figures = zip(*members_ms, strict=True)  # of all members: the medians, and both quartiles
    single_ms = Timing(*(sum(w * ms for w, ms in zip(shares, of_members, strict=True)) for of_members in figures))
    modes: tuple[tuple[Mode, Timing, float], ...] = (
        ("single", single_ms, 1.0),
        ("full", full_ms, float(len(backends))),
        ("plain", plain_ms, cost),
        ("engine", engine_ms, cost),
        ("stream", stream_ms, cost),
    )
    return [_row(mode, batch, timing, mean_cost, full_ms, single_ms) for mode, timing, mean_cost in modes]


def _row(mode: Mode, batch: int, timing: Timing, mean_cost: float, full: Timing, single: Timing) -> Row:
    speedup, limit = full.ms / timing.ms, full.ms / (mean_cost * single.ms)
    return {
        "mode": mode,
        "batch": batch,
        "mean_cost": mean_cost,
        "ms": timing.ms,
        "ms_low": timing.low,
        "ms_high": timing.high,
        "images_per_s": 1000 * batch / timing.ms,
        "speedup": speedup,
        "limit": limit,
        "ratio": speedup / limit,
    }


def _interleaved(passes: Sequence[_Pass], device: torch.device, seconds: float) -> list[Timing]:
    """Time every kind of pass in turn, again and again, so that a machine that drifts drifts for all of them."""
    found: list[list[float]] = [[] for _ in passes]  # ms a batch
    for one in passes:
        one.work()
    done, least = 0, 0.0
    while done < _MOST_PASSES and (done < _FEWEST_PASSES or least < seconds):
        for one, times in zip(passes, found, strict=True):
            times.append(1000 * seconds_of(one.work, device) / one.batches)
        least = min(sum(times) * one.batches / 1000 for one, times in zip(passes, found, strict=True))
        done += 1
    return [_timing(times) for times in found]


def _timing(times: list[float]) -> Timing:
    low, middle, high = statistics.quantiles(times, n=4, method="inclusive")
    return Timing(middle, low, high)


def _each(run: Callable[[Tensor], object], chunks: list[Tensor]) -> _Pass:
    """A pass over chunks that waits for each answer, as a user would."""

    def work() -> None:
        for chunk in chunks:
            run(chunk)
            synchronise(chunk.device)

    return _Pass(work, len(chunks))


def _cycled(inputs: Tensor, count: int) -> Tensor:
    """As many inputs as are asked for, from the first on again when they run out."""
    return inputs[torch.arange(count, device=inputs.device) % len(inputs)]


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        if names:
            return names[0]
    return platform.processor() or platform.machine()
