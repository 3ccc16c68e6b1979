"""The compacting engine answers as `Cascade.predict` does, and runs members on those who go on only."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, NoReturn

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from irene.cascade import Cascade
from irene.errors import OptionError
from irene.halting.policies import Confidence, Margin, Never, Oracle
from irene.halting.policy import Policy, State, Step, Stopper
from irene.halting.skipping import Router
from irene.mixture import Mixture
from irene.models import MemberSpec, build
from irene.runtime import chain, stages
from irene.runtime import engine as engines
from irene.runtime.backend import Backend, load_backends
from irene.runtime.buckets import CostTable
from irene.runtime.engine import Engine, EngineOptions
from irene.runtime.recorder import Mark, Program
from irene.runtime.stream import Stream
from irene.runtime.switches import CannotSwitch
from irene.runtime.torch_backend import Eager
from irene.types import Prediction

from .conftest import SIZES, Case, Reads, cases

Same = Callable[[Prediction, Prediction], None]


def mlps(count: int = 3) -> list[nn.Module]:
    spec = MemberSpec(backbone="mlp", shape=(5,), outputs=4, heads=2)
    return [build(spec, seed=seed).eval() for seed in range(count)]


@settings(max_examples=80)
@given(
    case=cases(),
    largest=st.sampled_from((1, 4, 16, 50, 128)),
    buckets=st.sampled_from((None, (1, 2, 4, 8, 16, 32, 64, 128), (3, 17), (50,))),
)
def test_it_equals_the_cascade(same: Same, case: Case, largest: int, buckets: tuple[int, ...] | None) -> None:
    engine = Engine(case.cascade, case.inputs[:1], options=EngineOptions(largest=largest, buckets=buckets))
    recorded = engine.recorded
    for size in SIZES:
        same(engine.predict(case.inputs[:size]), case.cascade.predict(case.inputs[:size]))
    assert engine.recorded == recorded


def test_it_equals_a_cascade_of_networks(same: Same) -> None:
    inputs = torch.randn(101, 5)
    cascade = Cascade(mlps(), Margin(0.08))
    expected = cascade.predict(inputs)
    assert 1 < expected.members_used.double().mean() < 3
    for options in (EngineOptions(), EngineOptions(largest=32), EngineOptions(largest=32, buckets=(8, 16))):
        same(Engine(cascade, inputs[:1], options=options).predict(inputs), expected)
        same(Engine(cascade, inputs[:1], options=options).predict(inputs.numpy()), expected)


def test_threads_may_share_one(same: Same) -> None:
    inputs = torch.randn(60, 5)
    fast = mlps()

    def in_no_hurry(inputs: Tensor) -> Tensor:
        time.sleep(0.002)  # others would come in here
        answer: Tensor = fast[0](inputs)
        return answer

    cascade = Cascade([in_no_hurry, *fast[1:]], Margin(0.08))
    engine = copy.deepcopy(Engine(cascade, inputs[:1]))
    batches = inputs.split(6) * 3
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(engine.predict, batches))
    for answer, batch in zip(answers, batches, strict=True):
        same(answer, cascade.predict(batch))


def test_members_run_on_survivors_only() -> None:
    outputs_NTHK = torch.zeros(10, 3, 1, 2)
    outputs_NTHK[:4, 0, 0, 0] = 9.0  # four stop at once, three after the second member
    outputs_NTHK[4:7, 1, 0, 0] = 99.0
    asked: list[tuple[int, list[int]]] = []

    def member(t: int, inputs: Tensor) -> Tensor:
        asked.append((t, inputs[:, 0].long().tolist()))
        return outputs_NTHK[inputs[:, 0].long(), t]

    cascade = Cascade([partial(member, t) for t in range(3)], Confidence(0.7))
    inputs = torch.arange(1.0, 10.0)[:, None]
    exact = Engine(cascade, inputs)
    padded = Engine(cascade, inputs, options=EngineOptions(largest=16, buckets=(2, 4, 8)))
    asked.clear()
    exact.predict(inputs)
    assert asked == [(0, list(range(1, 10))), (1, [4, 5, 6, 7, 8, 9]), (2, [7, 8, 9])]
    asked.clear()
    found = padded.predict(inputs).members_used
    assert found.tolist() == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert all(len(rows) in (2, 4, 8, 16) for _, rows in asked)
    assert [len(rows) for _, rows in asked] == sorted((len(rows) for _, rows in asked), reverse=True)


def test_padding_does_not_go_on() -> None:
    engine = Engine(Cascade(mlps(2), Never()), torch.zeros(1, 5), options=EngineOptions(largest=8, buckets=(8,)))
    engine.predict(torch.randn(3, 5))
    assert engine._stages.survivors(0, 8).tolist() == [0, 1, 2, 8, 8, 8, 8, 8, 3]  # slots, the spare one, how many


def test_nobody_goes_on_and_nothing_runs() -> None:
    sizes: list[int] = []

    def member(inputs: Tensor) -> Tensor:
        sizes.append(len(inputs))
        return torch.zeros(len(inputs), 3)

    engine = Engine(Cascade([member] * 3, Margin(-1.0)), torch.zeros(1, 2))
    sizes.clear()
    assert engine.predict(torch.zeros(7, 2)).members_used.tolist() == [1] * 7
    assert sizes == [7]


def test_the_host_waits_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[Mark] = []

    def waiting(mark: Mark) -> None:
        waits.append(mark)

    monkeypatch.setattr(Mark, "wait", waiting)
    inputs = torch.randn(20, 5)
    engine = Engine(Cascade(mlps(4), Never()), inputs[:1], options=EngineOptions(buckets=(8, 16, 32), largest=32))
    with Reads() as reads:
        engine.predict(inputs)
    assert len(waits) == 3
    assert reads.found == []


def test_each_member_has_its_backend_and_precision(same: Same) -> None:
    inputs = torch.randn(64, 5)
    cascade = Cascade(mlps(), Margin(0.08))
    engine = Engine(cascade, inputs, backends=["onnx:int8", "eager", "eager:fp16"])
    found = [(backend.name, backend.precision) for backend in engine._stages.backends]
    assert found == [("onnx", "int8"), ("eager", "fp32"), ("eager", "fp16")]
    same(Engine(cascade, inputs[:1], backends="onnx:fp32").predict(inputs), cascade.predict(inputs))
    with pytest.raises(OptionError, match=r"a backend is one of eager, .* got 'onnx:int4'"):
        Engine(cascade, inputs, backends="onnx:int4")


def test_one_precision_is_given_in_one_place() -> None:
    inputs = torch.randn(4, 5)
    cascade = Cascade(mlps(), Margin(0.08))
    engine = Engine(cascade, inputs, backends=["eager", "eager:bf16", "eager"], precision="bf16")
    assert [backend.precision for backend in engine._stages.backends] == ["bf16"] * 3
    said = "precision 'bf16' was asked for and the backend {} is {}: give one precision, in one place"
    for kind in (Engine, Stream):
        with pytest.raises(OptionError, match=said.format("eager:fp16", "fp16")):
            kind(cascade, inputs, backends=["eager", "eager:fp16", "eager"], precision="bf16")
    loaded = load_backends(cascade, inputs, "eager")
    with pytest.raises(OptionError, match=said.format("loaded eager", "fp32")):
        Engine(cascade, inputs, backends=loaded, precision="bf16")


@settings(max_examples=40)
@given(case=cases(), largest=st.sampled_from((4, 50, 128)), first=st.integers(0, 3))
def test_two_members_at_once_answer_as_one_after_the_other(same: Same, case: Case, largest: int, first: int) -> None:
    options = EngineOptions(largest=largest, buckets=(1, 8, 32), side_by_side=True)
    engine = Engine(case.cascade, case.inputs[:1], options=options)
    always_from(engine, first)
    recorded = engine.recorded
    for size in SIZES:
        same(engine.predict(case.inputs[:size]), case.cascade.predict(case.inputs[:size]))
    assert engine.recorded == recorded


def writes_into_its_inputs(scale: float, inputs: Tensor) -> Tensor:
    return inputs.mul_(scale)[:, :3]


MEMORY = torch.empty(32, 3)


def answers_where_others_do(scale: float, inputs: Tensor) -> Tensor:
    return torch.mul(inputs[:, :3], scale, out=MEMORY[: len(inputs)])


@pytest.mark.parametrize("side_by_side", [False, True])
@pytest.mark.parametrize("member", [writes_into_its_inputs, answers_where_others_do])
def test_members_may_use_memory_again(same: Same, member: Callable[..., Tensor], side_by_side: bool) -> None:
    inputs = torch.randn(20, 5)
    cascade = Cascade([partial(member, scale) for scale in (0.5, -3.0, 2.0)], Margin(0.5))
    options = EngineOptions(largest=32, buckets=(8, 32), side_by_side=side_by_side)
    engine = Engine(cascade, inputs[:1], options=options)
    if side_by_side:
        always_from(engine, 0)
    same(engine.predict(inputs), cascade.predict(inputs))


@pytest.mark.parametrize("engine", [Engine, Stream])
def test_the_example_stays_as_it_is(engine: type[Engine | Stream]) -> None:
    def member(inputs: Tensor) -> Tensor:
        return inputs.mul_(0.5)[:, :3]

    inputs = torch.randn(4, 5)
    example = inputs.clone()
    engine(Cascade([member, member], Margin(0.5)), example)
    assert torch.equal(example, inputs)


@pytest.mark.parametrize("engine", [Engine, Stream])
def test_members_may_take_row_numbers(same: Same, engine: type[Engine | Stream]) -> None:
    """As members over a table or texts do: one whole number a sample. Other numbers in one axis are one sample."""
    tables = torch.randn(3, 50, 4) * 3
    cascade = Cascade([lambda rows, table=table: table[rows] for table in tables], Margin(0.7))
    rows = torch.randperm(50)[:30]
    made = engine(cascade, rows[:1])
    found = made.predict(rows) if isinstance(made, Engine) else next(made.predict([rows]))
    same(found, cascade.predict(rows))
    assert found.members_used.unique().tolist() == [1, 2, 3]
    with pytest.raises(OptionError, match="an example batch of one input or more"):
        engine(cascade, torch.zeros(5))


def test_it_goes_on_after_a_member_failed(same: Same) -> None:
    failing: list[int] = []

    def member(number: int, inputs: Tensor) -> Tensor:
        if number in failing:
            raise RuntimeError("out of order")
        return inputs[:, number:] * 1

    inputs = torch.randn(20, 5)
    cascade = Cascade([partial(member, number) for number in (0, 0, 0)], Margin(0.3))
    options = EngineOptions(largest=32, buckets=(1, 8, 32), side_by_side=True)
    for first in (0, 1):
        engine = Engine(cascade, inputs[:1], options=options)
        always_from(engine, first)
        same(engine.predict(inputs[:7]), cascade.predict(inputs[:7]))
        failing.append(0)
        with pytest.raises(RuntimeError, match="out of order"):
            engine.predict(inputs)
        failing.clear()
        same(engine.predict(inputs[:7]), cascade.predict(inputs[:7]))
        same(engine.predict(inputs), cascade.predict(inputs))


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("failing", [1, 2])
def test_a_batch_that_failed_in_the_middle_does_not_count_for_more_than_it_was(
    same: Same, monkeypatch: pytest.MonkeyPatch, failing: int, chained: bool
) -> None:
    broken: list[int] = []

    def member(number: int, inputs: Tensor) -> Tensor:
        if number in broken:
            raise RuntimeError("out of order")
        return inputs[:, :3] * (number + 1)

    if chained:
        monkeypatch.setattr(stages, "can_switch", lambda device: True)
        monkeypatch.setattr(chain, "Switches", Emulated)
    inputs = torch.randn(20, 5)
    cascade = Cascade([partial(member, number) for number in range(3)], Never())
    options = EngineOptions(largest=32, buckets=(1, 8, 32), side_by_side=True)
    engine = Engine(cascade, inputs[:1], backends=capturable(cascade, inputs), options=options)
    broken.append(failing)
    with pytest.raises(RuntimeError, match="out of order"):
        engine.predict(inputs)
    broken.clear()
    for size in (7, 7, 1, 20):
        same(engine.predict(inputs[:size]), cascade.predict(inputs[:size]))
        assert all(0 <= share <= 1 for share in engine._going.shares)


def test_it_does_not_matter_where_torch_makes_tensors_by_default(same: Same) -> None:
    inputs = torch.randn(20, 5)
    cascade = Cascade(mlps(), Margin(0.08))
    engine = Engine(cascade, inputs[:1], options=EngineOptions(largest=16, buckets=(4, 8)))
    stream = Stream(cascade, inputs[:1])
    expected = cascade.predict(inputs)
    with torch.device("meta"):
        found = [engine.predict(inputs), *stream.predict([inputs])]
    for one in found:
        same(one, expected)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("fuse", [False, True])
def test_a_copy_and_the_original_answer_in_turn(
    same: Same, monkeypatch: pytest.MonkeyPatch, copied: Callable[[Engine], Engine], fuse: bool
) -> None:
    monkeypatch.setattr(stages.torch, "compile", partial(torch.compile, backend="aot_eager"))
    inputs = torch.randn(40, 5)
    cascade = Cascade(mlps(), Margin(0.08))
    engine = Engine(cascade, inputs[:1], options=EngineOptions(largest=8, buckets=(8,), fuse=fuse))
    other = copied(engine)
    for one, start, stop in ((engine, 0, 5), (other, 5, 8), (engine, 20, 25), (other, 8, 16), (other, 16, 19)):
        same(one.predict(inputs[start:stop]), cascade.predict(inputs[start:stop]))


def always_from(engine: Engine, first: int, *, planned: bool = False) -> None:
    """Have an engine think that members from this one on take no time when they run in pairs."""
    table = engine.costs
    assert table is not None
    free, never = (0.0,) * len(table.buckets), (math.inf,) * len(table.buckets)
    pairs = tuple(free if stage >= first else never for stage in range(len(table.pairs)))
    engine._stages.costs = replace(table, pairs=pairs)
    assert bool(engine._stages._planned) == planned
    engine._stages._planned.clear()


def test_members_run_in_pairs_once_it_has_learned_who_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.randn(5, 5)
    options = EngineOptions(buckets=(8,), largest=8, side_by_side=True)
    engine = Engine(Cascade(mlps(4), Never()), inputs[:1], options=options)
    engine._stages.costs = CostTable((8,), ((1.0,),) * 4, ((1.5,), (math.inf,), (1.5,)))
    ran: list[tuple[int, int]] = []
    run = engine._stages.run

    def running(stage: int, rows: int, width: int) -> None:
        ran.append((stage, width))
        run(stage, rows, width)

    monkeypatch.setattr(engine._stages, "run", running)
    for _ in range(2):
        engine.predict(inputs)
    assert ran == [(0, 1), (1, 1), (2, 1), (3, 1), (0, 2), (2, 2)]
    engine.predict(inputs)
    assert engine._stages.came.tolist() == [0, 15, 15, 15]  # samples, in pairs or not


def test_it_looks_at_who_goes_on_often_at_first_and_seldom_later(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[list[int]] = []

    class Late:
        """Counts on their way to the host, which are there when they are asked for again."""

        def __init__(self, came: Tensor) -> None:
            self._came, self._asked = came.clone(), 0
            looks.append(came.tolist())

        def now(self) -> Tensor | None:
            self._asked += 1
            return self._came if self._asked > 1 else None

    monkeypatch.setattr(engines, "Fetch", Late)
    came = torch.tensor([0, 0, 0])
    going = engines._Going(came)
    for batch in range(1, 201):
        came += torch.tensor([0, 4, 1])
        going.samples += 8
        going.learn()
        if batch == 2:
            assert going.shares == [0.5, 0.25, 0.0]  # what the first batch said
    assert going.shares == [0.5, 0.25, 0.0]
    assert len(looks) == 16 + 6  # every other batch of the first 32, as counts take one, then one in 32


def capturable(cascade: Cascade, inputs: Tensor) -> list[Backend]:
    backends: list[Backend] = []
    for member in cascade.members:
        backend = Eager.load(member, inputs[:1])
        backend.capturable = True
        backends.append(backend)
    return backends


class Emulated:
    """The switches of a GPU, as they are defined, by the host."""

    def __init__(self, device: torch.device) -> None:
        self.ran = 0
        self._added: list[tuple[Tensor, Tensor, list[Program]]] = []

    def add(self, key: Tensor, table: Tensor, programs: list[Program]) -> None:
        assert (key.dtype, table.dtype) == (torch.int64, torch.int32)
        self._added.append((key, table, programs))

    def finish(self) -> None:
        pass

    def run(self) -> None:
        for key, table, programs in self._added:
            number = int(table[int(key)])
            if number < len(programs):
                programs[number]()
        self.ran += 1


class Refused(Emulated):
    def finish(self) -> None:
        raise CannotSwitch("the driver knows a kind of node that it cannot put behind a switch")


@settings(max_examples=40)
@given(case=cases(), largest=st.sampled_from((1, 4, 50, 128)), first=st.integers(0, 3), pairs=st.booleans())
def test_a_chain_answers_as_the_host_does(same: Same, case: Case, largest: int, first: int, pairs: bool) -> None:
    backends = capturable(case.cascade, case.inputs)
    options = EngineOptions(largest=largest, buckets=(1, 8, 32), side_by_side=True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stages, "can_switch", lambda device: True)
        patched.setattr(chain, "Switches", Emulated)
        patched.setattr(Mark, "wait", lambda mark: pytest.fail("the host waited"))
        engine = Engine(case.cascade, case.inputs[:1], backends=backends, options=options)
        if pairs:
            always_from(engine, first)
        for size in SIZES:
            same(engine.predict(case.inputs[:size]), case.cascade.predict(case.inputs[:size]))
    assert (engine._stages.chain is None) == (len(backends) == 1)


def test_a_chain_forgets_the_batch_before(monkeypatch: pytest.MonkeyPatch, same: Same) -> None:
    monkeypatch.setattr(stages, "can_switch", lambda device: True)
    monkeypatch.setattr(chain, "Switches", Emulated)
    outputs = torch.tensor([[[0.1, 0.0]], [[9.0, 0.0]]])
    members = [lambda inputs: outputs[inputs[:, 0].long()]] * 2
    cascade = Cascade(members, Margin(0.5))
    goes_on, stops = torch.tensor([[0.0]]), torch.tensor([[1.0]])
    options = EngineOptions(largest=1, buckets=(1,), side_by_side=True)
    engine = Engine(cascade, stops, backends=capturable(cascade, stops), options=options)
    same(engine.predict(goes_on), cascade.predict(goes_on))
    always_from(engine, 0, planned=True)
    same(engine.predict(goes_on), cascade.predict(goes_on))
    same(engine.predict(stops), cascade.predict(stops))


def test_the_host_chooses_where_the_driver_will_not(monkeypatch: pytest.MonkeyPatch, same: Same) -> None:
    monkeypatch.setattr(stages, "can_switch", lambda device: True)
    monkeypatch.setattr(chain, "Switches", Refused)
    inputs = torch.randn(20, 5)
    cascade = Cascade(mlps(), Margin(0.08))
    options = EngineOptions(largest=32, buckets=(8,))
    engine = Engine(cascade, inputs, backends=capturable(cascade, inputs), options=options)
    assert engine._stages.chain is None
    same(engine.predict(inputs), cascade.predict(inputs))


def test_the_compiled_pieces_are_whole_and_compiled_once(monkeypatch: pytest.MonkeyPatch, same: Same) -> None:
    # What inductor would generate code from, without the minutes that generating it takes.
    monkeypatch.setattr(stages.torch, "compile", partial(torch.compile, backend="aot_eager"))
    inputs = torch.randn(40, 5)
    cascade = Cascade(mlps(), Margin(0.08))
    engine = Engine(cascade, inputs[:1], options=EngineOptions(largest=16, buckets=(1, 4, 8), fuse=True))
    with torch.compiler.set_stance("fail_on_recompile"):
        for size in (1, 2, 3, 16, 17, 40):
            same(engine.predict(inputs[:size]), cascade.predict(inputs[:size]))
    assert engine.recorded == 3 * 4


def test_it_does_without_compiling_where_torch_cannot(monkeypatch: pytest.MonkeyPatch, same: Same) -> None:
    def no_compiler(*_: object) -> NoReturn:
        raise RuntimeError("Failed to find C compiler")

    monkeypatch.setattr(stages, "fuses_on", lambda device: True)
    monkeypatch.setattr(stages.torch, "compile", partial(torch.compile, backend=no_compiler))
    inputs = torch.randn(40, 5)
    cascade = Cascade(mlps(), Margin(0.08))
    options = EngineOptions(largest=16, buckets=(4, 8))
    with pytest.warns(UserWarning, match="runs slower without it.*Failed to find C compiler"):
        engine = Engine(cascade, inputs[:1], options=options)
    same(engine.predict(inputs), cascade.predict(inputs))
    with pytest.raises(Exception, match="Failed to find C compiler"):  # who asks for it by name is told
        Engine(cascade, inputs[:1], options=replace(options, fuse=True))


def test_nothing_is_left_of_what_was_recorded_before_torch_failed_to_compile(
    monkeypatch: pytest.MonkeyPatch, same: Same
) -> None:
    compiled: list[str] = []

    def fails_later(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        compiled.append(graph._get_name())
        if len(compiled) == 3:
            raise RuntimeError("PassManager::run failed")
        return graph.forward

    monkeypatch.setattr(stages, "fuses_on", lambda device: True)
    monkeypatch.setattr(stages.torch, "compile", partial(torch.compile, backend=fails_later))
    inputs = torch.randn(40, 5)
    cascade = Cascade(mlps(), Margin(0.08))
    with pytest.warns(UserWarning, match="PassManager::run failed"):
        engine = Engine(cascade, inputs[:1], options=EngineOptions(largest=16, buckets=(4, 8)))
    assert len(compiled) == 3  # the third failed, with the first member's programs recorded
    assert engine.recorded == 3 * 3
    same(engine.predict(inputs), cascade.predict(inputs))


def test_inputs_that_want_gradients_get_none(same: Same) -> None:
    inputs = torch.randn(20, 5, requires_grad=True)
    cascade = Cascade(mlps(), Margin(0.08))
    for options in (EngineOptions(), EngineOptions(largest=8, buckets=(4,))):
        engine = Engine(cascade, inputs[:1].detach(), options=options)
        found = engine.predict(inputs)
        same(found, cascade.predict(inputs))
        assert not found.outputs.requires_grad
        assert not engine._stages.inputs.requires_grad


@pytest.mark.parametrize("made", [False, True])
@pytest.mark.parametrize("fuse", [False, True])
def test_it_may_be_made_in_inference_mode_and_used_outside_and_the_other_way_round(
    same: Same, monkeypatch: pytest.MonkeyPatch, made: bool, fuse: bool
) -> None:
    monkeypatch.setattr(stages.torch, "compile", partial(torch.compile, backend="aot_eager"))
    inputs = torch.randn(40, 5)
    cascade = Cascade(mlps(), Margin(0.08))
    with torch.inference_mode(made):
        engine = Engine(cascade, inputs[:1].clone(), options=EngineOptions(largest=16, buckets=(4, 8), fuse=fuse))
    with torch.compiler.set_stance("fail_on_recompile"):
        for used in (False, True, False):
            with torch.inference_mode(used):
                found = engine.predict(inputs.clone())
            same(found, cascade.predict(inputs))
            assert not found.outputs.is_inference()


def test_an_engine_is_shown_in_a_line() -> None:
    engine = Engine(Cascade(mlps(), Margin(0.08)), torch.randn(1, 5), options=EngineOptions(largest=16))
    assert repr(engine) == "Engine(3 members, Margin(0.08), classification, cpu, largest 16)"


def test_each_member_may_have_its_own_backend(same: Same) -> None:
    inputs = torch.randn(30, 5)
    cascade = Cascade(mlps(2), Margin(0.08))
    loaded = Eager.load(cascade.members[1], inputs[:1])
    same(Engine(cascade, inputs[:1], backends=["eager", loaded]).predict(inputs), cascade.predict(inputs))
    with pytest.raises(OptionError, match="2 members and 1 backends"):
        Engine(cascade, inputs[:1], backends=["eager"])
    wrong: list[Any] = ["eager", 3]
    with pytest.raises(OptionError, match="a backend is a name, such as eager, or one that is loaded, got 3"):
        Engine(cascade, inputs[:1], backends=wrong)


def test_what_has_no_order_of_members_is_refused() -> None:
    members = mlps(3)
    mixture: Any = Mixture(members[:2], members[2], top=1)
    listed: Any = members
    for kind in (Engine, Stream):
        with pytest.raises(OptionError, match="runs the members of a Cascade in order, got a list"):
            kind(listed, torch.zeros(1, 5))
        with pytest.raises(OptionError, match="runs the members of a Cascade in order, got a Mixture"):
            kind(mixture, torch.zeros(1, 5))


def test_a_policy_may_not_grow_its_memory() -> None:
    class Growing(Policy):
        name: ClassVar[str] = "growing"

        def score(self, step: Step, state: State) -> tuple[Tensor, State]:
            return step.mean_BK[:, 0], {f"step {step.index}": step.mean_BK}

    with pytest.raises(OptionError, match="the growing policy must remember tensors of the same names"):
        Engine(Cascade(mlps(2), Growing(0.5)), torch.zeros(1, 5))


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Router(costs=(1.0, 1.0)), "the skipping policy chooses the next member"),
        (Oracle(torch.zeros(3)), "the oracle knows the labels of one batch"),
    ],
)
def test_policies_that_no_engine_can_run(policy: Stopper, words: str) -> None:
    with pytest.raises(OptionError, match=words):
        Engine(Cascade(mlps(2), policy), torch.zeros(1, 5))


def test_inputs_of_another_kind_are_refused() -> None:
    engine = Engine(Cascade(mlps(2)), torch.zeros(1, 5))
    for inputs in (torch.zeros(3, 4), torch.zeros(3, 5, dtype=torch.uint8)):
        with pytest.raises(OptionError, match=r"was made for samples of torch\.float32 and shape"):
            engine.predict(inputs)
    for backend in ("eager", "onnx"):
        with pytest.raises(OptionError, match="an example batch of one input or more"):
            Engine(Cascade(mlps(2)), torch.zeros(0, 5), backends=backend)
    for largest in (0, 8.5, math.nan):
        wrong: Any = largest
        with pytest.raises(OptionError, match="largest must be 1 sample or more, a whole number"):
            EngineOptions(largest=wrong)
    with pytest.raises(OptionError, match="buckets must be sizes of 1 sample or more"):
        Engine(Cascade(mlps(2)), torch.zeros(1, 5), options=EngineOptions(buckets=(0, 4)))


def test_a_member_with_another_number_of_outputs_is_refused() -> None:
    members: list[Any] = [lambda inputs: torch.zeros(len(inputs), 3), lambda inputs: torch.zeros(len(inputs), 4)]
    engine = Engine(Cascade(members), torch.zeros(1, 2))
    with pytest.raises(OptionError, match="member 2 gave 4 outputs a sample and the first one 3"):
        engine.predict(torch.zeros(2, 2))
