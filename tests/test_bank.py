"""A bank holds what members answered, keeps it together, and survives the disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from irene.bank import Bank, collect, mix
from irene.cascade import Cascade
from irene.data import Loader
from irene.data.samples import Data
from irene.errors import DataError, OptionError
from irene.halting.policies import Margin, Never
from irene.halting.rule import Aggregation
from irene.types import Cost

COSTS = (Cost(parameters=1, flops=2.0, ms=3.0), Cost(parameters=4), Cost(ms=0.5))


def test_the_synthetic_bank_is_as_accurate_as_was_asked_for(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(200, accuracy=[0.5, 0.75, 1.0])
    right = bank.outputs[:, :, 0].argmax(2) == bank.targets[:, None]
    assert right.double().mean(0).tolist() == [0.5, 0.75, 1.0]


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_bank_survives_the_disk(tmp_path: Path, make_bank: Callable[..., Bank], task: str) -> None:
    bank = make_bank(17, task=task, costs=COSTS)
    gates = torch.rand(17, 3).softmax(1)
    bank = Bank(**{**vars(bank), "gates": gates, "about": {"split": "test", "classes": ["a", "b"]}})
    path = tmp_path / "banks" / "test.safetensors"
    digest = bank.save(path)
    back = Bank.load(path)
    assert len(digest) == 64
    assert (back.task, back.costs, back.about) == (bank.task, COSTS, bank.about)
    for name in ("outputs", "targets", "ids", "gates"):
        assert torch.equal(getattr(back, name), getattr(bank, name))


def test_half_precision_halves_the_file_and_nothing_else(tmp_path: Path, make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(400, outputs=20)
    bank.save(tmp_path / "full")
    bank.save(tmp_path / "half", dtype=torch.float16)
    back = Bank.load(tmp_path / "half")
    assert (tmp_path / "half").stat().st_size < 0.6 * (tmp_path / "full").stat().st_size
    assert back.outputs.dtype == torch.float32
    torch.testing.assert_close(back.outputs, bank.outputs, rtol=1e-3, atol=1e-3)


def test_rows_and_members_stay_together(make_bank: Callable[..., Bank]) -> None:
    bank = Bank(**{**vars(make_bank(10, costs=COSTS)), "gates": torch.rand(10, 3)})
    rows = torch.tensor([7, 2])
    part = bank.rows(rows)
    assert part.ids.tolist() == [1007, 1002]
    assert torch.equal(part.targets, bank.targets[rows])
    assert torch.equal(part.outputs, bank.outputs[rows])
    swapped = bank.members([2, 0])
    assert swapped.costs == (COSTS[2], COSTS[0])
    assert swapped.steps == 2
    assert torch.equal(swapped.outputs, bank.outputs[:, [2, 0]])
    assert bank.gates is not None
    assert part.gates is not None
    assert swapped.gates is not None
    assert torch.equal(part.gates, bank.gates[rows])
    assert torch.equal(swapped.gates, bank.gates[:, [2, 0]])


def test_replay_without_a_policy_runs_everything(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(10)
    assert bank.replay().members_used.tolist() == [3] * 10
    assert torch.equal(bank.replay().outputs, bank.replay(Never()).outputs)


def test_replay_of_an_empty_bank_is_empty(make_bank: Callable[..., Bank]) -> None:
    assert len(make_bank(10).rows(torch.arange(0)).replay(Margin())) == 0


def test_mix_weighs_members_by_their_gates_and_skips_those_without(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(3)
    gates = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.2, 0.3, 0.5]])
    prediction = mix(bank.outputs, gates, "classification")
    probs = bank.outputs[:, :, 0].softmax(2)
    torch.testing.assert_close(prediction.probs, torch.einsum("nt,ntk->nk", gates, probs))
    assert prediction.members_used.tolist() == [2, 1, 3]
    assert prediction.ran.tolist() == [[True, True, False], [False, False, True], [True, True, True]]


def test_collect_keeps_the_order_of_the_samples(blobs: Data) -> None:
    loader = Loader(blobs.test, batch_size=16, device="cpu", shuffle=False)
    outputs = collect(lambda x: x[:, :3], loader.epoch(0))
    assert outputs.shape == (len(blobs.test), 1, 3)
    assert blobs.test.inputs is not None
    assert torch.equal(outputs[:, 0], blobs.test.inputs[:, :3])


def test_a_bank_whose_parts_do_not_fit_is_refused(make_bank: Callable[..., Bank]) -> None:
    fields = vars(make_bank(5))
    with pytest.raises(OptionError, match="got 3 axes"):
        Bank(**{**fields, "outputs": fields["outputs"][:, 0]})
    with pytest.raises(OptionError, match="as many targets and ids, got 4 and 5"):
        Bank(**{**fields, "targets": fields["targets"][:4]})
    with pytest.raises(OptionError, match="got 5 and 3; samples are the first axis of outputs, and members the second"):
        Bank(**{**fields, "outputs": fields["outputs"].transpose(0, 1), "ids": fields["ids"][:3]})
    with pytest.raises(OptionError, match="3 members needs as many costs, got 1"):
        Bank(**{**fields, "costs": (Cost(),)})
    with pytest.raises(OptionError, match="gates"):
        Bank(**{**fields, "gates": torch.ones(5, 2)})
    outputs = fields["outputs"].clone()
    outputs[2, 1, 0, 0] = torch.nan
    with pytest.raises(OptionError, match="NaN or infinity"):
        Bank(**{**fields, "outputs": outputs})


def test_an_aggregation_for_other_members_is_refused(make_bank: Callable[..., Bank]) -> None:
    with pytest.raises(OptionError, match="2 members"):
        make_bank(5).replay(Margin(), Aggregation.equal(2))


def test_files_that_are_no_bank_are_named(tmp_path: Path, make_bank: Callable[..., Bank]) -> None:
    with pytest.raises(DataError, match=r"none\.safetensors: no such bank"):
        Bank.load(tmp_path / "none.safetensors")
    with pytest.raises(DataError, match="not a bank"):
        Bank.load(tmp_path)
    path = tmp_path / "bank.safetensors"
    make_bank(50).save(path)
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(DataError, match=r"bank\.safetensors: not a bank that irene wrote \(.*\); make it again"):
        Bank.load(path)
    save_file({"outputs": torch.zeros(1, 1, 1, 1)}, path)
    with pytest.raises(DataError, match="not a bank that irene wrote"):
        Bank.load(path)
    save_file({"outputs": torch.zeros(1, 1, 1, 1)}, path, metadata={"bank": "[1"})
    with pytest.raises(DataError, match="not a bank that irene wrote"):
        Bank.load(path)


def test_a_bank_is_shown_in_a_line_and_equal_to_itself_alone(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(5)
    assert repr(bank) == "Bank(classification, 5 samples, 3 members, 2 heads, 4 outputs)"
    assert bank != make_bank(5)
    assert bank in [make_bank(5), bank]


def halves(inputs: Tensor) -> Tensor:
    return torch.stack([inputs[:, 0], -inputs[:, 0]], 1)


def test_batches_of_a_data_loader_give_the_bank_of_the_arrays() -> None:
    inputs, labels = torch.randn(50, 3), torch.randint(2, (50,))
    cascade = Cascade([halves, lambda x: halves(x + 1)])
    whole = Bank.of(cascade, inputs, labels)
    batches = Bank.of(cascade, DataLoader(TensorDataset(inputs, labels), batch_size=8))
    assert torch.equal(batches.outputs, whole.outputs)
    assert torch.equal(batches.targets, whole.targets)
    with pytest.raises(OptionError, match="got no batch"):
        Bank.of(cascade, iter([]))
    with pytest.raises(OptionError, match="needs targets: give them after the inputs"):
        Bank.of(cascade, inputs)
    with pytest.raises(OptionError, match=r"expected batches of \(inputs, targets\), got Tensor"):
        Bank.of(cascade, inputs.split(8))
    with pytest.raises(OptionError, match="got a single sample: give a DataLoader"):
        Bank.of(cascade, TensorDataset(inputs, labels))


@pytest.mark.parametrize(
    ("member", "shape"),
    [
        (lambda x: torch.zeros(len(x), 3), r"\(8, 1, 3\)"),
        (lambda x: torch.zeros(len(x) - 1, 2), r"\(7, 1, 2\)"),
        (lambda x: torch.zeros(len(x), 2, 2), r"\(8, 2, 2\)"),
    ],
)
def test_a_member_whose_outputs_do_not_fit_is_named(member: Any, shape: str) -> None:
    with pytest.raises(OptionError, match=rf"member 2 gave outputs of shape {shape} where \(8, 1, 2\) was expected"):
        Bank.of(Cascade([halves, member]), torch.randn(8, 3), torch.zeros(8, dtype=torch.int64))


def test_probabilities_are_not_taken_for_logits() -> None:
    inputs, labels = torch.randn(50, 3), torch.randint(2, (50,))
    probable = Cascade([halves, lambda x: halves(x).softmax(1)])
    with pytest.raises(OptionError, match=r"member 2 gave probabilities, .* return logits, or the logarithm"):
        Bank.of(probable, inputs, labels)
    Bank.of(Cascade([lambda x: halves(x).log_softmax(1)]), inputs, labels)
    values = Cascade(probable.members, task="regression")
    assert torch.equal(Bank.of(values, inputs, torch.randn(50, 2)).outputs[:, 1, 0], halves(inputs).softmax(1))


def test_a_task_that_is_none_is_refused() -> None:
    with pytest.raises(OptionError, match="task must be one of classification, regression"):
        Bank.from_arrays(torch.randn(5, 2, 3), torch.zeros(5), task="regresion")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int8, np.int32, bool])
def test_labels_may_be_of_any_integer_type(dtype: Any) -> None:
    labels = np.array([0, 1, 1, 0, 1])
    bank = Bank.from_arrays(torch.randn(5, 2, 3), labels.astype(dtype))
    assert bank.targets.dtype == torch.int64
    assert bank.targets.tolist() == labels.tolist()


def test_members_that_change_their_inputs_give_the_bank_of_their_answers() -> None:
    def changing(batch: Tensor) -> Tensor:
        return halves(batch.mul_(0.5))

    inputs, labels = torch.randn(50, 3), torch.randint(2, (50,))
    given = inputs.clone()
    cascade = Cascade([changing, changing], Margin(0.3))
    bank = Bank.of(cascade, given, labels)
    assert torch.equal(given, inputs)
    assert torch.equal(bank.outputs[:, :, 0], halves(inputs * 0.5)[:, None].expand(-1, 2, -1))
    assert torch.equal(bank.replay(Margin(0.3)).probs, cascade.predict(given).probs)


def test_members_that_use_memory_again_give_the_bank_of_their_answers() -> None:
    memory = torch.zeros(50, 2)

    def in_memory(batch: Tensor) -> Tensor:
        return memory[: len(batch)].copy_(halves(batch))

    inputs, labels = torch.randn(50, 3), torch.randint(2, (50,))
    bank = Bank.of(Cascade([in_memory, in_memory]), inputs, labels, batch_size=8)
    assert torch.equal(bank.outputs[:, :, 0], halves(inputs)[:, None].expand(-1, 2, -1))


def test_the_member_and_the_sample_that_are_not_finite_are_named() -> None:
    outputs = torch.zeros(6, 3, 2)
    outputs[2, 1, 0], outputs[5, 0, 1] = -torch.inf, torch.nan
    with pytest.raises(
        OptionError, match=r"member 2 gave NaN or infinity for sample 2, the first of 2 such: leave them out"
    ):
        Bank.from_arrays(outputs, torch.zeros(6, dtype=torch.int64))


def test_what_targets_were_expected_is_said() -> None:
    with pytest.raises(OptionError, match="at least two outputs a member, got 1: return two logits for two classes"):
        Bank.from_arrays(torch.randn(4, 2, 1), torch.tensor([0, 1, 0, 1]))
    with pytest.raises(OptionError, match="for classes give their indices as whole numbers"):
        Bank.from_arrays(torch.randn(4, 2, 3), torch.tensor([0.0, 1.0, 2.0, 1.0]), task="regression")
    with pytest.raises(OptionError, match=r"got shape \(4,\) of torch.float32: give whole numbers in an integer type"):
        Bank.from_arrays(torch.randn(4, 2, 3), torch.tensor([0.0, 1.0, 2.0, 1.0]))


def test_what_is_no_cascade_or_policy_is_told_as_such(make_bank: Callable[..., Bank]) -> None:
    members: Any = [torch.nn.Linear(4, 3)]
    with pytest.raises(OptionError, match=r"expected a cascade, got list: make one with Cascade\.from_members"):
        Bank.of(members, torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(OptionError, match=r"a threshold, such as irene\.Margin\(0\.8\), got 'margin'"):
        make_bank(20).replay("margin")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"is an irene\.Cost, such as Cost\(flops=2e6\), got 1"):
        Bank.from_arrays(torch.randn(4, 2, 3), torch.zeros(4, dtype=torch.int64), costs=[1, 2])  # type: ignore[list-item]


def test_the_path_of_a_file_may_be_text(tmp_path: Path, make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(20)
    bank.save(str(tmp_path / "bank.safetensors"))
    for read in (Bank.load, Bank.read):
        assert torch.equal(read(str(tmp_path / "bank.safetensors")).outputs, bank.outputs)


def test_a_bank_of_classes_has_two_outputs_or_more(make_bank: Callable[..., Bank], tmp_path: Path) -> None:
    bank = make_bank(10, outputs=1, task="regression")
    with pytest.raises(OptionError, match="at least two outputs a member, got 1"):
        replace(bank, task="classification", targets=torch.zeros(10, dtype=torch.int64))
    np.savez(tmp_path / "one.npz", outputs=bank.outputs[:, :, 0].numpy(), targets=np.zeros(10, np.int64))
    with pytest.raises(DataError, match=r"one.npz: classes need at least two outputs a member, got 1"):
        Bank.read(tmp_path / "one.npz")


def test_targets_that_float32_cannot_tell_apart_are_refused(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(50, outputs=1, task="regression")
    far = 1.7e9 + 50 * bank.targets.double()
    with pytest.raises(OptionError, match=r"targets near 1\.7e\+09 differ by .*, and float32, .* subtract a constant"):
        Bank.from_arrays(bank.outputs, far, task="regression")
    for fine in (bank.targets, bank.targets + 1000, torch.full_like(bank.targets, 1.7e9)):
        assert len(Bank.from_arrays(bank.outputs, fine, task="regression")) == 50


def test_a_column_of_classes_is_told_how_to_become_a_row(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(20)
    with pytest.raises(OptionError, match=r"got shape \(20, 1\) of torch.int64: give one class a sample"):
        Bank.from_arrays(bank.outputs, bank.targets[:, None])
