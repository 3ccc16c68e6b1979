"""How fast is a training step on this GPU, and what does it spend its time on?

    python benchmarks/training_step.py --out docs/benchmarks/training-h200.json

Random images through the step that `irene train` runs (bf16, channels last, torch.compile, one CUDA graph). FLOPs of a
step are counted as three times the forward pass. Kernels are told apart by name, in a profile of a few steps; the peak
is that of a product of two 8192 x 8192 matrices in bf16. Rows of other networks and batch sizes in the file stay.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from irene.data.loader import Batch
from irene.devices import fastest_kernels
from irene.files import write_json
from irene.models import MemberSpec, build
from irene.models.cost import measure_cost
from irene.runtime.bench import hardware
from irene.runtime.recorder import gpu_ms
from irene.training.distributed import World
from irene.training.loop import Stepper
from irene.training.objective import Supervised
from irene.training.options import LoopOptions

SHAPE, CLASSES = (3, 32, 32), 10
ROUNDS, STEPS = 5, 60
SIDE = 8192
CONVOLUTIONS = ("forward", "by inputs", "by weights")
COMPILED = "compiled"  # batch norms, ReLU, sums: all that torch.compile writes
# What is in the name of a kernel says what it is for; the first that is found counts.
KINDS = {
    **dict(zip(("fprop", "dgrad", "wgrad"), CONVOLUTIONS, strict=True)),
    "multi_tensor": "optimiser",
    "triton": COMPILED,
}


def kind_of(kernel: str) -> str:
    return next((kind for part, kind in KINDS.items() if part in kernel), "other")


def median_ms(run: Callable[[], object], device: torch.device, times: int) -> float:
    return statistics.median(gpu_ms(run, device, times) for _ in range(ROUNDS))


def peak_tflops(device: torch.device) -> float:
    left, right = torch.randn(2, SIDE, SIDE, dtype=torch.bfloat16, device=device)
    return 2 * SIDE**3 / median_ms(lambda: left @ right, device, 20) / 1e9


def kernel_ms(run: Callable[[], object], times: int = 5) -> dict[str, float]:
    """What a call spends in each kind of kernel."""
    with profile(activities=[ProfilerActivity.CUDA]) as record:
        for _ in range(times):
            run()
        torch.cuda.synchronize()
    spent: Counter[str] = Counter()
    for event in record.key_averages():
        spent[kind_of(event.key)] += event.self_device_time_total / 1000 / times
    return {kind: round(ms, 3) for kind, ms in spent.most_common() if ms}


def measure(backbone: str, batch_size: int, device: torch.device) -> dict[str, Any]:
    torch.manual_seed(0)
    spec = MemberSpec(backbone=backbone, shape=SHAPE, outputs=CLASSES, heads=1)
    member = build(spec, seed=0, mean=torch.full((3,), 127.0), std=torch.full((3,), 64.0)).to(device)
    index = torch.arange(batch_size, device=device)
    inputs = torch.randint(0, 256, (batch_size, *SHAPE), dtype=torch.uint8, device=device)
    batch = Batch(inputs, index % CLASSES, index, index)
    flops = 3 * measure_cost(member, inputs).flops
    options = LoopOptions(batch_size=batch_size, compile=True)
    stepper = Stepper(member.train(), Supervised("classification"), options, device, World(), batch_size)

    def step() -> None:
        stepper.step(batch, 0.5)

    with fastest_kernels():  # as in a training
        for _ in range(10):
            step()
    ms = median_ms(step, device, STEPS)
    return {
        "backbone": backbone,
        "batch": batch_size,
        "ms": round(ms, 3),
        "images_per_s": round(1000 * batch_size / ms),
        "tflops": round(flops * batch_size / ms / 1e9, 1),
        "kernel_ms": kernel_ms(step),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbones", nargs="+", default=["resnet18", "resnet32"])
    parser.add_argument("--batches", type=int, nargs="+", default=[512])
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write, or to add to")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("a training step is measured on a GPU, and torch sees none here")
    device = torch.device("cuda")
    report = {"hardware": hardware(device), "peak_tflops": round(peak_tflops(device)), "rows": []}
    known = json.loads(arguments.out.read_text())["rows"] if arguments.out.exists() else []
    rows = {(row["backbone"], row["batch"]): row for row in known}
    for backbone in arguments.backbones:
        for batch_size in arguments.batches:
            rows[backbone, batch_size] = row = measure(backbone, batch_size, device)
            print(json.dumps(row), flush=True)
            write_json(arguments.out, {**report, "rows": list(rows.values())})


if __name__ == "__main__":
    main()
