from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from irene.errors import OptionError
from irene.run import Run
from irene.training.methods.snapshot import SnapshotOptions, cycle_lengths

Trainer = Callable[..., Run]


def epochs_by_stage(run: Run) -> Counter[str]:
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    return Counter(json.loads(line)["stage"] for line in lines)


@given(st.integers(1, 12), st.integers(0, 200))
def test_cycles_share_the_epochs_evenly(cycles: int, more: int) -> None:
    lengths = cycle_lengths(cycles + more, cycles)
    assert len(lengths) == cycles
    assert sum(lengths) == cycles + more
    assert min(lengths) >= 1
    assert max(lengths) - min(lengths) <= 1


def test_the_budget_is_that_of_one_model_unless_each_is_asked(trainer: Trainer) -> None:
    one = trainer("snapshot", name="one", epochs=6)
    assert epochs_by_stage(one) == {"cycle-1": 2, "cycle-2": 2, "cycle-3": 2}
    each = trainer("snapshot", name="each", epochs=3, options=SnapshotOptions(budget="each"))
    assert epochs_by_stage(each) == {"cycle-1": 3, "cycle-2": 3, "cycle-3": 3}


def test_each_cycle_goes_on_from_the_one_before(trainer: Trainer) -> None:
    still = trainer("snapshot", name="still", epochs=3, lr=1e-12)
    first, *others = still.members()
    for member in others:
        assert torch.allclose(member.head.weight, first.head.weight, atol=1e-9)
    outputs = trainer("snapshot", name="moving", epochs=6).bank("test").outputs
    assert not torch.allclose(outputs[:, 0], outputs[:, 1])


def test_refuses_what_cannot_work(trainer: Trainer) -> None:
    with pytest.raises(OptionError, match="budget of snapshots is one or each"):
        SnapshotOptions(budget="all")
    with pytest.raises(OptionError, match="3 snapshots need at least 3 epochs, got 2"):
        trainer("snapshot", name="short", epochs=2)
    with pytest.raises(OptionError, match="one backbone"):
        trainer("snapshot", name="mixed", backbones=("mlp", "mlp", "cnn"))
