"""What happens at every step, had no sample stopped: computed once, it answers for every threshold."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from irene.errors import OptionError
from irene.halting import skipping
from irene.halting.policy import Stopper
from irene.halting.rule import Aggregation, Rule
from irene.types import Prediction, Task


@dataclass(frozen=True)
class Trajectory:
    """Scores and running answers of N samples at all T steps."""

    task: Task
    scores_NT: Tensor
    means_NTK: Tensor
    order_NT: Tensor | None = None  # the member each sample runs at each step; None: the first, the second, ...

    @property
    def steps(self) -> int:
        return self.scores_NT.shape[1]

    def costs(self, costs_T: Tensor) -> Tensor:
        """(N, T) what a sample has cost when it stops at each step, from the cost of each member."""
        if self.order_NT is None:
            return costs_T.cumsum(0).expand(len(self.scores_NT), -1)
        return costs_T[self.order_NT].cumsum(1)

    def cuts(self) -> Tensor:
        """(M,) every threshold that makes a difference, ascending.

        One lies below all scores, one midway between each two neighbouring distinct ones, one above all.
        """
        distinct = self._reached().unique()
        distinct = distinct[distinct.isfinite()]
        if len(distinct) == 0:  # no sample can ever stop early
            return torch.zeros(1, dtype=self.scores_NT.dtype, device=self.scores_NT.device)
        low, high = distinct[:-1], distinct[1:]
        middle = ((low.double() + high.double()) / 2).to(distinct.dtype)
        middle = torch.where(middle > low, middle, high)  # neighbouring floats have nothing between them
        first, last = distinct[:1], distinct[-1:]
        return torch.cat([first - first.abs().clamp_min(1), middle, last + last.abs().clamp_min(1)])

    def sweep(self, thresholds_M: Tensor, values_NT: Tensor) -> Tensor:
        """(M,) for each threshold the mean over samples of a value at the step where each sample stops.

        The value may be a cost, right or wrong, a loss: anything known for every sample at every step.
        """
        reached_NT = self._reached()
        thresholds_M = thresholds_M.to(reached_NT)
        values_NT = values_NT.to(torch.float64)
        total_M = values_NT[:, 0].sum().expand(len(thresholds_M))
        for t in range(self.steps - 1):
            # Whoever has not reached the threshold by step t goes on, and changes its value for the next step's.
            score_N, place_N = reached_NT[:, t].contiguous().sort()
            change_N = (values_NT[:, t + 1] - values_NT[:, t])[place_N].cumsum(0)
            change_N = torch.cat([change_N.new_zeros(1), change_N])
            total_M = total_M + change_N[torch.searchsorted(score_N, thresholds_M)]
        return total_M / len(values_NT)

    def _reached(self) -> Tensor:
        """(N, T - 1) the highest score up to each step at which a sample may stop early."""
        return self.scores_NT[:, :-1].cummax(1).values

    def halting_steps(self, threshold: float) -> Tensor:
        """(N,) the step at which each sample stops, counted from 1."""
        halt_NT = self.scores_NT >= threshold
        halt_NT[:, -1] = True
        return halt_NT.to(torch.uint8).argmax(1) + 1

    def stop(self, threshold: float) -> Prediction:
        """The predictions of a cascade that stops at this threshold."""
        return self.stop_at(self.halting_steps(threshold))

    def stop_at(self, members_used_N: Tensor) -> Prediction:
        """The predictions when each sample stops at a given step, counted from 1."""
        rows = torch.arange(len(members_used_N), device=members_used_N.device)
        not_run_NT = torch.arange(self.steps, device=rows.device) >= members_used_N[:, None]
        trace_NT = self.scores_NT.masked_fill(not_run_NT, torch.nan)
        if self.order_NT is not None:
            trace_NT = torch.empty_like(trace_NT).scatter_(1, self.order_NT, trace_NT)
        return Prediction(
            task=self.task,
            outputs=self.means_NTK[rows, members_used_N - 1],
            members_used=members_used_N,
            trace=trace_NT,
        )


def first_scores(scores_NT: Tensor) -> Tensor:
    """(N,) the scores of the first step that gives every sample one; none where no step does."""
    finite_T = scores_NT.isfinite().all(0)
    if not bool(finite_T.any()):
        return scores_NT.new_empty(0)
    return scores_NT[:, int(finite_T.to(torch.uint8).argmax())]


def nearest(costs_M: Tensor, asked: float) -> int:
    """Index of the mean cost that is nearest to the one asked for, the first of equals."""
    within = costs_M.new_tensor(asked).clamp(costs_M.min(), costs_M.max())  # all are as far from what is too large
    return int((costs_M - within).abs().argmin())


@torch.no_grad()
def follow(stopper: Stopper, aggregation: Aggregation, task: Task, outputs_NTHK: Tensor) -> Trajectory:
    """Follow a policy or a router over saved member outputs without stopping any sample."""
    samples, steps, _, width = outputs_NTHK.shape
    expected = len(aggregation.weights)
    if steps != expected:
        raise OptionError(f"the rule is for {expected} members and the outputs are of {steps}")
    if isinstance(stopper, skipping.Router):
        return Trajectory(task, *skipping.follow(stopper, aggregation, task, outputs_NTHK))
    rule = Rule.of(stopper, aggregation, task)
    state = rule.start(samples, width, outputs_NTHK.device)
    scores, means = [], []
    for t in range(steps):
        outcome, state = rule.step(t, outputs_NTHK[:, t], state)
        scores.append(outcome.score_B)
        means.append(outcome.mean_BK)
    return Trajectory(task, torch.stack(scores, 1), torch.stack(means, 1))
