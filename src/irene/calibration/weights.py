"""How much each member counts in the mean, fitted on held-out data."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.bank import Bank
from irene.calibration.temperature import fit_temperatures
from irene.errors import OptionError
from irene.halting.rule import Aggregation
from irene.types import Task, differ_in_size

Weights = bool | None  # None: fitted where members differ in size
_CONSTANT = 1e-6  # of the largest value: a column of targets that spreads less is one value
_RIDGE = 0.01  # holds weights near equal where the data say little


def fit_aggregation(bank: Bank, *, temperature: bool = True, weights: Weights = False) -> Aggregation:
    """Temperatures and weights of the members, fitted on a bank."""
    steps = bank.steps
    weights = differ_in_size(bank.costs) if weights is None else weights
    temperatures = (1.0,) * steps
    if temperature and bank.task == "classification":
        temperatures = fit_temperatures(bank.outputs, bank.targets)
    if weights is True:
        answers_NTK = bank.outputs[:, :, 0].float()
        if bank.task == "classification":
            answers_NTK = (answers_NTK / torch.tensor(temperatures)[:, None]).softmax(2)
        return Aggregation(fit_weights(answers_NTK, bank.targets, bank.task), temperatures)
    if weights is not False:
        raise OptionError(
            f"weights must be True (fit them), False (equal) or None (fit them where members differ), got {weights!r}"
        )
    return Aggregation((1.0,) * steps, temperatures)


def fit_weights(answers_NTK: Tensor, targets: Tensor, task: Task) -> tuple[float, ...]:
    """Positive weights with mean 1 that give the whole ensemble the lowest NLL (regression: squared error)."""
    from scipy.optimize import minimize

    if task == "classification":
        given_NT = answers_NTK.to(torch.float64).gather(2, targets[:, None, None].expand(-1, answers_NTK.shape[1], 1))
        given_NT = given_NT[:, :, 0].clamp_min(torch.finfo(torch.float32).tiny)
    else:
        targets_NK = targets.reshape(len(targets), -1).to(torch.float64)
        scale_K = targets_NK.std(0, correction=0)
        varies_K = scale_K > _CONSTANT * targets_NK.abs().amax(0)
        scale_K = scale_K.where(varies_K, torch.inf)  # by a value that all samples share, members differ in noise
        columns = varies_K.sum().clamp_min(1)
        error_NTK = (answers_NTK - targets_NK[:, None]) / scale_K

    def objective(free: NDArray[Any]) -> tuple[float, NDArray[Any]]:
        free_T = torch.tensor(free, requires_grad=True)
        share_T = free_T.softmax(0)
        if task == "classification":
            loss = -(given_NT @ share_T).log().mean()
        else:
            loss = torch.einsum("ntk,t->nk", error_NTK, share_T).square().sum(1).mean() / columns
        loss = loss + _RIDGE * (free_T - free_T.mean()).square().mean()
        (gradient,) = torch.autograd.grad(loss, free_T)
        return loss.item(), gradient.numpy()

    start = torch.zeros(answers_NTK.shape[1], dtype=torch.float64).numpy()
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(-10.0, 10.0)] * len(start))
    share_T = torch.from_numpy(found.x).softmax(0)
    return tuple((share_T * len(start)).tolist())
