"""Every halting policy by name, and how one is written down and read back."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from irene.errors import OptionError, near
from irene.halting.change import ChangePredictor
from irene.halting.cost_to_go import CostToGo
from irene.halting.policies import (
    Agreement,
    Confidence,
    Entropy,
    Margin,
    Never,
    Patience,
    Random,
    Spread,
    Window,
)
from irene.halting.policy import Stopper
from irene.halting.selector import Selector
from irene.halting.skipping import Router

POLICIES: dict[str, type[Stopper]] = {
    policy.name: policy
    for policy in (
        Never,
        Confidence,
        Margin,
        Entropy,
        Agreement,
        Patience,
        Window,
        Spread,
        Selector,
        ChangePredictor,
        CostToGo,
        Router,
        Random,
    )
}


def describe(policy: Stopper) -> dict[str, Any]:
    """A policy as JSON values; its tensors, if it has any, are its `state_dict`."""
    threshold = policy.threshold if math.isfinite(policy.threshold) else str(policy.threshold)  # JSON has no inf
    return {"name": policy.name, "threshold": threshold, "options": policy.options()}


def policy_class(name: str) -> type[Stopper]:
    """The policy of that name; an error that names those near it if there is none."""
    if name not in POLICIES:
        raise OptionError(f"unknown policy {name!r}{near(name, POLICIES)} (there are: {', '.join(sorted(POLICIES))})")
    return POLICIES[name]


def restore(description: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> Stopper:
    """The policy that `describe` wrote down."""
    policy = policy_class(description["name"])(description["threshold"], **description["options"])
    policy.load_state_dict(tensors or {})
    return policy.eval()
