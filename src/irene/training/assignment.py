"""Which member learns from which sample: a diverse matching, found greedily.

The value of an assignment is the sum of the values of its pairs, plus a diversity of the samples of each member
(intra) and of those of each two members together (inter). Diversity is a feature-based submodular function: the
sum over features of the square root of how much of the feature a set holds. Each sample has at most k members and
each member at most p samples. So the value is monotone submodular and the limits are two matroids: greedy choice
is within a constant factor of the best.

N samples, T members, F features.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def shares(features_NF: Tensor) -> Tensor:
    """(N, F') how much of each feature a sample holds, as a share of all; each sign is a feature of its own."""
    parts_NF = torch.cat([features_NF.relu(), (-features_NF).relu()], 1).double()
    total_F = parts_NF.sum(0)
    seen = total_F > 0
    return (parts_NF[:, seen] / total_F[seen]).float()


@torch.no_grad()
def assign(
    value_NT: Tensor,
    shares_NF: Tensor,
    *,
    models: int,
    samples: int,
    intra: float,
    inter: float,
    rounds: int = 16,
) -> Tensor:
    """(N, T) a diverse assignment with at most `models` members a sample and `samples` samples a member.

    Pairs are chosen by their gain, highest first. Gains are computed anew for each of about `rounds` batches of pairs,
    at most one a sample, and not after each single pair, so that large data sets take seconds; with as many rounds as
    pairs it is the plain greedy algorithm.
    """
    count, members = value_NT.shape
    batch = max(1, math.ceil(min(count * models, members * samples) / rounds))
    chosen_NT = torch.zeros_like(value_NT, dtype=torch.bool)
    while True:
        room_N, room_T = models - chosen_NT.sum(1), samples - chosen_NT.sum(0)
        gain_NT = value_NT + _diversity_gain(shares_NF, chosen_NT, intra, inter)
        gain_NT = gain_NT.masked_fill(chosen_NT | (room_T <= 0), -math.inf)
        gain_N, member_N = gain_NT.max(1)
        gain_N = gain_N.masked_fill(room_N <= 0, -math.inf)
        rows = gain_N.argsort(descending=True, stable=True)[:batch]
        rows = rows[gain_N[rows] > -math.inf]
        if not len(rows):
            return chosen_NT
        member = member_N[rows]
        turn = one_hot(member, members).cumsum(0).gather(1, member[:, None])[:, 0]
        open_ = turn <= room_T[member]
        chosen_NT[rows[open_], member[open_]] = True


def _diversity_gain(shares_NF: Tensor, chosen_NT: Tensor, intra: float, inter: float) -> Tensor:
    """(N, T) what each pair would add to the diversity."""
    members = chosen_NT.shape[1]
    gain_NT = torch.zeros(chosen_NT.shape, device=shares_NF.device)
    for i in range(members):
        if intra:
            gain_NT[:, i] += intra * _gain(shares_NF, chosen_NT[:, i])
        for j in range(i):
            if inter:
                gain_N = inter / (members - 1) * _gain(shares_NF, chosen_NT[:, i] | chosen_NT[:, j])
                gain_NT[:, i] += gain_N
                gain_NT[:, j] += gain_N
    return gain_NT


def _gain(shares_NF: Tensor, chosen_N: Tensor) -> Tensor:
    """(N,) what each sample would add to the diversity of a set, zero for those in it."""
    held_F = chosen_N.float() @ shares_NF
    # sqrt(held + share) - sqrt(held), in the form that does not cancel
    rise_NF = shares_NF / ((held_F + shares_NF).sqrt() + held_F.sqrt()).clamp_min(1e-12)
    samples, features = shares_NF.shape
    return rise_NF.sum(1).masked_fill(chosen_N, 0.0) * (samples / features)
