"""Least squares gives back the plane the values lie on, whatever the scale of the features."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from irene.halting.linear import least_squares, logistic, standardise


def test_equals_numpy_least_squares() -> None:
    features = torch.randn(500, 3) * torch.tensor([1.0, 10.0, 0.1]) + torch.tensor([0.0, 5.0, -2.0])
    values = features @ torch.randn(3, 2) + torch.randn(500, 2)
    weight, bias = least_squares(features, values)
    design = np.concatenate([features.numpy(), np.ones((500, 1))], 1).astype(np.float64)
    expected = np.linalg.lstsq(design, values.numpy(), rcond=None)[0].T
    fitted = features.double() @ weight.T + bias
    np.testing.assert_allclose(fitted, design @ expected.T, atol=0.03)  # the ridge shrinks by a thousandth


def test_a_constant_feature_gets_no_weight() -> None:
    features = torch.stack([torch.randn(50), torch.full((50,), 3.0)], 1)
    weight, bias = least_squares(features, features[:, :1])
    assert weight[0, 1] == 0
    assert abs(float(weight[0, 0]) - 1) < 0.01
    assert bool(bias.isfinite().all())


def test_standardised_features_have_mean_zero_and_spread_one() -> None:
    z, _, _ = standardise(torch.rand(200, 2) * 7 + 3)
    torch.testing.assert_close(z.mean(0), torch.zeros(2, dtype=torch.float64), atol=1e-9, rtol=0)
    torch.testing.assert_close(z.std(0, correction=0), torch.ones(2, dtype=torch.float64))


def test_where_all_or_none_stay_the_share_has_half_a_sample_added_to_each_side() -> None:
    for stays, share in ((torch.ones(9), 0.95), (torch.zeros(9), 0.05)):
        weight, bias = logistic(torch.randn(9, 2), stays.bool())
        assert weight.tolist() == [0, 0]
        assert 1 / (1 + np.exp(-bias)) == pytest.approx(share)
