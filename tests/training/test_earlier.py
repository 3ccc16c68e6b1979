"""Answers of earlier members: looked up they are those of the members themselves."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from irene.data import Augment, Data, load, split
from irene.data.loader import Loader
from irene.training.checkpoint import Checkpoints
from irene.training.earlier import look_up, run_again, stays_the_same
from irene.training.loop import Loop
from irene.training.method import Training
from irene.training.options import LoopOptions
from irene.training.recorder import Recorder


@pytest.fixture
def training() -> Training:
    device = torch.device("cpu")
    return Training(
        splits=split(load("digits")),
        backbones=("mlp", "cnn"),
        loop=Loop(device=device, seed=0, recorder=Recorder(), checkpoints=Checkpoints(None)),
        loop_options=LoopOptions(),
        options=None,
    )


def test_a_table_answers_as_the_members_do(training: Training) -> None:
    members = [training.new_member(index, heads=2) for index in range(2)]
    samples = training.splits.train
    table = look_up([training.outputs(member, samples) for member in members], training.device)
    again = run_again(training, members)
    for batch in Loader(samples, batch_size=100, device="cpu", shuffle=True, seed=3).epoch(0):
        torch.testing.assert_close(table(batch), again(batch))
    assert not any(value.requires_grad for member in members for value in member.parameters())
    assert not any(member.training for member in members)


def test_a_table_of_some_rows_is_asked_by_their_place_among_them(training: Training) -> None:
    samples = training.splits.train
    rows = torch.randperm(len(samples))[:50]
    columns = [torch.randn(len(samples), 2, 10) for _ in range(3)]
    part = look_up(columns, training.device, rows)
    for batch in Loader(samples.subset(rows), batch_size=7, device="cpu", shuffle=True).epoch(0):
        place = {int(name): index for index, name in enumerate(samples.ids)}
        wanted = [place[int(name)] for name in batch.ids]
        assert torch.equal(part(batch), torch.stack(columns, 1)[wanted])


def test_samples_that_are_varied_do_not_stay_the_same(blobs: Data) -> None:
    assert stays_the_same(split(blobs))
    images = load("digits")
    assert stays_the_same(split(images))
    for augment in (Augment(crop=1), Augment(flip=True)):
        assert not stays_the_same(split(dataclasses.replace(images, augment=augment)))
