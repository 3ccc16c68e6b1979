"""Diverse ensemble evolution (Zhou, Wang and Bilmes 2018): every epoch, samples are married to members anew."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from irene.data.loader import Batch
from irene.errors import OptionError
from irene.models.external import FeaturesOf
from irene.training import losses
from irene.training.assignment import assign, shares
from irene.training.extractor import fit_extractor
from irene.training.method import Method, Trained, Training
from irene.training.objective import Objective
from irene.training.together import Together


@dataclass(frozen=True, kw_only=True)
class Dive2Options:
    """The curriculum of diverse ensemble evolution; each pair is its value in the first and in the last epoch.

    At most `models` members learn from a sample (None: from all of them to half of them, rounded up), and a member
    learns from at most a share `samples` of the training set. `intra` weights the diversity of the samples of one
    member, `inter` that of the samples of two members together; both are in units of the loss.

    The curriculum has the paper's shape: easy samples first, then more samples and fewer members for each. Its numbers
    are ours. On held-out digits none of seven others was better beyond doubt (`benchmarks/method_defaults.py`,
    docs/compare.md).
    """

    models: tuple[int, int] | None = None
    samples: tuple[float, float] = (0.5, 1.0)
    intra: tuple[float, float] = (1.0, 0.0)
    inter: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.models is not None and min(self.models) < 1:
            raise OptionError(f"at least 1 member must learn from a sample, got {self.models}")
        if not all(0 < share <= 1 for share in self.samples):
            shown = ", ".join(f"{share:g}" for share in self.samples)
            raise OptionError(f"a member learns from a share of samples above 0 and up to 1, got {shown}")
        if min(*self.intra, *self.inter) < 0:
            intra, inter = (", ".join(f"{weight:g}" for weight in pair) for pair in (self.intra, self.inter))
            raise OptionError(f"diversity weights must be at least 0, got {intra} for intra and {inter} for inter")


def train(training: Training) -> Trained:
    """Train all members at once, each epoch on the samples that were assigned to it.

    Before each epoch the members' losses on the training set give every (sample, member) pair its value, and the
    best diverse assignment is chosen. First each member takes the easiest half of the samples; then it may take ever
    more, while ever fewer members take the same sample, which makes them specialists. The features that diversity is
    measured on come from a model trained beforehand for a fifth of the epochs. Every member still runs on every
    sample of a batch, so that batch statistics are those of the whole set.
    """
    members = [training.new_member(index) for index in range(len(training.backbones))]
    together = Together(members)
    loop = training.loop_options
    extractor = fit_extractor(training, dataclasses.replace(loop, epochs=max(1, loop.epochs // 5)))
    features_NF = training.outputs(FeaturesOf(extractor), training.splits.train)[:, 0]
    training.fit("members", together, MarriageObjective(training, shares(features_NF)))
    return Trained(members=members)


class MarriageObjective(Objective):
    """The loss of each member on the samples that are assigned to it, which change every epoch."""

    def __init__(self, training: Training, shares_NF: Tensor) -> None:
        self.training = training
        self.options: Dive2Options = training.options
        self.members = len(training.backbones)
        self.shares_NF = shares_NF.to(training.device)
        self.chosen_NT = torch.zeros(len(shares_NF), self.members, device=training.device)
        self.scale_K = training.scale_K

    def begin_epoch(self, model: nn.Module, epoch: int) -> None:
        training, options = self.training, self.options
        samples = training.splits.train
        progress = epoch / max(1, training.loop_options.epochs - 1)
        first, last = options.models or (self.members, math.ceil(self.members / 2))
        output_NTK = training.outputs(model, samples).to(training.device)
        loss_NT = losses.output_loss(output_NTK, samples.targets.to(training.device), training.task, self.scale_K)
        self.chosen_NT.copy_(
            assign(
                loss_NT.max() - loss_NT,
                self.shares_NF,
                models=min(self.members, round(_between((first, last), progress))),
                samples=math.ceil(_between(options.samples, progress) * len(samples)),
                intra=_between(options.intra, progress),
                inter=_between(options.inter, progress),
            )
        )

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        chosen_BT = self.chosen_NT[batch.index]
        loss_BT = losses.output_loss(output, batch.targets, self.training.task, self.scale_K)
        # Each member steps by the mean over its own samples, as if the others were not in the batch.
        return {"members": ((chosen_BT * loss_BT).sum(0) / chosen_BT.sum(0).clamp_min(1)).sum()}

    def figures(self) -> dict[str, float]:
        return {"members_a_sample": float(self.chosen_NT.sum(1).mean())}


def _between(ends: tuple[float, float], progress: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * progress


METHOD = Method(
    name="dive2",
    description="samples assigned to members by a diversity-promoting curriculum, so that members specialise",
    train=train,
    options=Dive2Options,
)
