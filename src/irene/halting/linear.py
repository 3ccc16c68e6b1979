"""Linear models with a little shrinkage: how policies estimate whether an answer stays and what a member gains."""

from __future__ import annotations

import math

import torch
from torch import Tensor

RIDGE = 1e-3


def standardise(features_NF: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Features with mean 0 and spread 1 in float64, with their mean and spread; a constant one becomes 0."""
    features_NF = features_NF.to(torch.float64)
    mean_F, std_F = features_NF.mean(0), features_NF.std(0, correction=0)
    constant_F = std_F <= 1e-6 * mean_F.abs().clamp_min(1)
    std_F = torch.where(constant_F, torch.inf, std_F)
    return (features_NF - mean_F) / std_F, mean_F, std_F


def least_squares(features_NF: Tensor, values_NL: Tensor) -> tuple[Tensor, Tensor]:
    """(L, F) weights and (L,) biases that predict each of L values from the features as they come."""
    z_NF, mean_F, std_F = standardise(features_NF)
    values_NL = values_NL.to(torch.float64)
    level_L = values_NL.mean(0)
    moments_FF = z_NF.T @ z_NF / len(z_NF) + RIDGE * torch.eye(z_NF.shape[1], dtype=torch.float64)
    weight_LF = torch.linalg.solve(moments_FF, z_NF.T @ (values_NL - level_L) / len(z_NF)).T / std_F
    return weight_LF, level_L - weight_LF @ mean_F


def logistic(features_NF: Tensor, stays_N: Tensor) -> tuple[Tensor, float]:
    """(F,) weights and the bias of a logistic regression on the features as they come."""
    stayed = int(stays_N.sum())
    if stayed in (0, len(stays_N)):  # nothing to tell apart: the share itself, kept off 0 and 1
        return torch.zeros(features_NF.shape[1]), math.log((stayed + 0.5) / (len(stays_N) - stayed + 0.5))
    from sklearn.linear_model import LogisticRegression

    z_NF, mean_F, std_F = standardise(features_NF)
    model = LogisticRegression(max_iter=1000).fit(z_NF.cpu().numpy(), stays_N.cpu().numpy())
    weight_F = torch.from_numpy(model.coef_[0]) / std_F.cpu()
    return weight_F, float(model.intercept_[0] - weight_F @ mean_F.cpu())
