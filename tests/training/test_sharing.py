"""Members taken from another run are exactly those that would have been trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from irene.data import Data
from irene.errors import OptionError, RunError
from irene.run import Run
from irene.training.options import LoopOptions
from irene.training.train import TrainOptions, is_trained, train

LOOP = LoopOptions(epochs=3, batch_size=32)


def options(**given: Any) -> TrainOptions:
    return TrainOptions(device="cpu", **{"members": 3, **given})


@pytest.fixture(scope="module")
def average(blobs: Data, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train("average", blobs, tmp_path_factory.mktemp("runs") / "average", options=options(), loop=LOOP)


@pytest.mark.parametrize("method", ["single", "woc"])
def test_what_is_taken_is_what_would_have_been_trained(
    method: str, average: Run, blobs: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = train(method, blobs, tmp_path / "own", options=options(), loop=LOOP)
    with monkeypatch.context() as patch:
        patch.setattr("irene.training.loop.Loop._train", None)  # nothing may be trained
        taken = train(method, blobs, tmp_path / "taken", options=options(), loop=LOOP, members_of=average)
    for mine, theirs in zip(own.members(), taken.members(), strict=True):
        for a, b in zip(mine.state_dict().values(), theirs.state_dict().values(), strict=True):
            assert torch.equal(a, b)
    assert torch.equal(own.bank("test").outputs, taken.bank("test").outputs)
    assert own.policy().threshold == taken.policy().threshold
    lines = average.epochs()
    assert taken.epochs() == {stage: lines[stage] for stage in own.epochs()}


def test_members_that_would_differ_are_refused(average: Run, blobs: Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(RunError, match="trained with other seed"):
        train("woc", blobs, out, options=options(seed=1), loop=LOOP, members_of=average)
    with pytest.raises(RunError, match="trained with other data"):
        train("woc", blobs, out, options=options(heldout=0.3), loop=LOOP, members_of=average)
    with pytest.raises(RunError, match="trained with other backbones"):
        train("woc", blobs, out, options=options(members=4), loop=LOOP, members_of=average)
    with pytest.raises(RunError, match="trained with other training options"):
        train("woc", blobs, out, options=options(), loop=LoopOptions(epochs=4, batch_size=32), members_of=average)
    with pytest.raises(OptionError, match="irene does not train the members of average"):
        train("irene", blobs, out, options=options(), loop=LOOP, members_of=average)
    assert not out.exists()


def test_whether_a_training_is_there(average: Run, blobs: Data, tmp_path: Path) -> None:
    assert is_trained("average", blobs, average.path, options=options(), loop=LOOP)
    assert not is_trained("average", blobs, tmp_path, options=options(), loop=LOOP)
    with pytest.raises(RunError, match="started with method average, and snapshot was asked for"):
        is_trained("snapshot", blobs, average.path, options=options(), loop=LOOP)
    with pytest.raises(RunError, match=r"started with options\.loop\."):
        is_trained("average", blobs, average.path, options=options(), loop=LoopOptions())
