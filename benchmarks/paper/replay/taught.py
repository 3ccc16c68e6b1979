"""What small members gain by learning from large ones, and how good these are: one by one, and averaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from replay.merged import MEMBERS
from replay.packed import Packed, by_kind, places

Entry = Mapping[str, Any]  # what one_by_one says of a run
KIND = ("dataset", "epochs", "images", "training", "backbones")  # what seeds have in common


def one_by_one(run: Packed) -> dict[str, Any]:
    """How right members are on test images by themselves and, of each kind, the first of them averaged."""
    kinds = {name: places(run.backbones, name) for name in dict.fromkeys(run.backbones)}
    return {
        "dataset": run.setting.dataset,
        "epochs": run.setting.epochs,
        "images": run.setting.images,
        "training": run.taught,
        "backbones": run.backbones,
        "large": run.first_trained,
        "seed": run.seed,
        "alone": [accuracy(run, [t]) for t in range(len(run.backbones))],
        "averaged": {
            name: [accuracy(run, alike[:count]) for count in range(1, len(alike) + 1)] for name, alike in kinds.items()
        },
    }


def accuracy(run: Packed, members: Sequence[int]) -> float:
    test = run.bank("test").members(members)
    return float((test.replay().labels == test.targets).double().mean())


def taught(known: Iterable[Entry]) -> list[dict[str, Any]]:
    """Accuracy of those who were taught in each distillation."""
    return of_most_seeds(
        about(runs, backbone, count)
        for runs in distillations(known)
        for backbone, count in Counter(runs[0]["backbones"]).items()
        if backbone != runs[0]["large"]
    )


def teachers(known: Iterable[Entry]) -> list[dict[str, Any]]:
    """Accuracy of the large members of each distillation in the order they run in, and of their average."""
    found = []
    for runs in distillations(known):
        large = runs[0]["large"]
        found.append(
            {
                **{key: runs[0][key] for key in ("dataset", "epochs", "training")},
                "backbone": large,
                "seeds": len(runs),
                "which_seeds": [run["seed"] for run in runs],
                "alone": [over_seeds([run["alone"][t] for run in runs]) for t in places(runs[0]["backbones"], large)],
                "averaged": over_seeds([run["averaged"][large][-1] for run in runs]),
            }
        )
    return of_most_seeds(found)


def of_most_seeds(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Where several distillations have members of a kind, those of most seeds; of as many, the first."""
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in found:
        key = tuple(one[part] for part in MEMBERS)
        best[key] = max(best.get(key, one), one, key=lambda side: int(side["seeds"]))
    return list(best.values())


def distillations(known: Iterable[Entry]) -> list[list[Entry]]:
    """Runs alike together, in the order of seeds."""
    return by_kind(known, lambda run: run, KIND)


def about(runs: Sequence[Entry], backbone: str, count: int) -> dict[str, Any]:
    """How right members of a kind are by themselves, on the mean of all, and how right so many are together."""
    kind = places(runs[0]["backbones"], backbone)
    return {
        **{key: runs[0][key] for key in ("dataset", "epochs", "training")},
        "backbone": backbone,
        "count": count,
        "seeds": len(runs),
        "alone": over_seeds([fmean(run["alone"][t] for t in kind) for run in runs]),
        "averaged": over_seeds([run["averaged"][backbone][count - 1] for run in runs]),
    }


def over_seeds(values: Sequence[float]) -> dict[str, float | None]:
    """The mean and the standard deviation; None for one seed."""
    return {"accuracy": fmean(values), "spread": stdev(values) if len(values) > 1 else None}
