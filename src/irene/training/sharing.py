"""Members that another run has trained: for a training that would only repeat them, or that builds on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from irene.data.splits import Splits
from irene.errors import RunError
from irene.files import as_json
from irene.models import Member
from irene.run import Run
from irene.training.loop import TakenStage


def stages_of(source: Run, about: Mapping[str, Any]) -> dict[str, TakenStage]:
    """The members of a finished run, as stages of the training that `about`, the head of a manifest, describes.

    Weights, order of samples and augmentation are functions of seed and stage, so what is taken is what would have
    been trained. A source is refused if it differs in anything that decides this.
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


def members_like(wanted: Sequence[Member], source: Run, splits: Splits) -> list[Member]:
    """For each member wanted, one of the same architecture from a finished run that held out the same samples.

    Otherwise a policy would be fitted here on samples that these members have learned by heart.
    """
    there = source.members()
    trained_on = source.manifest["data"]
    if any(trained_on[key] != splits.record[key] for key in ("fingerprint", "ids")):
        raise RunError(
            f"{source.path}: was trained on other samples (of {trained_on['data']}, seed {trained_on['seed']}, "
            f"{trained_on['sizes']['heldout']} held out), so what is held out here may be known to its members; give "
            "the data, seed and held-out samples that it was trained with (--data, --seed, --heldout)"
        )
    found = []
    for member in wanted:
        alike = next((other for other in there if other.spec == member.spec), None)
        if alike is None:
            names = ", ".join(f"{other.spec.backbone} of {other.spec.heads} heads" for other in source.members())
            raise RunError(
                f"{source.path}: {len(wanted)} members like {member.spec.backbone} of {member.spec.heads} heads were "
                f"expected, and it has {names}; name its members as backbones (--backbones), or another run"
            )
        there.remove(alike)
        found.append(alike)
    return found
