from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from irene.bank import Bank
from irene.data import Data, load
from irene.errors import OptionError
from irene.halting.policies import Confidence
from irene.run import Run
from irene.training.methods.woc import WocOptions, choose_threshold
from irene.types import Cost

Trainer = Callable[..., Run]
GRID = [i / 100 for i in range(101)]


@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.02, 0.1]))
def test_chooses_the_cheapest_threshold_that_keeps_the_accuracy(seed: int, tolerance: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    targets = torch.randint(3, (40,), generator=generator)
    logits = torch.randn(40, 3, 1, 3, generator=generator) * 2
    logits += 2 * torch.nn.functional.one_hot(targets, 3)[:, None, None]
    path = bank(logits, targets).trajectory(Confidence())

    def measure(threshold: float) -> tuple[float, float]:
        prediction = path.stop(threshold)
        return float(prediction.cost.mean()), float((prediction.labels == targets).double().mean())

    whole = float((path.stop(2.0).labels == targets).double().mean())
    good = [t for t in GRID if measure(t)[1] >= whole - tolerance - 1e-9]
    chosen = choose_threshold(path, targets, tolerance)
    assert chosen in good
    assert measure(chosen)[0] == min(measure(t)[0] for t in good)


def test_falls_back_to_the_highest_threshold() -> None:
    # Every member is wholly sure of itself, the first one wrongly: no threshold up to 1 lets a sample go on.
    targets = torch.zeros(5, dtype=torch.int64)
    logits = torch.tensor([[-200.0, 200.0], [200.0, -200.0], [200.0, -200.0]]).expand(5, 3, 2)[:, :, None]
    assert choose_threshold(bank(logits, targets).trajectory(Confidence()), targets) == 1.0


def test_members_are_those_of_the_average_ensemble(trainer: Trainer) -> None:
    woc, average = trainer("woc", name="woc"), trainer("average", name="average")
    for split in ("heldout", "test"):
        assert torch.equal(woc.bank(split).outputs, average.bank(split).outputs)
    assert woc.policy().name == "confidence"
    assert woc.policy().threshold in GRID
    assert woc.figures["heldout"]["accuracy"] >= average.figures["heldout"]["accuracy"]
    assert woc.figures["test"]["cost"] < 3


def test_a_run_keeps_to_its_tolerance(trainer: Trainer) -> None:
    run = trainer("woc", options=WocOptions(tolerance=0.99))
    assert run.policy().threshold == 0
    assert run.figures["test"]["cost"] == 1


def test_test_labels_change_nothing(trainer: Trainer) -> None:
    data = load("digits")
    shuffled = data.test.targets[torch.randperm(len(data.test), generator=torch.Generator().manual_seed(0))]
    changed = Data(
        name=data.name,
        task=data.task,
        train=data.train,
        test=type(data.test)(data.test.inputs, shuffled, data.test.ids),
        classes=data.classes,
        fingerprint="changed",
    )
    first, other = trainer("woc", name="first"), trainer("woc", name="other", data=changed)
    assert first.policy().threshold == other.policy().threshold
    assert torch.equal(first.bank("test").outputs, other.bank("test").outputs)


def test_refuses_what_cannot_work(trainer: Trainer) -> None:
    with pytest.raises(OptionError, match="woc stops by class probabilities"):
        trainer("woc", name="values", data="diabetes")
    with pytest.raises(OptionError, match=r"hold some out \(heldout above 0, --heldout\)"):
        trainer("woc", name="none", heldout=0)
    with pytest.raises(OptionError, match="share from 0 to below 1"):
        WocOptions(tolerance=-0.1)


def bank(outputs_NTHK: torch.Tensor, targets: torch.Tensor) -> Bank:
    ids = torch.arange(len(targets))
    return Bank(task="classification", outputs=outputs_NTHK, targets=targets, ids=ids, costs=(Cost(),) * 3)
