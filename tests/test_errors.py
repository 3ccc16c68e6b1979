"""Errors reach whoever asked, also from another process."""

from __future__ import annotations

import multiprocessing

import pytest

from irene.errors import IreneError, MissingExtraError, OptionError, near


@pytest.mark.parametrize("error", [OptionError("give another"), MissingExtraError("timm", "vision")])
def test_an_error_of_a_worker_process_says_what_it_said_there(error: IreneError) -> None:
    here, there = multiprocessing.Pipe()
    there.send(error)
    again = here.recv()
    assert type(again) is type(error)
    assert str(again) == str(error) != ""


def test_a_missing_extra_names_the_command_that_installs_it() -> None:
    assert str(MissingExtraError("timm", "vision")) == (
        "timm is not installed: run pip install 'irene-ensemble[vision]'"
    )


def test_a_mistyped_name_is_told_the_nearest() -> None:
    assert near("resnt18", ["resnet18", "mlp"]) == ": did you mean resnet18?"
    assert near("cats", ["cat", "cast"]) == ": did you mean cat or cast?"
    assert near("quite-other", ["resnet18", "mlp"]) == ""
