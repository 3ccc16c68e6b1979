"""Members that another run has trained, for a training that would only repeat them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from irene.errors import RunError
from irene.files import as_json
from irene.run import Run
from irene.training.loop import TakenStage


def stages_of(source: Run, about: Mapping[str, Any]) -> dict[str, TakenStage]:
    """The members of a finished run as stages of the training that `about` describes, for the head of its manifest.

    Weights, order of samples and augmentation are functions of seed and stage, so what is taken is what would have
    been trained. A source that differs in anything which decides that is refused.
    """
    wanted = as_json(dict(about))
    count = len(wanted["backbones"])
    pairs = {
        "seed": (source.manifest["seed"], wanted["seed"]),
        "data": (source.manifest["data"], wanted["data"]),
        "backbones": (source.manifest["backbones"][:count], wanted["backbones"]),
        "training options": (source.manifest["options"]["loop"], wanted["options"]["loop"]),
    }
    for name, (there, here) in pairs.items():
        if there != here:
            raise RunError(f"{source.path}: its members cannot be shared, they were trained with other {name}")
    epochs = source.epochs()
    return {
        f"member-{index + 1}": TakenStage(model=member, epochs=epochs.get(f"member-{index + 1}", []))
        for index, member in enumerate(source.members()[:count])
    }
