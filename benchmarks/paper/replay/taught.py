"""What small members gain by learning from large ones, and how good these are: one by one, and averaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Any

from replay.packed import TABLE_MEMBERS, Packed, Study
from replay.small_first import distillations


def taught(study: Study) -> list[dict[str, Any]]:
    """Accuracy of those who were taught in each distillation on test images, beside that of independent ones."""
    return [
        about(study, training, runs, backbone, count)
        for _, training, runs in distillations(study)
        for backbone, count in Counter(runs[0].backbones).items()
        if backbone != runs[0].first_trained
    ]


def teachers(study: Study) -> list[dict[str, Any]]:
    """Accuracy of the large members of each distillation in the order they run in, and of their average."""
    found = []
    for setting, training, runs in distillations(study):
        large = [t for t, name in enumerate(runs[0].backbones) if name == runs[0].first_trained]
        found.append(
            {
                "dataset": setting.dataset,
                "epochs": setting.epochs,
                "training": training,
                "backbone": runs[0].first_trained,
                "seeds": len(runs),
                "which_seeds": [run.seed for run in runs],
                "alone": [over_seeds([accuracy(run, [t]) for run in runs]) for t in large],
                "averaged": over_seeds([accuracy(run, large) for run in runs]),
            }
        )
    return found


def about(study: Study, training: str, runs: Sequence[Packed], backbone: str, count: int) -> dict[str, Any]:
    """Members of one kind, by themselves and averaged."""
    setting = runs[0].setting
    seeds = {run.seed for run in runs}
    alike = [t for t, name in enumerate(runs[0].backbones) if name == backbone]
    others = [run for run in study.of(setting._replace(backbone=backbone), "average") if run.seed in seeds]
    return {
        "dataset": setting.dataset,
        "epochs": setting.epochs,
        "training": training,
        "backbone": backbone,
        "count": count,
        "taught": alone_and_averaged(runs, alike, alike),
        "independent": alone_and_averaged(others, range(TABLE_MEMBERS), range(count)) if others else None,
    }


def alone_and_averaged(runs: Sequence[Packed], alone: Sequence[int], together: Sequence[int]) -> dict[str, Any]:
    """How right members are by themselves, on the mean of them, and how right some are together."""
    return {
        "seeds": len(runs),
        "alone": over_seeds([fmean(accuracy(run, [t]) for t in alone) for run in runs]),
        "averaged": over_seeds([accuracy(run, together) for run in runs]),
    }


def accuracy(run: Packed, members: Sequence[int]) -> float:
    test = run.bank("test").members(members)
    return float((test.replay().labels == test.targets).double().mean())


def over_seeds(values: Sequence[float]) -> dict[str, float | None]:
    """The mean and the standard deviation; None for one seed."""
    return {"accuracy": fmean(values), "spread": stdev(values) if len(values) > 1 else None}
