"""The joint objectives of IRENE: one member and the selector, in one loss (Eq. 13).

No ensemble or cost gradient reaches a member, and none reaches the members before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from irene.data.loader import Batch
from irene.errors import OptionError
from irene.halting import maths
from irene.halting.features import FEATURES, feature_table
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.training import losses
from irene.training.evidence import Evidence
from irene.training.objective import Objective, Supervised
from irene.training.options import OptimizerOptions
from irene.training.selecting import Price, expected_terms

SELECTOR_BATCH = 512  # samples of the evidence in each step
RANK_SHARE = 0.5  # of each batch on which a member is compared with the ensemble before it
Earlier = Callable[[Batch], Tensor]  # (B, t - 1, H, K) outputs of the members before this one on a batch


@dataclass(frozen=True, kw_only=True)
class LossWeights:
    """The weights of Eq. 13 and of the discrepancy of the two heads; zero switches a term off."""

    ensemble: float = 1.0
    cost: float = 1.0
    rank: float = 0.1
    discrepancy: float = 0.01

    def __post_init__(self) -> None:
        for name, weight in vars(self).items():
            if not 0 <= weight < math.inf:
                raise OptionError(f"the weight of the {name} loss must be at least 0 and finite, got {weight:g}")


class MemberObjective(Objective):
    """A later member's side: its base loss, and L_rank (Eq. 12) against the ensemble before it.

    S(t), the share of a sample that reaches this member, is what the selector says now, as a constant; without
    a selector every sample reaches it. L_rank is taken over a part of each batch, as the earlier members have to
    be run on that part once more.
    """

    def __init__(self, base: Supervised, earlier: Earlier, *, rank: float, selector: Selector | None) -> None:
        self.base = base
        self.earlier = earlier
        self.rank = rank
        self.selector = selector

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        terms = self.base.terms(batch, output)
        if self.rank:
            part = slice(math.ceil(RANK_SHARE * len(batch)))
            compared = Batch(batch.inputs[part], batch.targets[part], batch.ids[part], batch.index[part])
            reference_B, reached_B = self._before(compared)
            own_B = own_loss(self.base, output[part], compared.targets)
            terms["rank"] = self.rank * losses.rank_loss(own_B, reference_B, reached_B)
        return terms

    @torch.no_grad()
    def _before(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """(B,) the loss of the ensemble before this member, and (B,) S(t)."""
        outputs_BtHK = self.earlier(batch)
        equal = Aggregation.equal(outputs_BtHK.shape[1])
        names = FEATURES[self.base.task] if self.selector is None else self.selector.features
        features_BtF, answers_BtK = feature_table(names, outputs_BtHK, equal, self.base.task)
        reference_B = ensemble_loss_before(self.base, answers_BtK, batch.targets)
        if self.selector is None:
            return reference_B, torch.ones_like(reference_B)
        return reference_B, (1 - self.selector.halting_logits(features_BtF).sigmoid()).prod(1)


class JointObjective(Objective):
    """The recipe that does not collapse: the member learns from its batches, the selector from evidence.

    The selector gets the expected regret and cost at its halting step, and its side of L_rank.
    """

    def __init__(
        self,
        member: MemberObjective,
        selector: Selector,
        selector_optimizer: OptimizerOptions,
        weights: LossWeights,
        *,
        evidence: Evidence,
        price: Price,
        answer: Callable[[nn.Module], Tensor] | None,
    ) -> None:
        self.member = member
        self.companion: Selector = selector
        self.companion_optimizer = selector_optimizer
        self.weights = weights
        self.evidence = evidence
        self.price = price
        self.answer = answer  # the member's outputs on the evidence as it is now; None: they are there already
        self.batch_size = min(SELECTOR_BATCH, len(evidence))

    def begin_epoch(self, model: nn.Module, epoch: int) -> None:
        if self.answer is not None:
            self.evidence.refresh(self.answer(model))
        self.companion.standardise(self.evidence.features)

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        return self.member.terms(batch, output) | self._selector_terms()

    def _selector_terms(self) -> dict[str, Tensor]:
        seen = self.evidence
        rows = torch.randint(len(seen), (self.batch_size,), device=seen.features.device)
        logits_BT = self.companion.halting_logits(seen.features[rows])
        weights = self.weights
        terms = expected_terms(logits_BT, seen.regret[rows], self.price, ensemble=weights.ensemble, cost=weights.cost)
        if weights.rank:
            reached_B = maths.survival(logits_BT.sigmoid())[:, -1]
            rank = losses.rank_loss(seen.member_loss[rows], seen.reference_loss[rows], reached_B)
            terms["selector_rank"] = weights.rank * rank
        return terms

    @torch.no_grad()
    def figures(self) -> dict[str, float]:
        h_MT = maths.force_last(self.companion.halting_logits(self.evidence.features).sigmoid())
        S_MT = maths.survival(h_MT)
        steps = {f"S{t + 1}": value for t, value in enumerate(S_MT.mean(0).tolist())}
        return {**steps, "expected_members": float(S_MT.sum(1).mean()), "price": float(self.price.value)}

    def state(self) -> dict[str, Tensor]:
        return {"price": self.price.value}


class PaperObjective(Objective):
    """The paper's recipe to the letter: Eq. 10 to 12 on the training batches, h drawn by Gumbel-softmax."""

    def __init__(
        self,
        base: Supervised,
        earlier: Earlier,
        selector: Selector,
        selector_optimizer: OptimizerOptions,
        weights: LossWeights,
        costs_T: Tensor,
    ) -> None:
        self.base = base
        self.earlier = earlier
        self.companion: Selector = selector
        self.companion_optimizer = selector_optimizer
        self.weights = weights
        self.costs_T = costs_T
        self.reached = torch.zeros((), device=costs_T.device)

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        targets, weights = batch.targets, self.weights
        outputs_BtHK = torch.cat([self.earlier(batch), output.detach().float()[:, None]], 1)
        equal = Aggregation.equal(outputs_BtHK.shape[1])
        features_BtF, _ = feature_table(self.companion.features, outputs_BtHK, equal, self.base.task)
        h_Bt = losses.sample_halting(self.companion.halting_logits(features_BtF))
        S_Bt = maths.survival(h_Bt)
        p_Bt = maths.halting_distribution(maths.force_last(h_Bt))
        y_BtK = outputs_BtHK[:, :, 0]
        if self.base.task == "classification":
            y_BtK = y_BtK.softmax(2)
        before_BtK = maths.running_ensemble(y_BtK[:, :-1], S_Bt.detach()[:, :-1])
        reference_B = ensemble_loss_before(self.base, before_BtK, targets)
        rank = losses.rank_loss(own_loss(self.base, output, targets), reference_B, S_Bt[:, -1])
        self.reached.copy_(S_Bt.detach()[:, -1].mean())
        own = self.base.terms(batch, output)
        return own | losses.total_terms(
            own["base"],
            losses.ensemble_loss(y_BtK, S_Bt, targets, self.base.task, self.base.scale_K),
            losses.cost_loss(p_Bt, self.costs_T[: p_Bt.shape[1]]),
            rank,
            (weights.ensemble, weights.cost, weights.rank),
        )

    def figures(self) -> dict[str, float]:
        return {f"S{len(self.costs_T)}": float(self.reached)}


def own_loss(base: Supervised, output_BHK: Tensor, targets: Tensor) -> Tensor:
    """(B,): the loss of the member's own answer, that of its first head."""
    return losses.output_loss(output_BHK[:, :1], targets, base.task, base.scale_K)[:, 0]


def ensemble_loss_before(base: Supervised, answers_BtK: Tensor, targets: Tensor) -> Tensor:
    """(B,): the loss of the ensemble of the members before this one."""
    return losses.answer_loss(answers_BtK[:, -1:], targets, base.task, base.scale_K)[:, 0]
