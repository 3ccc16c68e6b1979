"""Images a second of one member on a CPU: torch eager against ONNX Runtime and OpenVINO, in float and in int8.

    python benchmarks/cpu_backends.py [--models resnet18 resnet32 vgg8] [--batches 1 32 256] [--threads 2] [--rounds 5]

Prints JSON: a row for every model, backend, precision and batch, with the median and the spread over rounds in which
the backends take turns, and how many times torch eager that is; what int8 costs in accuracy, on digits; and the
machine. The weights are random, which changes no time. The goal is int8 at 4 times torch eager.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from irene.data import load, split
from irene.models import Member, MemberSpec, build
from irene.runtime.backend import Backend, Precision, backend_class, installed_backends
from irene.runtime.bench import hardware
from irene.runtime.quantise import quantise
from irene.training.options import LoopOptions
from irene.training.train import train

GOAL = 4.0
SHAPE = (3, 32, 32)
SECONDS = 0.5  # a round runs a batch again until this much time is over
CALIBRATION = 64  # inputs that int8 takes its ranges from: for time, any will do
RUNS: tuple[tuple[str, Precision], ...] = (
    ("eager", "fp32"),
    ("onnx", "fp32"),
    ("onnx", "int8"),
    ("openvino", "fp32"),
    ("openvino", "int8"),
)


def make_member(backbone: str, images: torch.Tensor) -> Member:
    """A member with random weights, whose batch norms have seen some images."""
    spec = MemberSpec(backbone=backbone, shape=SHAPE, outputs=10, heads=2)
    member = build(spec, seed=0, mean=torch.full((3,), 127.0), std=torch.full((3,), 64.0))
    with torch.no_grad():
        for _ in range(10):
            member(images)
    return member.eval()


def possible() -> list[tuple[str, Precision]]:
    """What is installed here."""
    there = installed_backends()
    return [run for run in RUNS if run[0] in there and (run != ("openvino", "int8") or find_spec("nncf"))]


def seconds_a_batch(backend: Backend, images: torch.Tensor) -> float:
    runs, start = 0, time.perf_counter()
    while (passed := time.perf_counter() - start) < SECONDS or runs < 2:
        backend.run(images)
        runs += 1
    return passed / runs


def speed(backbone: str, batches: list[int], rounds: int) -> list[dict[str, Any]]:
    """A row for every backend and batch; the backends take turns, so that a busy moment hits them alike."""
    images = torch.randint(256, (max(*batches, CALIBRATION), *SHAPE), dtype=torch.uint8)
    member = make_member(backbone, images[:CALIBRATION])
    backends = {
        (name, precision): backend_class(name).load(member, images[:CALIBRATION], precision=precision)
        for name, precision in possible()
    }
    rows = []
    for batch in batches:
        for backend in backends.values():
            backend.run(images[:batch])
        taken: dict[tuple[str, Precision], list[float]] = {key: [] for key in backends}
        for _ in range(rounds):
            for key, backend in backends.items():
                taken[key].append(seconds_a_batch(backend, images[:batch]))
        eager = statistics.median(taken["eager", "fp32"])
        for (name, precision), seconds in taken.items():
            median = statistics.median(seconds)
            rows.append(
                {
                    "model": backbone,
                    "backend": name,
                    "precision": precision,
                    "batch": batch,
                    "ms": round(1000 * median, 3),
                    "ms_low": round(1000 * min(seconds), 3),
                    "ms_high": round(1000 * max(seconds), 3),
                    "images_per_s": round(batch / median, 1),
                    "speedup": round(eager / median, 2),
                }
            )
    return rows


def accuracy() -> list[dict[str, Any]]:
    """What int8 does to a cascade of three small networks on digits, on samples they have not seen."""
    digits = load("digits")
    heldout = split(digits, seed=0).heldout
    assert heldout.inputs is not None
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        run = train("irene", digits, Path(folder) / "run", loop=LoopOptions(epochs=15, batch_size=64))
        for name, precision in possible():
            if precision == "int8":
                fast = quantise(run.cascade(), heldout.inputs, heldout.targets, backend=name, max_loss=1.0)
                found, wanted = (one.predict(digits.test.inputs) for one in (fast.cascade, run.cascade()))
                right = [float((one.labels == digits.test.targets).double().mean()) for one in (wanted, found)]
                rows.append(
                    {
                        "backend": name,
                        "accuracy_fp32": right[0],
                        "accuracy_int8": right[1],
                        "members_fp32": float(wanted.cost.mean()),
                        "members_int8": float(found.cost.mean()),
                        "same_labels": float((wanted.labels == found.labels).double().mean()),
                        "same_members_used": float((wanted.members_used == found.members_used).double().mean()),
                        "heldout_loss": fast.stopping.loss,
                    }
                )
    return rows


def machine(threads: int) -> dict[str, Any]:
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    wanted = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "avx512_bf16", "amx_int8")
    flags = next((line.partition(": ")[2].split() for line in info.splitlines() if line.startswith("flags")), [])
    about = hardware(torch.device("cpu"))
    return {
        "cpu": about["cpu"],
        "flags": [flag for flag in wanted if flag in flags],
        "threads": threads,
        "torch": about["torch"],
        "python": about["python"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["resnet18", "resnet32", "vgg8"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 32, 256])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    torch.manual_seed(0)
    rows = [row for model in asked.models for row in speed(model, asked.batches, asked.rounds)]
    best = {
        f"{model} batch {batch}": max(
            row["speedup"] for row in rows if (row["model"], row["batch"], row["precision"]) == (model, batch, "int8")
        )
        for model in asked.models
        for batch in asked.batches
    }
    result = {"goal": GOAL, "best_int8": best, "rows": rows, "accuracy": accuracy(), "machine": machine(asked.threads)}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
