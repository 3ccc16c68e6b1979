"""On a GPU the engines answer as `Cascade.predict` does there, and the host waits nowhere but where it says so."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from torch import Tensor, nn

from irene.cascade import Cascade
from irene.halting.trajectory import follow
from irene.runtime import stages
from irene.runtime.engine import Engine, EngineOptions
from irene.runtime.stream import Stream, StreamOptions
from irene.types import Prediction

from .conftest import SIZES, make_policy

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
Same = Callable[[Prediction, Prediction], None]
NeverWaiting = Callable[[], AbstractContextManager[None]]
POLICIES = ("margin", "agreement", "patience", "selector", "change", "cost-to-go")
SAMPLES = max(SIZES)


class Table(nn.Module):
    """A member that looks its answers up, so that batches change nothing; its kernels can be captured."""

    def __init__(self, outputs_NHK: Tensor) -> None:
        super().__init__()
        self.register_buffer("outputs_NHK", outputs_NHK)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.get_buffer("outputs_NHK").index_select(0, inputs[:, 0].long())


def cascade_on_gpu(name: str) -> tuple[Cascade, Tensor]:
    """A cascade of tables at a threshold far from every score, and the inputs that they know."""
    outputs_NTHK = 2 * torch.randn(SAMPLES, 3, 2, 4, generator=torch.Generator().manual_seed(1))
    outputs_NTHK[4, 0, 0, 1], outputs_NTHK[11, 1, 1, 2] = torch.nan, torch.inf  # as half precision may give
    policy = make_policy(name, 3, "classification", seed=1)
    cascade = Cascade([Table(outputs_NTHK[:, t]) for t in range(3)], policy)
    scores = follow(policy, cascade.aggregation, cascade.task, outputs_NTHK).scores_NT[:, :2]
    middle = scores[scores.isfinite()].unique()
    middle = middle[len(middle) // 4 : -(len(middle) // 4)]
    widest = int(middle.diff().argmax())
    threshold = float(middle[widest : widest + 2].mean())
    members = [member.cuda() for member in cascade.members if isinstance(member, nn.Module)]
    return Cascade(members, policy.at(threshold).cuda()), torch.arange(float(SAMPLES), device="cuda")[:, None]


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("chained", [True, False])
def test_the_engine_equals_the_cascade(same: Same, monkeypatch: pytest.MonkeyPatch, name: str, chained: bool) -> None:
    if not chained:
        monkeypatch.setattr(stages, "can_switch", lambda device: False)
    cascade, inputs = cascade_on_gpu(name)
    assert 1 < float(cascade.predict(inputs).cost.mean()) < 3
    engine = Engine(cascade, inputs[:1], options=EngineOptions(largest=64, fuse=False))
    recorded = engine.recorded
    for size in SIZES:
        same(engine.predict(inputs[:size]), cascade.predict(inputs[:size]))
    assert engine.recorded == recorded


@pytest.mark.parametrize("chained", [True, False])
def test_the_engine_waits_for_nothing_else(
    same: Same, never_waiting: NeverWaiting, monkeypatch: pytest.MonkeyPatch, chained: bool
) -> None:
    if not chained:
        monkeypatch.setattr(stages, "can_switch", lambda device: False)
    cascade, inputs = cascade_on_gpu("margin")
    engine = Engine(cascade, inputs[:1], options=EngineOptions(largest=128))
    if chained and engine._stages.chain is None:
        pytest.skip("the driver has no switches")
    with never_waiting():  # it learns how many go on, and writes that down for the GPU when it has changed
        found = [engine.predict(inputs) for _ in range(3)]
    for answer in found:
        same(answer, cascade.predict(inputs))


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_stream_equals_the_cascade_and_waits_for_nothing_else(
    same: Same, never_waiting: NeverWaiting, name: str, device: str
) -> None:
    cascade, inputs = cascade_on_gpu(name)
    stream = Stream(cascade, inputs[:1], options=StreamOptions(bucket=16, window=48, fuse=False))
    batches = [inputs[:size].to(device) for size in SIZES]
    recorded = stream.recorded
    with never_waiting():
        found = list(stream.predict(batches))
    assert len(found) == len(batches)
    for answer, batch in zip(found, batches, strict=True):
        same(answer, cascade.predict(batch.cuda()))
    assert stream.recorded == recorded
