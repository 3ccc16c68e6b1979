from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits

from irene.models import MemberSpec, build, statistics


@pytest.mark.parametrize(("backbone", "enough"), [("cnn", 0.93), ("mlp", 0.85)])
def test_learns_digits_within_seconds(backbone: str, enough: float) -> None:
    digits = load_digits()
    images = torch.from_numpy(digits.images).to(torch.uint8)[:, None]
    labels = torch.from_numpy(digits.target)
    mean, std = statistics(images[:1200])
    member = build(MemberSpec(backbone=backbone, shape=(1, 8, 8), outputs=10), seed=0, mean=mean, std=std)
    optimiser = torch.optim.SGD(member.parameters(), lr=0.05, momentum=0.9)
    order = torch.randperm(1200, generator=torch.Generator().manual_seed(0))
    for _ in range(4):
        for rows in order.split(50):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(member(images[rows])[:, 0], labels[rows]).backward()
            optimiser.step()
    with torch.no_grad():
        answers = member.eval()(images[1200:])[:, 0].argmax(1)
    assert (answers == labels[1200:]).float().mean() > enough
