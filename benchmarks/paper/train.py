"""Train the runs of the study that are missing, within a time limit, and pack what later questions need.

    python benchmarks/paper/train.py --jobs members irene --data DIR --runs DIR --minutes 9 --pack DIR

Jobs are in jobs.py; training/label_noise.py says what a data set such as cifar10+noise20 is. A finished run is skipped
and an interrupted one goes on; `--missing` leaves out those that results.json knows, wherever they were trained. Where
one run does not fill the card, `--processes` trains several at a time, as does starting the command more than once on
the same folders: each takes the next job that none of the others has (under CUDA MPS they share the card best). The
jobs `quick` take their teachers from runs of `distil`, which must be there with their weights: trained before, or
unpacked (see unpack.py).

`--pack` leaves NAME.tar.gz for each run with run.json, metrics.jsonl and the banks in half precision: every table and
figure is a replay of these. `--corrupt 10000` also runs the members on that many test images under every corruption and
level of training/corruptions.py, and packs these banks as NAME.corrupted.tar.gz; fewer images are drawn by class and
are the same in all runs. What would exceed 16 MiB goes on in NAME.2.tar.gz, and so on: all images of CIFAR-10 with
three members of two heads fit in one tar, 2,000 of CIFAR-100 in two. `--mirror` also runs the small members of cascades
on mirrored held-out and test images, and packs these banks with the others. `--weights` also packs the members'
weights, in half precision; unpack.py makes runs of them again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch
from jobs import JOBS, Job
from names import file_name, mirrored, who_look_again
from rich.console import Console
from training.corruptions import NAMES, corrupt
from training.label_noise import load_named
from training.packing import pack, pack_weights

from irene.cascade import Cascade
from irene.data import Data
from irene.data.stratify import take_aside
from irene.devices import pick_device
from irene.evaluation.banks import bank_of
from irene.files import locked
from irene.run import Run
from irene.training.methods.distil import DistilOptions
from irene.training.train import train

RESULTS = Path(__file__).resolve().with_name("results.json")


def add_corrupted(run: Run, job: Job, data: Data, count: int) -> None:
    """Give a run the banks of corrupted test images, computed in the precision of its others."""
    device = pick_device(job.options.device)
    cascade = run.cascade(device)
    samples = data.test if count >= len(data.test) else data.test.subset(take_aside(data.test.targets, count, 0)[1])
    assert samples.inputs is not None  # CIFAR is in memory
    images = samples.inputs.to(device)
    for name, (kind, level) in NAMES.items():
        if run.manifest["banks"].get(name, {}).get("samples") == len(samples):
            continue
        corrupted = replace(samples, inputs=corrupt(images, kind, level))
        about = {"split": name, "fingerprint": data.fingerprint}
        with job.loop.autocast(device):
            bank = bank_of(cascade, corrupted, device, about=about)
        run.save_bank(name, bank)
    run.write()


def add_mirrored(run: Run, job: Job, data: Data) -> None:
    """Give a run the banks of its small members on mirrored images, computed in the precision of its others.

    A small network that looks again, at the mirror image, is one more member, and one that nobody has to train.
    """
    device = pick_device(job.options.device)
    members, small = run.cascade(device).members, who_look_again([cost.flops for cost in run.costs])
    again = Cascade([members[t] for t in small], costs=[run.costs[t] for t in small])
    for split, samples in (("heldout", data.train), ("test", data.test)):
        name = mirrored(split)
        if name in run.manifest["banks"]:
            continue
        places = {number: place for place, number in enumerate(samples.ids.tolist())}
        chosen = samples.subset(torch.tensor([places[number] for number in run.bank(split).ids.tolist()]))
        assert chosen.inputs is not None  # CIFAR is in memory
        with job.loop.autocast(device):
            mirror_images = replace(chosen, inputs=chosen.inputs.flip(-1))
            bank = bank_of(again, mirror_images, device, about={"split": name, "fingerprint": data.fingerprint})
        run.save_bank(name, bank)
    run.write()


def do(job: Job, data: Data, runs: Path) -> Run:
    return train(
        job.method,
        data,
        runs / file_name(job.name),
        options=job.options,
        loop=job.loop,
        method_options=DistilOptions(teachers=str(runs / job.teachers)) if job.teachers else job.method_options,
        resume=True,
        console=Console(stderr=True, quiet=True),
    )


def known_runs() -> set[str]:
    """The runs that results.json was made of."""
    return set(json.loads(RESULTS.read_text())["time"]["runs"])


def side_by_side(count: int) -> int:
    """Start this very command so many times over; the worst of their exit codes."""
    command = [sys.executable, *sys.argv, "--processes", "1"]
    started = [subprocess.Popen(command) for _ in range(count)]
    return max(abs(process.wait()) for process in started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", required=True, nargs="+", choices=sorted(JOBS))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--weights", action="store_true", help="pack the members' weights too")
    parser.add_argument("--corrupt", type=int, metavar="IMAGES", help="how many test images, 10000 for all")
    parser.add_argument("--mirror", action="store_true", help="have small members look at mirrored images, too")
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--only", nargs="*", default=[], help="names of jobs, or parts of them")
    parser.add_argument("--missing", action="store_true", help="leave out jobs that results.json knows")
    parser.add_argument("--processes", type=int, default=1, help="runs to train at a time, each in its own process")
    arguments = parser.parse_args()
    arguments.runs.mkdir(parents=True, exist_ok=True)
    if arguments.processes > 1:
        sys.exit(side_by_side(arguments.processes))
    known = known_runs() if arguments.missing else set()
    started = time.monotonic()
    longest = 0.0
    for job in [job for name in arguments.jobs for job in JOBS[name]]:
        if file_name(job.name) in known or (arguments.only and not any(part in job.name for part in arguments.only)):
            continue
        begun = time.monotonic()
        if begun - started + longest > 60 * arguments.minutes:
            print(f"out of time before {job.name}", flush=True)
            break
        # Beside the run, which `train` locks for itself: who has a job also corrupts and packs alone.
        with locked(arguments.runs / f"{file_name(job.name)}.lock") as ours:
            if not ours:
                continue
            data = load_named(job.dataset, arguments.data)
            run = do(job, data, arguments.runs)
            if arguments.corrupt and "gate" not in run.manifest:  # the policies in question need an order of members
                add_corrupted(run, job, data, arguments.corrupt)
            if arguments.mirror and len(set(job.backbones)) > 1:
                add_mirrored(run, job, data)
            if arguments.pack:
                pack(run, arguments.pack)
                if arguments.weights:
                    pack_weights(run, arguments.pack)
        took = time.monotonic() - begun
        longest = max(longest, took)
        figures = {key: run.figures["test"][key] for key in ("accuracy", "cost", "nll", "ece")}
        print(
            json.dumps({"job": job.name, "seconds": round(took, 1), **figures, "notes": run.manifest["notes"]}),
            flush=True,
        )


if __name__ == "__main__":
    main()
