"""Cascades of every kind, drawn by hypothesis, that an engine must answer like `Cascade.predict`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from hypothesis import assume
from hypothesis import strategies as st
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from irene.cascade import Cascade
from irene.data import Data
from irene.halting.policies import Margin
from irene.halting.policy import Stopper
from irene.halting.registry import POLICIES
from irene.halting.rule import Aggregation
from irene.halting.trajectory import follow
from irene.models import Member, MemberSpec, build
from irene.run import Run
from irene.types import Prediction, Task

from .runs import make_members, write_run

aten = torch.ops.aten
TASKS: dict[str, tuple[Task, ...]] = dict.fromkeys(POLICIES, ("classification",)) | {
    "never": ("classification", "regression"),
    "selector": ("classification", "regression"),
    "cost-to-go": ("classification", "regression"),
    "random": ("classification", "regression"),
    "spread": ("regression",),
}
FITTING = sorted(set(POLICIES) - {"skipping"})
NOT_FINITE = (torch.nan, torch.inf, -torch.inf)
SIZES = (0, 1, 2, 3, 7, 13, 31, 64, 97)
needs_openvino = pytest.mark.skipif(find_spec("openvino") is None, reason="openvino is not installed")
needs_nncf = pytest.mark.skipif(find_spec("nncf") is None, reason="nncf is not installed")


class Lookup:
    """A member that knows its answer for each sample by the number in its input, so batches change nothing."""

    def __init__(self, outputs_NHK: Tensor) -> None:
        self.outputs_NHK = outputs_NHK
        self.sizes: list[int] = []

    def __call__(self, inputs: Tensor) -> Tensor:
        self.sizes.append(len(inputs))
        return self.outputs_NHK[inputs[:, 0].long()]


class Reads(TorchDispatchMode):
    """Notes what would make the host wait for a GPU: numbers read out of tensors, and sizes that depend on them."""

    WAITING = (aten._local_scalar_dense, aten.nonzero, aten.masked_select, aten.equal, aten._unique2)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        waits = func.overloadpacket in self.WAITING
        if func.overloadpacket is aten.index:
            waits = any(index is not None and index.dtype == torch.bool for index in args[1])
        if waits:
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Case:
    """A cascade with lookup members, and the inputs they know."""

    cascade: Cascade
    inputs: Tensor

    @property
    def members(self) -> Sequence[Any]:
        return self.cascade.members


def make_member(backbone: str, shape: tuple[int, ...] = (3, 12, 12), seed: int = 0) -> Member:
    spec = MemberSpec(backbone=backbone, shape=shape, outputs=4, heads=2)
    return build(spec, seed=seed, mean=torch.full(shape[:1], 120.0), std=torch.full(shape[:1], 60.0)).eval()


def pictures(count: int) -> Tensor:
    return torch.randint(256, (count, 3, 12, 12), dtype=torch.uint8)


def make_policy(name: str, steps: int, task: Task, seed: int) -> Stopper:
    """A policy of this name; a learned one with random weights."""
    options: dict[str, Any] = {"steps": steps} if name in ("change", "cost-to-go") else {}
    if name in ("selector", "cost-to-go"):
        options["task"] = task
    policy = POLICIES[name](**options)
    generator = torch.Generator().manual_seed(seed)
    for key, value in policy.state_dict().items():
        noise = torch.randn(value.shape, generator=generator)
        value.copy_(noise.abs() + 0.5 if key == "std_F" else noise)
        if key == "prices_L":
            value.copy_(torch.linspace(-1, 1, len(value)))
    return policy


@st.composite
def cases(draw: st.DrawFn, samples: int = max(SIZES)) -> Case:
    """Random members, policy, aggregation and threshold; also thresholds at which all or none stop early.

    Some have outputs that are not finite, as half precision may give, by any head of any member.
    """
    name = draw(st.sampled_from(FITTING))
    task = draw(st.sampled_from(TASKS[name]))
    steps = draw(st.integers(1, 4))
    heads, width = draw(st.integers(1, 2)), draw(st.integers(2, 4))
    seed = draw(st.integers(0, 10_000))
    generator = torch.Generator().manual_seed(seed)
    outputs_NTHK = 2 * torch.randn(samples, steps, heads, width, generator=generator)
    for sample, value in draw(
        st.dictionaries(st.integers(0, samples - 1), st.sampled_from(NOT_FINITE), max_size=3)
    ).items():
        outputs_NTHK[sample, draw(st.integers(0, steps - 1)), draw(st.integers(0, heads - 1)), 0] = value
    weights = [1.0, *draw(st.lists(st.sampled_from((0.0, 0.5, 2.0)), min_size=steps - 1, max_size=steps - 1))]
    temperatures = draw(st.lists(st.sampled_from((0.5, 1.0, 1.7)), min_size=steps, max_size=steps))
    policy = make_policy(name, steps, task, seed)
    aggregation = Aggregation(tuple(weights), tuple(temperatures))
    cascade = Cascade([Lookup(outputs_NTHK[:, t]) for t in range(steps)], policy, aggregation=aggregation, task=task)
    threshold = draw(st.one_of(st.sampled_from((-torch.inf, torch.inf)), st.floats(0, 1)))
    if 0 <= threshold <= 1:
        threshold = _between(follow(policy, aggregation, task, outputs_NTHK).scores_NT, threshold)
    case = Cascade(cascade.members, policy.at(threshold), aggregation=aggregation, task=task)
    return Case(case, torch.arange(float(samples))[:, None])


def _between(scores_NT: Tensor, share: float) -> float:
    """A threshold about this far up the scores, in a gap that rounding cannot cross."""
    distinct = scores_NT.flatten().unique()
    distinct = distinct[distinct.isfinite()]
    assume(len(distinct) > 1)
    gaps = distinct.diff()
    near = (torch.linspace(0, 1, len(gaps)) - share).abs()
    place = int(torch.where(gaps > 1e-4 * (1 + distinct[1:].abs()), near, torch.inf).argmin())
    assume(float(gaps[place]) > 1e-4)
    return float(distinct[place] + gaps[place] / 2)


def _same(found: Prediction, expected: Prediction) -> None:
    assert found.task == expected.task
    assert torch.equal(found.members_used, expected.members_used)
    assert found.members_used.dtype == torch.int64
    if found.task == "classification":
        assert torch.equal(found.labels, expected.labels)
    assert torch.equal(found.ran, expected.ran)
    torch.testing.assert_close(found.outputs, expected.outputs, atol=1e-5, rtol=1e-5, equal_nan=True)
    torch.testing.assert_close(found.trace, expected.trace, atol=1e-5, rtol=1e-5, equal_nan=True)


@pytest.fixture(scope="session")
def run(blobs: Data, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Of three MLPs on blobs, with a point for every policy."""
    torch.manual_seed(0)
    return write_run(tmp_path_factory.mktemp("runs") / "blobs", blobs, Margin(0.1), make_members(blobs))


@pytest.fixture(scope="session")
def same() -> Callable[[Prediction, Prediction], None]:
    """Checks that two predictions are equal: members used and labels exactly, numbers to 1e-5."""
    return _same
