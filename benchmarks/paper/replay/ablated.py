"""What each part of IRENE is worth (Fig. 5), of the answers of all runs that there ever were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from names import IRENE

from irene.evaluation.studies.ablation import PARTS, WHOLE
from irene.evaluation.table import Spread
from irene.metrics import paired_bootstrap
from replay.against import Known, Side
from replay.answers import AS_IS, Answers
from replay.packed import Setting

NAMES = {"average": "average ensemble", IRENE: WHOLE}
NAMES |= {f"{IRENE} without {part}": name for part, name in PARTS.items()}


def ablation(known: Known, setting: Setting) -> dict[str, Any] | None:
    """As the package's study of that name has it; None where nobody left out a part."""
    sides = {name: Side(setting, label, AS_IS) for label, name in NAMES.items()}
    runs = {name: known.sides(side)[0] for name, side in sides.items()}
    if not runs[WHOLE] or not any(runs[name] for name in PARTS.values()):
        return None
    compared = {name: known.sides(side, sides[WHOLE]) for name, side in sides.items() if name != WHOLE}
    return {
        "data": setting.dataset,
        "task": "classification",
        "samples": len(runs[WHOLE][0].as_is),
        "quality": "accuracy",
        "variants": {
            name: {
                "seeds": len(found),
                "accuracy": vars(Spread.of([float(one.as_is.mean()) for one in found])),
                "cost": vars(Spread.of([float(one.about["cost"]) for one in found])),
                "gain": gain(*compared[name]) if name in compared else None,
                "runs": [one.about["name"] for one in found],
            }
            for name, found in runs.items()
            if found
        },
    }


def gain(ones: Sequence[Answers], whole: Sequence[Answers]) -> dict[str, float] | None:
    """On IRENE of the same seeds, with the interval over test images; None without a common seed."""
    if not ones:
        return None
    pair = (torch.stack([one.as_is for one in side]).mean(0) for side in (ones, whole))
    return dict(zip(("mean", "low", "high"), paired_bootstrap(*pair), strict=True))
