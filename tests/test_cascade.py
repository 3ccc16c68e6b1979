"""The plain loop: what it answers, whom it asks, and that the replay of a bank is the same."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from irene.bank import Bank
from irene.cascade import Cascade
from irene.errors import IreneError, OptionError
from irene.halting import registry
from irene.halting.policies import Margin, Never, Spread
from irene.halting.policy import Policy, Stopper
from irene.halting.rule import Aggregation
from irene.models import MemberSpec, build
from irene.types import Cost, Prediction, Task

# A router chooses the next member by itself, so it is run by a loop of its own.
IN_ORDER = [name for name in registry.POLICIES if name != "skipping"]
CASES = [
    (name, task)
    for name in IN_ORDER
    for task in ("classification", "regression")
    if task == ("regression" if name == "spread" else "classification") or name in ("never", "random", "selector")
]
UNEQUAL = Aggregation((1.0, 0.3, 2.0, 0.0), (0.5, 1.0, 2.0, 1.3))


def make_policy(name: str, task: Task, bank: Bank) -> Stopper:
    """A policy with random weights and a threshold that a good part of the samples reaches early."""
    kind = registry.POLICIES[name]
    given = {"task": task, "steps": bank.steps}
    policy = kind(**{key: given[key] for key in inspect.signature(kind).parameters if key in given})
    for tensor in policy.state_dict().values():
        tensor.copy_(torch.randn(tensor.shape).sort().values)
    scores = bank.trajectory(policy).scores_NT
    return policy.at(float(scores[:, 0].median())) if scores.isfinite().all() else policy


def assert_same(one: Prediction, other: Prediction) -> None:
    assert torch.equal(one.members_used, other.members_used)
    assert torch.equal(one.ran, other.ran)
    torch.testing.assert_close(one.outputs, other.outputs, rtol=0, atol=1e-6)
    torch.testing.assert_close(one.trace, other.trace, rtol=1e-5, atol=1e-6, equal_nan=True)
    if one.task == "classification":
        assert torch.equal(one.labels, other.labels)


@pytest.mark.parametrize("samples", [0, 1, 47])
@pytest.mark.parametrize(("name", "task"), CASES)
@pytest.mark.parametrize("aggregation", [None, UNEQUAL], ids=["equal", "unequal"])
def test_predict_equals_the_replay_of_the_bank(
    name: str,
    task: Task,
    samples: int,
    aggregation: Aggregation | None,
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
) -> None:
    policy = make_policy(name, task, make_bank(47, members=4, accuracy=0.6, task=task))
    bank = make_bank(samples, members=4, accuracy=0.6, task=task)
    cascade = Cascade(table_members(bank), policy, aggregation=aggregation, task=task)
    prediction = cascade.predict(sample_numbers(samples))
    assert_same(prediction, bank.replay(policy, aggregation))
    assert len(prediction) == samples
    if samples == 47 and name != "never":
        assert len(prediction.members_used.unique()) > 1


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize(("name", "task"), CASES)
def test_a_sample_that_is_no_number_stops_nowhere_early_and_spoils_no_other(
    name: str,
    task: Task,
    value: float,
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
) -> None:
    bank = make_bank(47, members=4, accuracy=0.6, task=task)
    policy = make_policy(name, task, bank)
    cascade = Cascade(table_members(bank), policy, task=task)
    before = cascade.predict(sample_numbers(47))
    spoiled = torch.zeros(47, dtype=torch.bool)
    spoiled[::5] = True
    bank.outputs[::5, 0, 0, 1] = value  # at the first member: all of them come to it
    after = cascade.predict(sample_numbers(47))
    assert torch.equal(after.failed, spoiled)
    assert after.members_used[spoiled].unique().tolist() == [4]
    assert after.ran[spoiled].all()
    assert torch.equal(after.ran.sum(1), after.members_used)
    assert torch.equal(after.outputs[~spoiled], before.outputs[~spoiled])
    assert torch.equal(after.members_used[~spoiled], before.members_used[~spoiled])
    if task == "classification":
        assert after.labels[spoiled].unique().tolist() == [-1]
        assert torch.equal(after.labels[~spoiled], before.labels[~spoiled])
    replayed = bank.replay(policy)
    assert torch.equal(replayed.members_used, after.members_used)
    torch.testing.assert_close(replayed.trace, after.trace, rtol=0, atol=1e-6, equal_nan=True)
    torch.testing.assert_close(replayed.outputs, after.outputs, rtol=0, atol=1e-6, equal_nan=True)


@given(
    st.integers(0, 2**16), st.integers(1, 5), st.integers(0, 40), st.sampled_from(["margin", "patience", "selector"])
)
@settings(max_examples=30)
def test_predict_equals_replay_for_any_members(
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
    seed: int,
    members: int,
    samples: int,
    name: str,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights, temperatures = (torch.rand(2, members, generator=generator) + 0.1).tolist()
    aggregation = Aggregation(tuple(weights), tuple(temperatures))
    bank = make_bank(samples, members=members, heads=1 + seed % 2, outputs=2 + seed % 5, seed=seed)
    policy = make_policy(name, "classification", make_bank(40, members=members, seed=seed))
    prediction = Cascade(table_members(bank), policy, aggregation=aggregation).predict(sample_numbers(samples))
    assert_same(prediction, bank.replay(policy, aggregation))


class Tiny(nn.Module):
    """A random network with dropout, which must not drop anything when a cascade runs it."""

    def __init__(self, seed: int, outputs: int = 3) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, outputs))

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layers(x)
        return output


@pytest.mark.parametrize("name", [name for name in IN_ORDER if name not in ("spread", "random")])
def test_samples_are_treated_each_by_itself(name: str) -> None:
    members = [Tiny(seed) for seed in range(3)]
    inputs = 3 * torch.randn(41, 4)
    whole = Cascade(members)
    policy = make_policy(name, "classification", Bank.of(whole, inputs, torch.zeros(41, dtype=torch.int64)))
    cascade = Cascade(members, policy)
    together = cascade.predict(inputs)
    order = torch.randperm(41)
    assert_rows(cascade.predict(inputs[order]), together, order)
    rows = torch.tensor([5])
    assert_rows(cascade.predict(inputs[rows]), together, rows)


def assert_rows(part: Prediction, whole: Prediction, rows: Tensor) -> None:
    assert torch.equal(part.members_used, whole.members_used[rows])
    torch.testing.assert_close(part.outputs, whole.outputs[rows], rtol=0, atol=1e-6)


def test_repeated_calls_answer_the_same() -> None:
    members = [Tiny(seed).train() for seed in range(3)]
    cascade = Cascade(members, Margin(0.3))
    inputs = torch.randn(50, 4)
    first, second = cascade.predict(inputs), cascade.predict(inputs)
    assert not members[0].training
    assert torch.equal(first.outputs, second.outputs)
    assert torch.equal(first.members_used, second.members_used)
    assert torch.equal(first.trace.nan_to_num(), second.trace.nan_to_num())
    assert not first.outputs.requires_grad


def test_samples_that_stopped_are_not_shown_to_later_members(
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
) -> None:
    bank = make_bank(31)
    members = table_members(bank)
    prediction = Cascade(members, Margin(0.6)).predict(sample_numbers(31))
    for t, member in enumerate(members):
        assert member.asked == [[n for n, used in enumerate(prediction.members_used.tolist()) if used > t]]
    assert torch.equal(prediction.ran.sum(1), prediction.members_used)


def test_when_all_stop_at_once_the_others_are_never_called(
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
) -> None:
    bank = make_bank(12)
    members = table_members(bank)
    prediction = Cascade(members, Margin(-math.inf)).predict(sample_numbers(12))
    assert prediction.members_used.tolist() == [1] * 12
    assert [len(member.asked) for member in members] == [1, 0, 0]
    torch.testing.assert_close(prediction.probs, bank.outputs[:, 0, 0].softmax(1))


def test_the_same_members_are_stopped_by_another_policy(
    table_members: Callable[[Bank], list[Any]], make_bank: Callable[..., Bank]
) -> None:
    costs = [Cost(flops=float(t)) for t in range(4)]
    cascade = Cascade(table_members(make_bank(8, members=4)), aggregation=UNEQUAL, costs=costs, task="regression")
    other = cascade.stopped_by(Spread(0.1))
    assert isinstance(other.policy, Spread)
    assert isinstance(cascade.policy, Never)
    same = ("members", "aggregation", "costs", "task")
    assert [getattr(other, name) for name in same] == [getattr(cascade, name) for name in same]


@pytest.mark.parametrize("policy", [None, Never(), Margin(math.inf)])
def test_when_none_stops_the_answer_is_the_mean_of_all(
    policy: Policy | None,
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
) -> None:
    bank = make_bank(12)
    prediction = Cascade(table_members(bank), policy).predict(sample_numbers(12))
    assert prediction.members_used.tolist() == [3] * 12
    torch.testing.assert_close(prediction.probs, bank.outputs[:, :, 0].softmax(2).mean(1))


def test_regression_answers_with_the_mean_of_the_values(
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
) -> None:
    bank = make_bank(12, task="regression", outputs=2)
    prediction = Cascade(table_members(bank), task="regression").predict(sample_numbers(12))
    torch.testing.assert_close(prediction.values, bank.outputs[:, :, 0].mean(1))


def test_weights_and_temperatures_shape_the_answer(
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
) -> None:
    bank = make_bank(12, members=2)
    aggregation = Aggregation((1.0, 3.0), (2.0, 0.5))
    prediction = Cascade(table_members(bank), aggregation=aggregation).predict(sample_numbers(12))
    first, second = (bank.outputs[:, 0, 0] / 2).softmax(1), (bank.outputs[:, 1, 0] / 0.5).softmax(1)
    torch.testing.assert_close(prediction.probs, (first + 3 * second) / 4)


def test_members_may_answer_without_heads(
    make_bank: Callable[..., Bank], sample_numbers: Callable[[int], Tensor]
) -> None:
    bank = make_bank(12, heads=1)
    members = [lambda x, t=t: bank.outputs[x[:, 0].long(), t, 0] for t in range(3)]
    assert_same(Cascade(members, Margin(0.5)).predict(sample_numbers(12)), bank.replay(Margin(0.5)))


def test_costs_are_those_of_the_members_that_ran(
    make_bank: Callable[..., Bank],
    table_members: Callable[[Bank], list[Any]],
    sample_numbers: Callable[[int], Tensor],
) -> None:
    costs = (Cost(flops=1.0, ms=0.5), Cost(flops=10.0, ms=0.5), Cost(flops=100.0, ms=0.5))
    bank = make_bank(30, costs=costs)
    cascade = Cascade(table_members(bank), Margin(0.6), costs=costs)
    prediction = cascade.predict(sample_numbers(30))
    by_step = torch.tensor([0.0, 1.0, 11.0, 111.0], dtype=torch.float64)
    assert torch.equal(prediction.cost_in(cascade.costs, "flops"), by_step[prediction.members_used])
    assert torch.equal(prediction.cost_in(cascade.costs, "members"), prediction.cost)


def test_a_cascade_that_cannot_work_is_refused() -> None:
    member = Tiny(0)
    with pytest.raises(OptionError, match="at least one member"):
        Cascade([])
    with pytest.raises(OptionError, match="2 members and aggregation weights for 3"):
        Cascade([member, member], aggregation=Aggregation.equal(3))
    with pytest.raises(OptionError, match="2 members and costs for 1"):
        Cascade([member, member], costs=[Cost()])
    for wrong, got in (("margin", "'margin'"), (Margin, "the class Margin"), (0.8, "0.8")):
        with pytest.raises(OptionError, match=rf"a threshold, such as irene\.Margin\(0\.8\), got {got}$"):
            Cascade([member], wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"is an irene\.Cost, such as Cost\(flops=2e6\), got 1\.5"):
        Cascade([member], costs=[1.5])  # type: ignore[list-item]
    alone: Any
    for alone in (nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3)), LogisticRegression(), "model.onnx", 3):
        for make in (Cascade, Cascade.from_members):
            with pytest.raises(
                OptionError, match=r"expected a list of members, got \w+: put it into a list, \[model\]"
            ):
                make(alone)
    assert len(Cascade.from_members(nn.ModuleList([member, member])).members) == 2
    with pytest.raises(OptionError, match="batch, outputs"):
        Cascade([lambda x: x[:, 0]]).predict(torch.zeros(3, 2))
    with pytest.raises(OptionError, match="member 2 gave 1 outputs a sample and the first one 3"):
        Cascade([member, Tiny(1, outputs=1)]).predict(torch.zeros(3, 4))


def test_inputs_of_another_shape_are_refused_by_members_that_know_theirs() -> None:
    ours = build(MemberSpec(backbone="cnn", shape=(3, 8, 8), outputs=3), seed=0)
    images = torch.zeros(5, 1, 28, 28)
    for cascade in (Cascade([ours]), Cascade([lambda x: x.flatten(1)[:, :3], ours])):
        with pytest.raises(IreneError, match=r"expected inputs of shape \(batch, 3, 8, 8\), got \(5, 1, 28, 28\)"):
            cascade.predict(images)
    assert len(Cascade([lambda x: x.flatten(1)[:, :3]]).predict(images)) == 5  # nobody knows what it takes


def test_modules_stay_in_evaluation_mode() -> None:
    member = nn.Sequential(nn.Dropout(0.9), nn.Linear(4, 3))
    cascade = Cascade([member], Margin(0.8))
    inputs = torch.randn(8, 4)
    assert not member.training
    assert torch.equal(cascade.predict(inputs).probs, cascade.predict(inputs).probs)


def test_a_cascade_is_shown_in_a_line() -> None:
    assert repr(Cascade([nn.Linear(4, 3)] * 2, Margin(0.2))) == "Cascade(2 members, Margin(0.2), classification)"


def test_members_that_cannot_work_are_named() -> None:
    with pytest.raises(OptionError, match=r"member 2 must be a callable, got dict: use Cascade\.from_members"):
        Cascade([nn.Linear(2, 2), {}])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="task must be one of classification, regression, got 'regresion'"):
        Cascade.from_members([nn.Linear(2, 2)], task="regresion")  # type: ignore[arg-type]
    for rows in (1, 4):  # one row would be repeated for every sample
        with pytest.raises(OptionError, match=f"member 2 gave {rows} rows for 5 samples"):
            Cascade([nn.Linear(2, 2), lambda x, rows=rows: torch.zeros(rows, 2)]).predict(torch.zeros(5, 2))


def test_one_output_is_no_answer_about_classes() -> None:
    one = Cascade([lambda inputs: inputs[:, :1]])
    with pytest.raises(OptionError, match="at least two outputs a member, got 1: return two logits for two classes"):
        one.predict(torch.randn(5, 3))
    values = Cascade(one.members, task="regression")
    assert values.predict(torch.ones(5, 3)).values.tolist() == [[1.0]] * 5


def test_who_cannot_answer_the_example_is_named() -> None:
    takes_fractions = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    pixels = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
    with pytest.raises(
        OptionError, match=r"member 2 \(Sequential\) .* \(4, 1, 8, 8\) of uint8 \(.*\): all members get"
    ):
        Cascade.from_members([lambda x: x.flatten(1)[:, :3].float(), takes_fractions], example=pixels)


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([nn.Linear(4, 3), nn.Linear(4, 2)], "member 2 gave 2 outputs a sample and the first one 3"),
        ([nn.Linear(4, 1)], "at least two outputs a member, got 1"),
        ([lambda x: x[:, 0]], r"member 1 gave outputs of shape \(5,\) for 5 samples: return \(batch, outputs\)"),
        ([lambda x: x.mean(0, keepdim=True)], r"member 1 gave outputs of shape \(1, 4\) for 5 samples"),
        (
            [nn.Linear(4, 3), lambda x: (2 * x).squeeze()],
            r"member 2 .* \(4,\) for 1 samples: .* also for a batch of one",
        ),
        ([nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 3), nn.Softmax(1))], "expected logits, and member 2 gave prob"),
        ([lambda x: (x, x)], "a member must answer with a tensor"),
    ],
)
def test_who_answers_the_example_wrongly_is_told_at_once(members: list[Any], words: str) -> None:
    Cascade.from_members(members)
    with pytest.raises(OptionError, match=words):
        Cascade.from_members(members, example=torch.zeros(5, 4))
