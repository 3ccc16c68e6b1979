"""Train the runs of the study that are missing, within a time limit, and pack what later questions need.

    python benchmarks/paper/train.py --jobs short --data DIR --runs DIR --minutes 9 --pack DIR

Jobs are in jobs.py. A finished run is skipped and an interrupted one goes on. `--pack` leaves one tar a run with
run.json, metrics.jsonl and the banks in half precision: every table and figure is a replay of these. Start the command
more than once, on the same folders, to train several runs at a time where one does not fill the card: each takes the
next job that none of the others has.
"""

from __future__ import annotations

import argparse
import fcntl
import io
import json
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from rich.console import Console

from irene.data import load
from irene.run import Run
from irene.training.train import train

sys.path.insert(0, str(Path(__file__).parent))
from jobs import JOBS, Job


def pack(run: Run, folder: Path) -> Path:
    """A tar of a run without its members' weights, banks in half precision."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.path.name}.tar"
    with tarfile.open(path, "w") as tar:
        for file in ("run.json", "metrics.jsonl", "policy.safetensors"):
            if (run.path / file).exists():
                tar.add(run.path / file, f"{run.path.name}/{file}")
        for split in run.manifest["banks"]:
            half = folder / f".{split}"
            run.bank(split).save(half, dtype=torch.float16)
            content = half.read_bytes()
            half.unlink()
            entry = tarfile.TarInfo(f"{run.path.name}/banks/{split}.safetensors")
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


@contextmanager
def claimed(path: Path) -> Iterator[bool]:
    """Whether no other process holds this file; it is ours until the block ends, or this process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def do(job: Job, root: Path, runs: Path) -> Run:
    return train(
        job.method,
        load(job.dataset, root=root),
        runs / job.name,
        options=job.options,
        loop=job.loop,
        method_options=job.method_options,
        resume=True,
        console=Console(stderr=True, quiet=True),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", required=True, nargs="+", choices=sorted(JOBS))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--only", nargs="*", default=[], help="names of jobs, or parts of them")
    arguments = parser.parse_args()
    started = time.monotonic()
    longest = 0.0
    for job in [job for name in arguments.jobs for job in JOBS[name]]:
        if arguments.only and not any(part in job.name for part in arguments.only):
            continue
        begun = time.monotonic()
        if begun - started + longest > 60 * arguments.minutes:
            print(f"out of time before {job.name}", flush=True)
            break
        with claimed(arguments.runs / f"{job.name}.lock") as free:
            if not free:
                continue
            run = do(job, arguments.data, arguments.runs)
            if arguments.pack:
                pack(run, arguments.pack)
        took = time.monotonic() - begun
        longest = max(longest, took)
        figures = {key: run.figures["test"][key] for key in ("accuracy", "cost", "nll", "ece")}
        print(
            json.dumps({"job": job.name, "seconds": round(took, 1), **figures, "notes": run.manifest["notes"]}),
            flush=True,
        )


if __name__ == "__main__":
    main()
