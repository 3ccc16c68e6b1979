"""What a learned policy looks at: a few numbers a step from the newest member's heads and the ensemble so far."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from irene.errors import OptionError
from irene.halting.policies import cast_vote, relative_entropy_score, top_two_margin
from irene.halting.policy import State, Step
from irene.halting.rule import Aggregation
from irene.types import Task

# kl: divergence of the member's two heads, the paper's only signal; the others are of the running ensemble.
FEATURES: dict[Task, tuple[str, ...]] = {
    "classification": ("kl", "top1", "margin", "entropy", "agreement"),
    "regression": ("head_spread", "running_spread", "shift"),
}


def check_features(names: Sequence[str], task: Task) -> tuple[str, ...]:
    """The names if a selector for this task can use them; an error that lists the possible ones if not."""
    unknown = [name for name in names if name not in FEATURES[task]]
    if unknown or not names:
        found = ", ".join(unknown) or "none"
        raise OptionError(f"selector features for {task} are {', '.join(FEATURES[task])}; got {found}")
    return tuple(names)


def start_features(task: Task, batch: int, steps: int, device: torch.device) -> State:
    """What the features remember of each sample before the first step."""
    if task == "classification":
        return {"votes": torch.full((batch, steps), -1, dtype=torch.int64, device=device)}
    return {
        "square": torch.zeros(batch, device=device),
        "level": torch.zeros(batch, device=device),
    }


def step_features(names: Sequence[str], step: Step, state: State) -> tuple[Tensor, State]:
    """(B, F): the named features after one step, and the updated memory."""
    if step.task == "classification":
        values, state = _classification_features(step, state)
    else:
        values, state = _regression_features(step, state)
    return torch.stack([values[name] for name in names], 1), state


def head_divergence(heads_BHK: Tensor) -> Tensor:
    """(B,): KL divergence of the second head's distribution from the first's (A.1.2); zero with one head."""
    first_BK, second_BK = heads_BHK[:, 0], heads_BHK[:, -1]
    tiny = torch.finfo(heads_BHK.dtype).tiny
    return (first_BK * (first_BK.clamp_min(tiny).log() - second_BK.clamp_min(tiny).log())).sum(1)


def _classification_features(step: Step, state: State) -> tuple[dict[str, Tensor], State]:
    votes_BT = cast_vote(state["votes"], step)
    top1_B, answer_B = step.mean_BK.max(1)
    agreement_B = (votes_BT == answer_B[:, None]).sum(1) / (step.index + 1)
    values = {
        "kl": head_divergence(step.heads_BHK),
        "top1": top1_B,
        "margin": top_two_margin(step.mean_BK),
        "entropy": relative_entropy_score(step.mean_BK),
        "agreement": agreement_B,
    }
    return values, {"votes": votes_BT}


def _regression_features(step: Step, state: State) -> tuple[dict[str, Tensor], State]:
    distance_B = (step.heads_BHK - step.mean_BK[:, None]).square().mean((1, 2))
    square_B = state["square"] + distance_B
    level_B = step.mean_BK.mean(1)
    values = {
        "head_spread": (step.heads_BHK[:, 0] - step.heads_BHK[:, -1]).abs().mean(1),
        "running_spread": (square_B / (step.index + 1)).sqrt(),
        "shift": (level_B - state["level"]).abs() if step.index else torch.zeros_like(level_B),
    }
    return values, {"square": square_B, "level": level_B}


def already_final(means_NTK: Tensor) -> Tensor:
    """(N, T): whether the label of the ensemble so far is that of the whole ensemble, the last one."""
    labels_NT = means_NTK.argmax(2)
    return labels_NT == labels_NT[:, -1:]


@torch.no_grad()
def feature_table(
    names: Sequence[str], outputs_NTHK: Tensor, aggregation: Aggregation, task: Task
) -> tuple[Tensor, Tensor]:
    """(N, T, F) features and (N, T, K) running answers of saved outputs, for fitting a learned policy."""
    samples, steps, _, width = outputs_NTHK.shape
    state = start_features(task, samples, steps, outputs_NTHK.device)
    sum_NK = torch.zeros(samples, width, device=outputs_NTHK.device)
    features, means = [], []
    for t in range(steps):
        step, sum_NK = aggregation.observe(t, outputs_NTHK[:, t], sum_NK, task)
        values_NF, state = step_features(names, step, state)
        features.append(values_NF)
        means.append(step.mean_BK)
    return torch.stack(features, 1), torch.stack(means, 1)
