"""Least squares with a little shrinkage: the model behind the policies that estimate what one more member gains."""

from __future__ import annotations

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
