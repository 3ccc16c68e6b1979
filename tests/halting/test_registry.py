"""Every policy has a name, and comes back from JSON and tensors as it was."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from irene.bank import Bank
from irene.errors import OptionError
from irene.files import as_json
from irene.halting import registry
from irene.halting.policies import Margin
from irene.halting.policy import Stopper

GIVEN: dict[str, Any] = {"steps": 3, "costs": [1.0, 2.0, 3.0]}


def make(name: str) -> Stopper:
    """A policy of this name with unlikely weights, so that none is left out unnoticed."""
    kind = registry.POLICIES[name]
    needed = {key: GIVEN[key] for key in inspect.signature(kind).parameters if key in GIVEN}
    policy = kind(0.37, **needed)
    for tensor in policy.state_dict().values():
        tensor.copy_(torch.randn(tensor.shape).abs() + 0.1)
    return policy


@pytest.mark.parametrize("name", registry.POLICIES)
def test_a_policy_comes_back_as_it_was(name: str, make_bank: Callable[..., Bank]) -> None:
    policy = make(name)
    written = json.loads(json.dumps(as_json(registry.describe(policy))))
    back = registry.restore(written, policy.state_dict())
    assert type(back) is type(policy)
    assert back.options() == policy.options()
    assert not back.training
    bank = make_bank(20, task="regression" if name == "spread" else "classification")
    mine, its = bank.replay(policy), bank.replay(back)
    assert torch.equal(mine.members_used, its.members_used)
    assert torch.equal(mine.outputs, its.outputs)


def test_names_are_those_of_the_classes() -> None:
    assert all(name == policy.name for name, policy in registry.POLICIES.items())


@pytest.mark.parametrize("threshold", [math.inf, -math.inf])
def test_a_threshold_nobody_or_everybody_reaches_comes_back(threshold: float) -> None:
    written = json.loads(json.dumps(as_json(registry.describe(Margin(threshold))), allow_nan=False))
    assert registry.restore(written).threshold == threshold


def test_a_misspelt_name_is_recognised() -> None:
    with pytest.raises(OptionError, match=r"unknown policy 'magrin': did you mean margin\?"):
        registry.restore({"name": "magrin", "threshold": 0.5, "options": {}})
    with pytest.raises(OptionError, match=r"there are: agreement, "):
        registry.restore({"name": "zzz", "threshold": 0.5, "options": {}})
