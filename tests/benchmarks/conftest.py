"""The benchmarks are scripts and no package: their folders are put where Python looks. And runs that nobody trained."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from irene.bank import Bank
from irene.calibration.weights import fit_aggregation
from irene.halting.policies import Never
from irene.halting.rule import Aggregation
from irene.metrics import figures_of
from irene.run import Run
from irene.training.afterwards import selector_fitter

ROOT = Path(__file__).parents[2] / "benchmarks"
sys.path[:0] = [str(ROOT / "paper"), str(ROOT)]

from replay.packed import Study  # noqa: E402  found now


def _make_run(
    folder: Path,
    banks: dict[str, Bank],
    method: str,
    seed: int,
    own: dict[str, Any] | None = None,
    backbones: Sequence[str] = (),
) -> Run:
    """A finished run as training leaves it, without members."""
    steps = banks["test"].steps
    about = {
        "method": method,
        "task": "classification",
        "seed": seed,
        "backbones": list(backbones) or ["cnn"] * steps,
        "options": {"loop": {"epochs": 2, "batch_size": 32}, "method": own or {}},
        "data": {
            "data": "digits",
            "fingerprint": "f00d",
            "sizes": {"train": 45_000 if "heldout" in banks else 50_000},
            "classes": [str(number) for number in range(banks["test"].outputs.shape[3])],
            "shape": [1, 8, 8],
        },
        "environment": {"torch": torch.__version__, "begun": "2026-01-01T00:00:00+00:00"},
    }
    run = Run.create(folder, about)
    run.save_absent(banks["test"].costs)
    for split, bank in banks.items():
        run.save_bank(split, bank)
    aggregation, policy = Aggregation.equal(steps), Never()
    if method == "irene":
        aggregation = fit_aggregation(banks["heldout"])
        policy = selector_fitter(cost=1.3, seed=seed)(banks["heldout"], aggregation, "members")
    run.save_policy(policy)
    lines = [
        {"stage": f"member-{t + 1}", "epoch": epoch, "loss": 1.0, "base": 1.0, "seconds": 0.5}
        for t in range(steps)
        for epoch in range(2)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    figures = figures_of(banks["test"].replay(policy, aggregation), banks["test"].targets, banks["test"].costs)
    run.write(status="finished", aggregation=aggregation.to_dict(), figures={"test": figures}, seconds=3.0)
    return run


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Run]:
    return _make_run


@pytest.fixture(scope="session")
def study(
    tmp_path_factory: pytest.TempPathFactory, lifelike_bank: Callable[..., Bank], make_run: Callable[..., Run]
) -> Study:
    """Runs of six members whose costliest taught the others, and independent members of two kinds, of more seeds."""
    folder = tmp_path_factory.mktemp("distillations")
    work = {"resnet32": 0.125, "vgg8": 0.3, "resnet18": 1.0}

    def add(method: str, seed: int, skills: Sequence[float], backbones: Sequence[str]) -> None:
        flops = tuple(work[name] for name in backbones)
        banks = {
            split: lifelike_bank(300, skills=skills, flops=flops, seed=len(split) + 10 * seed)
            for split in ("heldout", "test")
        }
        name = "_".join(dict.fromkeys(backbones))
        make_run(folder / f"digits-{name}-{method}-s{seed}-e2", banks, method, seed, backbones=backbones)

    for seed in (0, 1):
        members = ("resnet32", "resnet32", "vgg8", *["resnet18"] * 3)
        add("distil", seed, (1.7, 1.8, 1.9, 2.1, 2.2, 2.3), members)
        add("average", seed, (1.5,) * 3, ("resnet32",) * 3)
    for seed in (1, 0, 2):
        add("average", seed, (2.0,) * 3, ("resnet18",) * 3)
    return Study.read(folder)
