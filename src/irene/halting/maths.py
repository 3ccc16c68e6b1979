"""The halting equations of the paper, one pure function each, batched and differentiable.

Notation: h_t is the probability to halt at step t given that no earlier step halted, p_t the probability
that t is the halting step, S(t) the probability that step t is reached. Tensors are (B, T); `y` is (B, T, K).
"""

from __future__ import annotations

import torch
from torch import Tensor


def survival(h_BT: Tensor) -> Tensor:
    """S(t) from the conditional probabilities h (Eq. 4): the product of 1 - h over the steps before t."""
    # Not cumprod: its gradient looks for zeros on the host, which no CUDA graph can do.
    reached = [torch.ones_like(h_BT[:, 0])]
    for h_B in h_BT.unbind(1)[:-1]:
        reached.append(reached[-1] * (1 - h_B))
    return torch.stack(reached, 1)


def force_last(h_BT: Tensor) -> Tensor:
    """h with certainty at the last step: there is no member left to run, so p sums to one."""
    return torch.cat([h_BT[:, :-1], torch.ones_like(h_BT[:, :1])], 1)


def halting_distribution(h_BT: Tensor) -> Tensor:
    """p_t = h_t * S(t) (Eq. 5)."""
    return h_BT * survival(h_BT)


def running_ensemble(y_BTK: Tensor, S_BT: Tensor) -> Tensor:
    """(B, T, K): at every step the mean of the members so far, each weighted by S(i) (Eq. 9)."""
    weights_BT1 = S_BT[:, :, None]
    return (weights_BT1 * y_BTK).cumsum(1) / weights_BT1.cumsum(1)


def expected_cost(p_BT: Tensor, costs_T: Tensor) -> Tensor:
    """(B,): expected cost under p (Eq. 11), where halting at t pays for the members 1..t.

    `costs_T` is the cost of each member: ones give the paper's mean number of members, FLOPs or ms work alike.
    """
    return (p_BT * costs_T.to(p_BT).cumsum(0)).sum(1)
