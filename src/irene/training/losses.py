"""The losses, one pure function each: those of the paper, named by their equations, and that of distillation.

A member's raw output is (B, H, K): logits or values of its H heads; `y` (answers) are probabilities or values.
Regression losses are in units of the target's variance, so that weights mean the same for every data set.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from irene.halting import maths
from irene.types import Task


def spread(targets_NK: Tensor) -> Tensor:
    """(K,): the standard deviation of regression targets, exactly 0 where all values are the same."""
    return targets_NK.double().std(0).to(targets_NK.dtype)


def error_unit(targets_NK: Tensor) -> Tensor:
    """(K,): the unit of regression errors: the spread of their target. Errors in a constant target count nothing."""
    spread_K = spread(targets_NK)
    return spread_K.where(spread_K > 0, torch.inf)


def output_loss(output_BHK: Tensor, target: Tensor, task: Task, scale_K: Tensor | None = None) -> Tensor:
    """(B, H): the task's loss of each head's raw output: cross-entropy, or squared error over `scale` squared."""
    if task == "classification":
        heads = output_BHK.shape[1]
        return functional.cross_entropy(
            output_BHK.float().transpose(1, 2), target[:, None].expand(-1, heads), reduction="none"
        )
    error_BHK = output_BHK.float() - target[:, None]
    if scale_K is not None:
        error_BHK = error_BHK / scale_K
    return error_BHK.square().mean(2)


def answer_loss(answer_BTK: Tensor, target: Tensor, task: Task, scale_K: Tensor | None = None) -> Tensor:
    """(B, T): the task's loss of answers (probabilities or values), one for each step."""
    if task == "classification":
        picked_BT = answer_BTK.gather(2, target[:, None, None].expand(-1, answer_BTK.shape[1], 1))[:, :, 0]
        return -picked_BT.clamp_min(1e-8).log()
    return output_loss(answer_BTK, target, task, scale_K)


def base_loss(output_BHK: Tensor, target: Tensor, task: Task, scale_K: Tensor | None = None) -> Tensor:
    """L_base (Eq. 8): the task's loss of the member, its heads averaged. Trains the member."""
    return output_loss(output_BHK, target, task, scale_K).mean()


def head_discrepancy(output_BHK: Tensor, task: Task, scale_K: Tensor | None = None) -> Tensor:
    """L1 distance between the answers of a member's two heads, which training maximises (A.1.2)."""
    heads_BHK = output_BHK.float()
    if task == "classification":
        heads_BHK = heads_BHK.softmax(2)
    elif scale_K is not None:
        heads_BHK = heads_BHK / scale_K
    return (heads_BHK[:, 0] - heads_BHK[:, -1]).abs().sum(1).mean()


def teaching_loss(
    output_BHK: Tensor, teachers_BtHK: Tensor, task: Task, temperature: float, scale_K: Tensor | None = None
) -> Tensor:
    """How far each head is from what the teachers answer in the mean, by their first heads (Hinton et al. 2015).

    For classes the divergence from their softened probabilities, times the squared temperature so that its gradient
    is of one size whatever that is; for values the task's loss.
    """
    if task == "regression":
        return base_loss(output_BHK, teachers_BtHK[:, :, 0].mean(1), task, scale_K)
    taught_BK = (teachers_BtHK[:, :, 0].float() / temperature).softmax(2).mean(1)
    learnt_BHK = (output_BHK.float() / temperature).log_softmax(2)
    divergence_BHK = functional.kl_div(learnt_BHK, taught_BK[:, None].expand_as(learnt_BHK), reduction="none")
    return temperature**2 * divergence_BHK.sum(2).mean()


def ensemble_loss(y_BtK: Tensor, S_Bt: Tensor, target: Tensor, task: Task, scale_K: Tensor | None = None) -> Tensor:
    """L_ens (Eq. 10): the task's loss of the S-weighted ensemble of members 1..t. Trains the selector only."""
    ensemble_B1K = maths.running_ensemble(y_BtK.detach(), S_Bt)[:, -1:]
    return answer_loss(ensemble_B1K, target, task, scale_K).mean()


def cost_loss(p_BT: Tensor, costs_T: Tensor) -> Tensor:
    """L_cost (Eq. 11): the expected cost of the halting distribution. Trains the selector only."""
    return maths.expected_cost(p_BT, costs_T).mean()


def rank_loss(member_loss_B: Tensor, reference_loss_B: Tensor, S_t_B: Tensor) -> Tensor:
    """L_rank (Eq. 12): member t must beat the ensemble before it on the samples that reach it.

    Trains member t (through its loss) and the selector (through S(t)); the reference is a constant.
    """
    return torch.relu(S_t_B * (member_loss_B - reference_loss_B.detach())).mean()


def total_terms(
    base: Tensor, ensemble: Tensor, cost: Tensor, rank: Tensor, weights: tuple[float, float, float]
) -> dict[str, Tensor]:
    """L_total (Eq. 13) as named terms that sum to it: base + w1 * ensemble + w2 * cost + w3 * rank."""
    w1, w2, w3 = weights
    return {"base": base, "ensemble": w1 * ensemble, "cost": w2 * cost, "rank": w3 * rank}


def regret(answers_BTK: Tensor, task: Task, scale_K: Tensor | None = None) -> Tensor:
    """(B, T): what is lost by giving the answer of each step in place of the whole ensemble's, the last one.

    Classification: how much less probable the label is than the best one, by the whole ensemble's word. A change
    between labels that are as good as each other is no loss, so that nothing is spent on it. Regression: the squared
    distance.
    """
    whole_BK = answers_BTK[:, -1]
    if task == "classification":
        return whole_BK.amax(1, keepdim=True) - whole_BK.gather(1, answers_BTK.argmax(2))
    distance_BTK = answers_BTK - whole_BK[:, None]
    if scale_K is not None:
        distance_BTK = distance_BTK / scale_K
    return distance_BTK.square().mean(2)


def expected_loss(p_BT: Tensor, loss_BT: Tensor) -> Tensor:
    """The expectation of a loss at the halting step: the soft objective that needs no sampling."""
    return (p_BT * loss_BT).sum(1).mean()


def sample_halting(logits_BT: Tensor) -> Tensor:
    """(B, T) h_t in {0, 1}: a Gumbel-softmax draw, binarised with a straight-through gradient (Eq. 6's mask)."""
    uniform_BT = torch.rand_like(logits_BT).clamp(1e-6, 1 - 1e-6)
    noisy_BT = logits_BT + uniform_BT.log() - (-uniform_BT).log1p()  # the difference of two Gumbel draws
    soft_BT = noisy_BT.sigmoid()
    hard_BT = (soft_BT >= 0.5).to(soft_BT)
    return hard_BT + (soft_BT - soft_BT.detach())  # exactly 0 or 1, with the gradient of the soft value
