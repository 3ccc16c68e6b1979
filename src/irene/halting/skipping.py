"""Skipping: stopping that also chooses which member runs next, for each sample by itself.

In the spirit of cascade routing (arXiv 2410.10347): from what the members run so far answered, estimate what each
larger set of members would gain, go for the set that gains most per cost, and stop when even that is not worth it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

import torch
from torch import Tensor

from irene.errors import OptionError
from irene.halting.linear import least_squares
from irene.halting.policies import relative_entropy_score, top_two_margin
from irene.halting.policy import State, Stopper, needs_classes
from irene.halting.rule import Aggregation, sound_scores
from irene.models.member import as_heads
from irene.types import Prediction, Task

_MOST_MEMBERS = 8  # the estimates are a table over pairs of sets
_FEATURES = 4


@dataclass(frozen=True)
class Choice:
    """What a router decides after one more member."""

    mean_BK: Tensor  # the ensemble's answer so far
    score_B: Tensor  # minus the best gain per cost that is still to be had
    next_B: Tensor  # the member to run if the sample goes on


@final
class Router(Stopper):
    """Runs the most promising member next, sample by sample, and stops when the promise is not worth its cost.

    A set of members is a number whose bit i stands for member i. The score is minus the largest expected gain per
    cost of any larger set, so the threshold is minus the price of a unit of cost. The way of a sample through the
    members does not depend on the threshold, only its end does: so a router is calibrated as policies are.
    """

    name: ClassVar[str] = "skipping"

    def __init__(self, threshold: float = 0.0, *, costs: Sequence[float], first: int = 0) -> None:
        super().__init__(threshold)
        if not 1 <= len(costs) <= _MOST_MEMBERS:
            raise OptionError(f"skipping works with 1 to {_MOST_MEMBERS} members, got {len(costs)}")
        self.costs = tuple(float(cost) for cost in costs)
        self.first = first
        bits_T = 2 ** torch.arange(len(costs))
        sets_S = torch.arange(2 ** len(costs))
        contains_ST = (sets_S[:, None] & bits_T) > 0
        cost_S = contains_ST.to(torch.float64) @ torch.tensor(self.costs, dtype=torch.float64)
        larger_SS = ((sets_S[:, None] & sets_S) == sets_S[:, None]) & (sets_S[:, None] != sets_S)
        extra_SS = torch.where(larger_SS, cost_S - cost_S[:, None], torch.inf).float()
        self.bits_T: Tensor
        self.extra_SS: Tensor  # cost of going from one set to another; infinite where that is no larger one
        self.weight_SSF: Tensor
        self.bias_SS: Tensor
        self.register_buffer("bits_T", bits_T, persistent=False)
        self.register_buffer("extra_SS", extra_SS, persistent=False)
        self.register_buffer("weight_SSF", torch.zeros(*extra_SS.shape, _FEATURES))
        self.register_buffer("bias_SS", torch.zeros(extra_SS.shape))

    def options(self) -> dict[str, Any]:
        return {"costs": list(self.costs), "first": self.first}

    @classmethod
    @torch.no_grad()
    def fit(
        cls,
        outputs_NTHK: Tensor,
        labels_N: Tensor,
        aggregation: Aggregation,
        costs_T: Tensor,
        *,
        task: Task = "classification",
        first: int | None = None,
    ) -> Self:
        """Learn from saved outputs of all members; samples start at member `first`, else at the cheapest."""
        router = cls(costs=costs_T.tolist(), first=int(costs_T.argmin()) if first is None else first)
        router.check(outputs_NTHK.shape[1], aggregation, task)
        samples, device = len(labels_N), outputs_NTHK.device
        right_NS = torch.zeros(samples, len(router.bias_SS), dtype=torch.float64, device=device)
        seen: dict[int, Tensor] = {}
        for code in range(1, len(router.bias_SS)):
            state = router.begin(samples, outputs_NTHK.shape[3], device)
            for t in (t for t in range(len(router.costs)) if code >> t & 1):
                member_N = torch.full((samples,), t, device=device)
                state = _add(member_N, outputs_NTHK[:, t, 0], aggregation, state)
            mean_NK = state["sum"] / state["weight"][:, None]
            seen[code] = _features(mean_NK, state["votes"])
            right_NS[:, code] = (mean_NK.argmax(1) == labels_N).to(torch.float64)
        for code, features_NF in seen.items():
            weight_SF, bias_S = least_squares(features_NF, right_NS - right_NS[:, code : code + 1])
            router.weight_SSF[code] = weight_SF
            router.bias_SS[code] = bias_S
        return router

    def check(self, members: int, aggregation: Aggregation, task: Task) -> None:
        """Refuse regression, another number of members than was fitted, and members without weight."""
        needs_classes(self.name, task)
        if members != len(self.costs):
            raise OptionError(f"this router was fitted for {len(self.costs)} members, got {members}: fit it again")
        if min(aggregation.weights) <= 0:
            raise OptionError("skipping needs aggregation weights above 0: leave out the members without weight")

    def begin(self, batch: int, outputs: int, device: torch.device) -> State:
        """The memory of `batch` samples before the first member runs."""
        return {
            "votes": torch.full((batch, len(self.costs)), -1, dtype=torch.int64, device=device),
            "sum": torch.zeros(batch, outputs, device=device),
            "weight": torch.zeros(batch, device=device),
        }

    def take(self, member_B: Tensor, logits_BK: Tensor, aggregation: Aggregation, state: State) -> tuple[Choice, State]:
        """Take in the logits of the member that each sample has just run."""
        state = _add(member_B, logits_BK, aggregation, state)
        mean_BK = state["sum"] / state["weight"][:, None]
        features_BF = _features(mean_BK, state["votes"])
        set_B = ((state["votes"] >= 0) * self.bits_T).sum(1)
        gain_BS = (features_BF[:, None] * self.weight_SSF[set_B]).sum(2) + self.bias_SS[set_B]
        extra_BS = self.extra_SS[set_B]
        rate_BS = (gain_BS / extra_BS).masked_fill(extra_BS.isinf(), -torch.inf)
        best_rate_B, best_B = rate_BS.max(1)
        alone_BT = rate_BS.gather(1, set_B[:, None] | self.bits_T)  # by each member as the only next one
        alone_BT = alone_BT.masked_fill((best_B[:, None] & self.bits_T) == 0, -torch.inf)
        score_B = torch.where(best_rate_B.isinf(), 0.0, -best_rate_B)  # all have run: nothing more to gain
        return Choice(mean_BK, sound_scores(score_B, mean_BK), alone_BT.argmax(1)), state


def _add(member_B: Tensor, logits_BK: Tensor, aggregation: Aggregation, state: State) -> State:
    """Add each sample's newest member to its vote, its weighted sum and its weight."""
    device = logits_BK.device
    temperature_B = torch.tensor(aggregation.temperatures, device=device)[member_B]
    weight_B = torch.tensor(aggregation.weights, device=device)[member_B]
    probs_BK = torch.softmax(logits_BK.float() / temperature_B[:, None], 1)
    return {
        "votes": state["votes"].scatter(1, member_B[:, None], probs_BK.argmax(1, keepdim=True)),
        "sum": state["sum"] + weight_B[:, None] * probs_BK,
        "weight": state["weight"] + weight_B,
    }


def _features(mean_BK: Tensor, votes_BT: Tensor) -> Tensor:
    """(B, F) features of the ensemble so far, the same in whatever order its members ran."""
    top_B, answer_B = mean_BK.max(1)
    agreement_B = (votes_BT == answer_B[:, None]).sum(1) / (votes_BT >= 0).sum(1)
    return torch.stack([top_B, top_two_margin(mean_BK), relative_entropy_score(mean_BK), agreement_B], 1)


@torch.no_grad()
def follow(router: Router, aggregation: Aggregation, task: Task, outputs_NTHK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(N, T) scores, (N, T, K) running answers and (N, T) members of every step, had no sample stopped."""
    samples, steps, _, width = outputs_NTHK.shape
    router.check(steps, aggregation, task)
    rows_N = torch.arange(samples, device=outputs_NTHK.device)
    member_N = torch.full_like(rows_N, router.first)
    state = router.begin(samples, width, outputs_NTHK.device)
    scores, means, order = [], [], []
    for _ in range(steps):
        choice, state = router.take(member_N, outputs_NTHK[rows_N, member_N, 0], aggregation, state)
        scores.append(choice.score_B)
        means.append(choice.mean_BK)
        order.append(member_N)
        member_N = choice.next_B
    return torch.stack(scores, 1), torch.stack(means, 1), torch.stack(order, 1)


@torch.no_grad()
def predict(
    members: Sequence[Callable[[Tensor], Tensor]],
    router: Router,
    aggregation: Aggregation,
    inputs: Tensor,
    *,
    task: Task = "classification",
) -> Prediction:
    """Answer a batch: at each step, samples are grouped by the member the router chose for them."""
    router.check(len(members), aggregation, task)
    device = inputs.device
    running = torch.arange(len(inputs), device=device)  # rows that have not stopped
    member_B = torch.full_like(running, router.first)
    members_used = torch.zeros_like(running)
    trace = torch.full((len(inputs), len(members)), torch.nan, device=device)
    outputs: Tensor | None = None
    state: State = {}
    for step in range(len(members)):
        logits: Tensor | None = None
        for index in member_B.unique().tolist() or [router.first]:  # of no samples, the shape of the answer
            group = member_B == index
            answer = as_heads(members[index](inputs[running[group]]))[:, 0].float()
            logits = answer.new_zeros(len(running), answer.shape[1]) if logits is None else logits
            logits[group] = answer
        assert logits is not None  # some member has run
        if outputs is None:
            outputs = torch.zeros(len(inputs), logits.shape[1], device=device)
            state = router.begin(len(inputs), logits.shape[1], device)
        choice, state = router.take(member_B, logits, aggregation, state)
        outputs[running] = choice.mean_BK
        members_used[running] = step + 1
        trace[running, member_B] = choice.score_B
        going = choice.score_B < router.threshold
        running, member_B = running[going], choice.next_B[going]
        if len(running) == 0:
            break
        state = {key: value[going] for key, value in state.items()}
    assert outputs is not None  # there is at least one member
    return Prediction(task, outputs, members_used, trace)
