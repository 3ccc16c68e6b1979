"""Wisdom of Committees (Wang et al. 2021): the average ensemble's members, stopped once they are confident enough."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from irene.errors import OptionError
from irene.halting.policies import Confidence
from irene.halting.rule import Aggregation
from irene.halting.trajectory import Trajectory, follow
from irene.training.method import Method, Trained, Training
from irene.training.methods import average


@dataclass(frozen=True, kw_only=True)
class WocOptions:
    """The option of the confidence cascade: how much held-out accuracy it may give up, as a share of the samples."""

    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < 1:
            raise OptionError(f"the accuracy to give up is a share from 0 to below 1, got {self.tolerance:g}")


def train(training: Training) -> Trained:
    """Train as the average ensemble does, stage by stage, then choose the threshold on the held-out samples.

    Of the thresholds 0, 0.01, ... 1 it is the cheapest at which the cascade is right at least as often as the
    whole ensemble, less the tolerance: cascades are chosen for the least cost that matches a reference's accuracy.
    """
    options: WocOptions = training.options
    heldout = training.splits.heldout
    if training.task != "classification":
        raise OptionError("woc stops by class probabilities, and this is regression: use irene, or average")
    if not len(heldout):
        raise OptionError(
            "woc chooses its threshold on samples no member trains on: hold some out (heldout above 0, --heldout)"
        )
    members = average.train(training).members
    outputs_NTHK = torch.stack([training.outputs(member, heldout) for member in members], 1)
    policy = Confidence()
    path = follow(policy, Aggregation.equal(len(members)), training.task, outputs_NTHK)
    return Trained(members=members, policy=policy.at(choose_threshold(path, heldout.targets, options.tolerance)))


def choose_threshold(path: Trajectory, targets_N: Tensor, tolerance: float = 0.0) -> float:
    """The smallest of 0, 0.01, ... 1 whose accuracy is not below the last step's by more than the tolerance.

    The smallest one is the cheapest, whatever members cost: a lower threshold stops no sample later.
    """
    grid_M = torch.arange(101, dtype=torch.float64) / 100
    right_NT = path.means_NTK.argmax(2) == targets_N[:, None]
    accuracy_M = path.sweep(grid_M, right_NT)
    enough_M = accuracy_M >= right_NT[:, -1].double().mean() - tolerance - 1e-9
    return float(grid_M[enough_M][0]) if bool(enough_M.any()) else 1.0


METHOD = Method(
    name="woc",
    description="the average ensemble's members, stopped when confident: a threshold that loses no held-out accuracy",
    train=train,
    options=WocOptions,
    needs_heldout=True,
    members_of="average",
)
