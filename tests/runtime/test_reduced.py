"""An export in int8 tells what it cost, sets its points again, and refuses what it cannot."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
import torch
from torch import Tensor

from irene.data import Data
from irene.errors import CalibrationError, DataError
from irene.fitting import fit_policy
from irene.halting.rule import Aggregation
from irene.run import Run
from irene.runtime.export import load_irene
from irene.runtime.export.folder import export
from irene.runtime.export.graphs import Signature
from irene.runtime.export.reduced import heldout_samples, reduce
from irene.runtime.graph_backend import GraphBackend

from .conftest import needs_nncf, needs_openvino


@pytest.mark.parametrize("format", ["onnx", pytest.param("openvino", marks=[needs_openvino, needs_nncf])])
def test_int8_sets_thresholds_again_and_tells_what_it_cost(run: Run, blobs: Data, tmp_path: Path, format: Any) -> None:
    manifest = export(run, tmp_path / "out", format=format, int8=True, data=blobs, max_loss=0.05)
    report = manifest["quantisation"]
    assert manifest["precision"] == "int8"
    assert set(report["changes"]) == {"whole", "trained", *run.points}
    for change in report["changes"].values():
        assert change["loss"] <= 0.05
        assert change["cost_after"] == pytest.approx(change["cost_before"], abs=0.05)
    cascade = load_irene.load(tmp_path / "out")
    heldout = heldout_samples(run, run.bank("heldout"), blobs)
    assert heldout.inputs is not None
    found = cascade.predict(heldout.inputs.numpy())
    assert found.members_used.mean() == pytest.approx(report["changes"]["trained"]["cost_after"], abs=1e-6)
    assert (found.labels == heldout.targets.numpy()).mean() == pytest.approx(report["changes"]["trained"]["after"])


class Numb(GraphBackend):
    """What quantisation must never become: it answers the same whatever it is asked."""

    name = "numb"

    @classmethod
    def load(cls, member: Any, inputs: Tensor, *, precision: Any = "fp32") -> Self:
        return cls(Signature(), precision)

    @classmethod
    def open(cls, path: Path, signature: Signature, inputs: Tensor | None = None) -> Self:
        raise NotImplementedError

    def answer(self, rows: Any) -> Any:
        return np.tile(np.array([1, 0, 0], np.float32), (len(rows), 2, 1))

    def save(self, path: Path) -> None:
        raise NotImplementedError


def test_int8_that_costs_too_much_is_refused(run: Run, blobs: Data) -> None:
    with pytest.raises(CalibrationError, match=r"int8 costs the whole ensemble \d+\.\d+% of its accuracy"):
        reduce(run, run.members(), [run.point("margin")], blobs, Numb, max_loss=0.01)
    with pytest.raises(CalibrationError, match="operating point margin with int8 members: a mean cost of"):
        reduce(run, run.members(), [run.point("margin")], blobs, Numb, max_loss=1.0)


class Halves(Numb):
    """Members that answer as they did but for those told to be numb."""

    name = "halves"
    numb: Any = None

    @classmethod
    def load(cls, member: Any, inputs: Tensor, *, precision: Any = "fp32") -> Self:
        made = super().load(member, inputs, precision=precision)
        made.member = member
        return made

    def run(self, inputs: Tensor) -> Tensor:
        return super().run(inputs) if self.member is self.numb else self.member(inputs).detach()


def test_int8_is_judged_by_the_members_that_are_used(run: Run, blobs: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    members = run.members()
    monkeypatch.setattr(Halves, "numb", members[1])
    pair = replace(run.point("margin"), name="pair", members=(2, 0), aggregation=Aggregation.equal(2))
    reduced = reduce(run, members, [pair], blobs, Halves, max_loss=0.0)
    assert list(reduced.backends) == [0, 2]
    assert list(reduced.report["changes"]) == ["pair"]
    with pytest.raises(CalibrationError, match="int8 costs the whole ensemble"):
        reduce(run, members, [pair, run.point("margin")], blobs, Halves, max_loss=0.0)


def test_a_point_of_other_data_is_refused_before_members_are_quantised(run: Run, blobs: Data, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "run")
    other = Run.open(tmp_path / "run")
    about = {"split": "heldout", "fingerprint": "other"}
    other.save_bank("heldout", replace(run.bank("heldout"), about={**about, "fingerprint": "own"}))
    bank = replace(run.bank("heldout"), about=about)
    point = fit_policy(bank, "margin", cost=1.5, name="noisy")
    with pytest.raises(CalibrationError, match="point noisy with int8 members: it was calibrated on other samples"):
        reduce(other, [], [point], blobs, Numb, max_loss=1.0)
    with pytest.raises(CalibrationError, match="it was calibrated on other samples"):
        reduce(other, [], [point, point], blobs, Numb, max_loss=1.0, every=False)


def test_held_out_samples_are_found_again(run: Run, blobs: Data, curve: Data) -> None:
    bank = run.bank("heldout")
    found = heldout_samples(run, bank, blobs)
    assert torch.equal(found.ids, bank.ids)
    assert torch.equal(found.targets, bank.targets)
    with pytest.raises(DataError, match="curve is not the data"):
        heldout_samples(run, bank, curve)
    with pytest.raises(DataError, match="does not hold the samples"):
        heldout_samples(run, replace(bank, ids=bank.ids + 10_000), blobs)
