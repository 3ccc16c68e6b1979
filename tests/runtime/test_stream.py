"""The streaming engine answers as `Cascade.predict` does, in order, on full buckets, in bounded memory and time."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from irene.cascade import Cascade
from irene.errors import OptionError
from irene.halting.policies import Agreement, Confidence, Margin, Never
from irene.models import MemberSpec, build
from irene.runtime import stream as stream_module
from irene.runtime.backend import installed_backends
from irene.runtime.bench import at_cost
from irene.runtime.buckets import bucket_sizes
from irene.runtime.recorder import Fetch
from irene.runtime.stages import Stages
from irene.runtime.stream import Stream, StreamOptions
from irene.types import Prediction

from .conftest import Case, Reads, cases

Same = Callable[[Prediction, Prediction], None]


def member(t: int, inputs: Tensor) -> Tensor:
    """Is sure of a sample whose number is not divisible by 4 at the first step, by 16 at the second, and so on."""
    number = inputs[:, 0].long()
    sure = (number % 4 ** (t + 1) != 0).float()
    return torch.stack([sure * 20, torch.zeros_like(sure)], 1)


def quarters(steps: int = 3) -> Cascade:
    """A cascade in which a quarter of the samples goes on after each member."""
    return Cascade([partial(member, t) for t in range(steps)], Confidence(0.6))


def numbers(count: int, start: int = 0) -> Tensor:
    return torch.arange(float(start), float(start + count))[:, None]


@settings(max_examples=60)
@given(
    case=cases(samples=60),
    sizes=st.lists(st.sampled_from((0, 1, 2, 3, 7, 13, 31, 60)), max_size=12),
    bucket=st.integers(1, 20),
    room=st.sampled_from((1, 2, 8)),
    deadline=st.sampled_from((None, 0.0)),
    late=st.booleans(),
    padded=st.booleans(),
)
def test_it_equals_the_cascade(
    same: Same, case: Case, sizes: list[int], bucket: int, room: int, deadline: float | None, late: bool, padded: bool
) -> None:
    batches = [case.inputs[:size].flip(0) for size in sizes]
    options = StreamOptions(bucket=bucket, window=room * bucket, deadline_ms=deadline)
    with pytest.MonkeyPatch.context() as patch:
        if padded:  # as on a GPU, where members run in a few fixed sizes
            patch.setattr(Stages, "_bucket_sizes", lambda self, _: bucket_sizes(self.largest))
        stream = Stream(case.cascade, case.inputs[:1], options=options)
    if late:  # as on a GPU, where the host hears of a run only after it has started others
        stream._ahead = 3
    with pytest.MonkeyPatch.context() as patch:
        if late:
            patch.setattr(Fetch, "ready", lambda self: False)
        found = list(stream.predict(batches))
    assert len(found) == len(batches)
    for answer, batch in zip(found, batches, strict=True):
        same(answer, case.cascade.predict(batch))
    assert stream.peak <= stream.window
    assert stream.live == 0


@pytest.mark.parametrize("backend", ["onnx", "openvino", "compile"])
def test_it_equals_the_cascade_on_every_backend(same: Same, backend: str) -> None:
    if backend not in installed_backends():
        pytest.skip(f"{backend} is not installed")
    spec = MemberSpec(backbone="mlp", shape=(5,), outputs=4)
    inputs = torch.randn(97, 5, generator=torch.Generator().manual_seed(0))
    cascade = at_cost(Cascade([build(spec, seed=seed).eval() for seed in range(3)], Margin()), inputs, 1.6)
    stream = Stream(cascade, inputs[:1], backends=backend, options=StreamOptions(bucket=16))
    batches = [inputs[:size] for size in (0, 1, 16, 31, 97)]
    for found, batch in zip(stream.predict(batches), batches, strict=True):
        same(found, cascade.predict(batch))
    assert len(cascade.predict(inputs).members_used.unique()) == 3


def test_members_run_on_full_buckets() -> None:
    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=8, window=512))
    found = torch.cat([answer.members_used for answer in stream.predict(numbers(640).split(10))])
    assert found.tolist() == quarters().predict(numbers(640)).members_used.tolist()
    assert stream.samples == [640, 160, 40]
    assert stream.runs == [80, 20, 5]


def test_the_deepest_full_bucket_runs_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []

    def noted(t: int, inputs: Tensor) -> Tensor:
        ran.append(t)
        return torch.zeros(len(inputs), 2)

    stream = Stream(
        Cascade([partial(noted, t) for t in range(2)], Never()), numbers(1), options=StreamOptions(bucket=8)
    )
    stream._ahead = 9
    heard = [False]  # the host hears of runs late, as on a GPU
    monkeypatch.setattr(Fetch, "ready", lambda self: heard[0])

    def batches() -> Iterator[Tensor]:
        for number in range(4):
            heard[0] = number == 3
            yield numbers(8, 8 * number)

    ran.clear()
    list(stream.predict(batches()))
    assert ran == [0, 0, 0, 1, 1, 1, 0, 1]


def test_a_batch_larger_than_the_window_comes_back_whole(same: Same) -> None:
    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=4, window=8))
    (answer,) = stream.predict([numbers(333)])
    same(answer, quarters().predict(numbers(333)))
    assert stream.peak <= 8


def test_memory_stays_flat() -> None:
    """Ten times the samples take no more slots, and no more of Python's memory."""
    peaks = []
    for batches in (40, 400):
        stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=64, window=1024))
        tracemalloc.start()
        total = sum(len(answer) for answer in stream.predict(numbers(100, 7 * i) for i in range(batches)))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert total == 100 * batches
        assert stream.peak <= 1024
        assert len(stream._stages.inputs) == 1024 + 1
    assert peaks[1] < 1.5 * peaks[0] + 100_000


def test_answers_leave_as_soon_as_they_can() -> None:
    """With room to wait, the first batch leaves when the bucket of its survivors is full, not at the end."""
    given: list[int] = []

    def batches() -> Iterator[Tensor]:
        for start in range(0, 800, 8):
            given.append(start)
            yield numbers(8, start)

    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=8, window=800))
    first = next(stream.predict(batches()))
    assert first.members_used.tolist() == [3, 1, 1, 1, 2, 1, 1, 1]
    assert len(given) == 16  # 128 samples make 32 for the second member and 8 for the third


def test_no_batch_waits_longer_than_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(stream_module.time, "monotonic", lambda: clock[0])
    came: list[float] = []

    def batches() -> Iterator[Tensor]:
        for number in range(50):
            clock[0] += 1 / 128
            came.append(clock[0])
            yield numbers(3, 3 * number)

    monkeypatch.setattr(stream_module, "in_time", lambda source, _: source)  # this clock is moved by the source
    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=64, window=1024, deadline_ms=4000 / 128))
    waited = [clock[0] - came[place] for place, _ in enumerate(stream.predict(batches()))]
    assert len(waited) == 50
    assert max(waited) == 4 / 128
    assert stream.runs[0] < 50  # and yet several batches ran together


def test_a_source_that_gives_nothing_holds_up_no_answer() -> None:
    answered = threading.Event()
    held_up = []

    def batches() -> Iterator[Tensor]:
        yield numbers(5)
        held_up.append(not answered.wait(timeout=60))  # for ever, were it not for a test that fails
        yield numbers(3)

    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=64, deadline_ms=1.0))
    answers = stream.predict(batches())
    assert next(answers).members_used.tolist() == [3, 1, 1, 1, 2]
    answered.set()
    assert [len(answer) for answer in answers] == [3]
    assert held_up == [False]


def test_a_source_that_fails_is_heard_of_though_there_is_a_deadline() -> None:
    def batches() -> Iterator[Tensor]:
        yield numbers(5)
        raise OSError("the disk is gone")

    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=64, deadline_ms=1e6))
    with pytest.raises(OSError, match="the disk is gone"):
        list(stream.predict(batches()))


def test_a_source_is_left_alone_once_nobody_wants_its_batches() -> None:
    given = []

    def batches() -> Iterator[Tensor]:
        for start in range(10**9):
            given.append(start)
            yield numbers(1, start)

    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=1, deadline_ms=0.0))
    before = set(threading.enumerate())
    answers = stream.predict(batches())
    next(answers)
    (reader,) = set(threading.enumerate()) - before
    answers.close()
    reader.join(timeout=60)
    assert not reader.is_alive()


def test_one_batch_is_not_taken_for_many() -> None:
    inputs = torch.arange(8.0).reshape(4, 2)
    stream = Stream(Cascade([partial(member, 0), partial(member, 1)]), inputs)
    with pytest.raises(OptionError, match=r"takes batches, got one array: give \[inputs\], or inputs\.split"):
        next(stream.predict(inputs))
    assert sum(len(answer) for answer in stream.predict(torch.stack([inputs, inputs]))) == 8  # as a list of them


def test_two_at_a_time_are_noticed() -> None:
    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=4))
    first = stream.predict(numbers(4, start) for start in range(40))
    next(first)
    list(stream.predict([numbers(9)]))
    with pytest.raises(OptionError, match="was given other batches meanwhile"):
        next(first)


def test_nothing_new_lets_what_waits_run() -> None:
    def batches() -> Iterator[Tensor | None]:
        yield numbers(5)
        yield from [None] * 3

    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=64))
    answers = stream.predict(batches())
    assert next(answers).members_used.tolist() == [3, 1, 1, 1, 2]
    assert stream.runs == [1, 1, 1]
    assert list(answers) == []
    assert list(stream.predict([None, None])) == []


def test_an_abandoned_stream_starts_afresh(same: Same) -> None:
    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=4))
    next(stream.predict(numbers(4, start) for start in range(400)))
    (answer,) = stream.predict([numbers(9)])
    same(answer, quarters().predict(numbers(9)))


def test_gradients_are_left_as_they_were() -> None:
    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=4))
    for _ in stream.predict(numbers(40).split(4)):
        assert torch.is_grad_enabled()


def test_defaults_go_by_device_and_inputs() -> None:
    def mean(inputs: Tensor) -> Tensor:
        return inputs.float().flatten(1)[:, :2]

    table = Stream(Cascade([mean], Never()), torch.zeros(1, 5))
    images = Stream(Cascade([mean], Never()), torch.zeros(1, 3, 8, 8, dtype=torch.uint8))
    assert (table.bucket, table.window) == (1024, 65536)
    assert (images.bucket, images.window) == (64, 4096)
    small = Stream(Cascade([mean], Never()), torch.zeros(1, 5), options=StreamOptions(window=10))
    assert (small.bucket, small.window) == (10, 10)
    assert small.recorded == 0


def test_the_default_window_counts_all_that_is_kept_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few features and many classes: what a slot takes is its answer, and what the policy remembers."""
    monkeypatch.setattr(stream_module, "MOST_BYTES", 2**20)

    def classes(inputs: Tensor) -> Tensor:
        return inputs.new_zeros(len(inputs), 400)

    options = StreamOptions(bucket=8)
    stream = Stream(Cascade([classes] * 2, Agreement()), torch.zeros(1, 5), options=options)
    kept = stream._stages
    slots = (kept.inputs, kept.outputs, kept.used, kept.trace, *kept.state.values())
    assert {len(tensor) for tensor in slots} == {stream.window + 1}
    taken = sum(tensor.nbytes for tensor in slots)
    assert 2**20 - taken // stream.window < taken <= 2**20  # not one more would fit
    monkeypatch.setattr(stream_module, "MOST_BYTES", 1)
    assert Stream(Cascade([classes], Never()), torch.zeros(1, 5), options=options).window == 8


def test_a_stream_is_shown_in_a_line() -> None:
    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=8, window=16))
    assert repr(stream) == "Stream(3 members, Confidence(0.6), classification, cpu, bucket 8, window 16)"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bucket": 0}, "bucket must be 1"),
        ({"bucket": 8.5}, r"bucket must be 1 sample or more, a whole number, got 8\.5"),
        ({"window": 99.5}, "window must hold at least a bucket, a whole number"),
        ({"bucket": 8, "window": 7}, "window must hold at least a bucket"),
        ({"deadline_ms": -1.0}, "deadline_ms must be 0 or more"),
        ({"deadline_ms": float("nan")}, "deadline_ms must be 0 or more, got nan"),
    ],
)
def test_options_are_checked(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        StreamOptions(**options)


def test_inputs_of_another_kind_are_refused() -> None:
    stream = Stream(Cascade([partial(member, 0)], Margin()), numbers(1))
    with pytest.raises(OptionError, match="was made for samples of"):
        list(stream.predict([torch.zeros(3, 2)]))
    with pytest.raises(OptionError, match="an example batch of one input or more"):
        Stream(quarters(), numbers(0))


def test_the_host_reads_nothing_that_a_gpu_would_have_to_finish_first(same: Same) -> None:
    cascade, inputs = quarters(), numbers(50)
    stream = Stream(cascade, inputs[:1], options=StreamOptions(bucket=4))
    with Reads() as reads:
        (found,) = stream.predict([inputs])
    same(found, cascade.predict(inputs))
    assert reads.found == []


@pytest.mark.parametrize("made", [False, True])
def test_it_may_be_made_in_inference_mode_and_used_outside_and_the_other_way_round(same: Same, made: bool) -> None:
    batches = [numbers(7, start) for start in range(0, 70, 7)]
    with torch.inference_mode(made):
        stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=16))
    for used in (False, True, False):
        with torch.inference_mode(used):
            answers = list(stream.predict(batch.clone() for batch in batches))
        assert len(answers) == len(batches)
        for batch, found in zip(batches, answers, strict=True):
            same(found, quarters().predict(batch))
            assert not found.outputs.is_inference()


def test_a_stream_begun_in_inference_mode_may_be_read_to_its_end_outside(same: Same) -> None:
    batches = [numbers(7, start) for start in range(0, 70, 7)]
    stream = Stream(quarters(), numbers(1), options=StreamOptions(bucket=16))
    with torch.inference_mode():
        answers = stream.predict(batch.clone() for batch in batches)
        first = next(answers)
    for batch, found in zip(batches, [first, *answers], strict=True):
        same(found, quarters().predict(batch))


@pytest.mark.parametrize("deadline", [None, 0.0])
def test_batches_with_targets_are_refused(deadline: float | None) -> None:
    stream = Stream(quarters(), numbers(1), options=StreamOptions(deadline_ms=deadline))
    loader = DataLoader(TensorDataset(numbers(8), torch.zeros(8)), batch_size=4)
    with pytest.raises(OptionError, match=r"expected one tensor or array, got a list of 2"):
        list(stream.predict(loader))
