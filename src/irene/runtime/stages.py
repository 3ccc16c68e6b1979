"""The stages of a cascade over fixed memory: what the compacting and the streaming engine have in common.

Every sample in flight has a slot, a row in a few tensors on the device, where its input, what its policy remembers
and its answer so far lie until it is done; it never moves. A stage is one member: it takes a list of slots, gathers
their inputs, runs the member, decides by the cascade's own rule which samples stop, and leaves the list of those
that go on. Lists are padded with the number of a spare slot, which takes in the results of padding rows.

Five samples in slots 0 to 4 of 8, the spare one being 8, of whom 1 and 4 go on after the first member, in buckets of
2, 4 and 8 rows; behind the rows that a stage leaves stands how many samples they hold:

    list 0   0 1 2 3 4 8 8 8        all eight rows run through member 0
    list 1   1 4 8 8 8 8 8 8 | 2    its first two rows run through member 1
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.cascade import Cascade
from irene.errors import OptionError
from irene.halting.policies import Oracle
from irene.halting.policy import State
from irene.halting.rule import Rule
from irene.models.adapters import as_batch, float_type_for
from irene.models.member import as_heads
from irene.runtime.backend import Backend
from irene.runtime.buckets import CostTable, Plans, bucket_sizes, check_buckets, measure
from irene.runtime.chain import Chain, Places
from irene.runtime.recorder import Program, Recorder
from irene.runtime.switches import CannotSwitch, can_switch
from irene.runtime.torch_backend import compiling, failed_to_compile, generates_kernels
from irene.types import Prediction

_LARGEST_PAIR = 256  # samples: with more, one member alone fills a GPU

# Around all that makes or writes fixed memory: what is made in inference mode cannot be written to outside it, and
# compiled pieces would be compiled again for the other mode.
out_of_inference_mode = torch.inference_mode(False)


class Stages:
    """The members, rule and memory of a cascade: `run(t, rows)` takes the first `rows` of list t through member t.

    Without buckets a stage runs as many rows as there are; with them only those sizes are ever run, each recorded
    and timed here, so that nothing is compiled or captured later. `whole_batches` says that the first list always
    holds the first slots in order, that any number of samples may go on, and that nothing else is run between the
    stages of a batch: where the device can, `chain` then runs all stages after the first without asking the host.
    `pairs` also records two stages at once. Where so many slots would take more than `most_bytes` there are fewer, down
    to `largest`.
    """

    def __init__(
        self,
        cascade: Cascade,
        example: Tensor,
        backends: Sequence[Backend],
        *,
        slots: int,
        largest: int,
        most_bytes: int | None = None,
        buckets: Sequence[int] | None = None,
        whole_batches: bool = False,
        pairs: bool = False,
        fuse: bool | None = None,
    ) -> None:
        self.device = example.device
        self.rule = _rule_on(cascade.rule, self.device)
        self.backends = tuple(backends)
        self.largest = largest
        self._fused = fuses_on(self.device) if fuse is None else fuse
        self._whole_batches = whole_batches
        self._pairs = pairs
        self.sizes = self._bucket_sizes(buckets)
        chained = whole_batches and can_switch(self.device) and all(backend.capturable for backend in self.backends)
        self._places = Places(self.sizes, self.device) if self.sizes is not None and chained else None
        self.input_shape, self.input_type = tuple(example.shape[1:]), example.dtype
        self.float_type = torch.float64 if example.dtype == torch.float64 else torch.float32  # of an array's float64
        self.recorder = self._new_recorder()
        outputs = self._count_outputs(example)
        self.first = _same_start(self.rule, outputs, self.device)
        state = self.rule.start(1, outputs, self.device)
        answer = (
            torch.zeros(1, outputs, device=self.device),
            torch.zeros(1, dtype=torch.int64, device=self.device),
            torch.zeros(1, self.steps, device=self.device),
        )
        if most_bytes is not None:
            slot_bytes = sum(row.nbytes for row in (example[:1], *state.values(), *answer))
            slots = max(min(slots, most_bytes // slot_bytes - 1), largest)  # one more is the spare one
        self.spare = slots
        self.inputs = _repeated(example[:1], slots + 1)
        self.state = {key: _repeated(value, slots + 1) for key, value in state.items()}
        self.outputs, self.used, self.trace = (_repeated(row, slots + 1) for row in answer)
        # Where the chain finds what to run for the samples that came to a stage; 0 where none came.
        self.keys = torch.zeros(self.steps + 1, dtype=torch.int64, device=self.device)
        # One list a stage, and behind as many entries as rows were run, the number of samples it holds.
        self.lists = [
            torch.full((largest + 1,), slots, dtype=torch.int64, device=self.device) for _ in range(self.steps + 1)
        ]
        # How many samples came to each stage after the first so far.
        self.came = torch.zeros(self.steps, dtype=torch.int64, device=self.device)
        self._numbers = torch.arange(largest, device=self.device)
        self._all_listed = (0, 0)  # samples and rows that the first list stands for, where it lists all of a batch
        # Functions that are given the stages, not methods: those of a copy are to write into the copy.
        self._settle: Callable[[Stages, int, Tensor, list[Tensor]], list[Tensor]] = Stages._settled
        self._list: Callable[[Stages, int, list[Tensor], Tensor | None], None] = Stages._listed
        if self._fused:  # in two pieces, as triton fails on kernels that do both for a single row
            self._settle = torch.compile(Stages._settled, fullgraph=True)
            self._list = torch.compile(Stages._listed, fullgraph=True)
        self._programs: dict[tuple[int, int, int], Program] = {}
        self._planned: dict[tuple[int, int, float], Plans] = {}  # made when first asked for
        self.costs = self._warm_up() if fuse is not None else self._warm_up_fused_or_not()
        self.chain = self._chained()

    @property
    def steps(self) -> int:
        return len(self.backends)

    def __str__(self) -> str:
        return f"{self.steps} members, {self.rule.policy!r}, {self.rule.task}, {self.device}"

    def plan(self, stage: int, count: int, within: int, going: float = 0.0) -> tuple[int, int]:
        """How many rows to run, and how many stages at once, for `count` samples that lie in a list of `within`.

        `going` is the share that usually goes on after this stage.
        """
        if self.costs is None:
            return count, 1
        places, widths = self._plans(stage, within, going)
        return self.costs.buckets[places[count - 1]], int(widths[count - 1])

    def _plans(self, stage: int, within: int, going: float) -> Plans:
        assert self.costs is not None
        key = (stage, within, going)
        if key not in self._planned:
            self._planned[key] = self.costs.plans(stage, within, going)
        return self._planned[key]

    def run(self, stage: int, rows: int, width: int = 1) -> None:
        """Run `width` stages at once; afterwards `survivors` of the last of them is the list of samples that go on."""
        program = self._programs.get((stage, rows, width))
        if program is not None:
            program()
        elif self.costs is None:
            self._step(stage, rows, width)
        else:
            raise OptionError(f"a stage runs in buckets of {self.costs.buckets}, got {rows} rows")

    def list_all(self, samples: int, rows: int) -> None:
        """List the first slots for the first stage, and padding up to so many rows."""
        if self._all_listed != (samples, rows):
            self.lists[0][:samples].copy_(self._numbers[:samples])
            self.lists[0][samples:rows].fill_(self.spare)
            self._all_listed = (samples, rows)

    def survivors(self, stage: int, rows: int) -> Tensor:
        """(rows + 1,) slots of the samples that go on, then padding, and at the end how many they are."""
        return self.lists[stage + 1][: rows + 1]

    def answers(self, start: int, stop: int) -> Prediction:
        """The answers of a range of slots whose samples are done."""
        outputs_BK, used_B, trace_BT = (rows[start:stop].clone() for rows in (self.outputs, self.used, self.trace))
        return Prediction(self.rule.task, outputs_BK, used_B, trace_BT)

    def check(self, inputs: Tensor) -> None:
        """Refuse inputs that are not of the kind the engine was made for."""
        if tuple(inputs.shape[1:]) != self.input_shape or inputs.dtype != self.input_type:
            raise OptionError(
                f"this engine was made for samples of {self.input_type} and shape {self.input_shape}, "
                f"got {inputs.dtype} and shape {tuple(inputs.shape[1:])}"
            )

    def begin(self, samples: int) -> State:
        """What is to be remembered of each sample before it starts, where that differs from sample to sample."""
        if self.first is not None:
            return {}
        with torch.no_grad():
            return self.rule.start(samples, self.outputs.shape[1], self.device)

    @torch.no_grad()
    def _step(self, stage: int, rows: int, width: int = 1) -> None:
        index_B = self.lists[stage][:rows]
        straight = stage == 0 and self._whole_batches
        inputs = self.inputs[:rows] if straight else self.inputs.index_select(0, index_B)
        answers = [
            partial(self._answer, number, inputs, shared=straight or width > 1)
            for number in range(stage, stage + width)
        ]
        outputs = [answers[0]()] if width == 1 else self.recorder.together(*answers)
        self._any_rows([index_B, *outputs])
        going = self._settle(self, stage, index_B, outputs)
        self._any_rows(going)
        self._list(self, stage, going, None if self._places is None else self._places.begins[rows])

    def _any_rows(self, tensors: list[Tensor]) -> None:
        """Have what is compiled for these work for any number of rows above one."""
        if self._fused and tensors[0].shape[0] > 1:
            for tensor in tensors:
                torch._dynamo.maybe_mark_dynamic(tensor, 0)

    def _answer(self, stage: int, inputs: Tensor, *, shared: bool) -> Tensor:
        """A member's answer; `shared` inputs are read by others too, so that a member may not write into them."""
        backend = self.backends[stage]
        if shared and not backend.keeps_inputs:
            inputs = inputs.clone()
        return as_heads(backend.run(inputs.to(backend.device))).to(self.device)

    def _settled(self, stage: int, index_B: Tensor, outputs: list[Tensor]) -> list[Tensor]:
        """Add the outputs of some members, the first of them `stage`, to the samples in these slots.

        (B,) after each of them: the slots, the spare one for samples that have stopped.
        """
        going = [index_B]
        for number, output_BHK in enumerate(outputs, stage):
            going.append(self._added(number, going[-1], output_BHK))
        return going[1:]

    def _listed(self, stage: int, going: list[Tensor], place: Tensor | None) -> None:
        """List the samples that go on after some stages, the first of them `stage`; their number stands behind.

        `place` is where the chain keeps what to do next after so many rows.
        """
        for number, index_B in enumerate(going[:-1], stage + 1):
            self.came[number : number + 1].add_((index_B != self.spare).sum())
        if place is not None and stage == 0:
            self.keys.zero_()
        after = stage + len(going)
        if after == self.steps:
            return
        # A running count moves samples that go on to the front, and the others, now the spare slot, behind them. There
        # is no mask, so the host need not know how many.
        index_B = going[-1]
        rows = index_B.shape[0]
        going_B = index_B != self.spare
        count_B = going_B.cumsum(0)
        count = count_B[-1:]
        behind_B = count + torch.arange(rows, device=index_B.device) - count_B
        target_B = torch.where(going_B, count_B - 1, behind_B)
        self.lists[after].index_copy_(0, torch.cat([target_B, count.new_full((1,), rows)]), torch.cat([index_B, count]))
        self.came[after : after + 1].add_(count)
        if place is not None:
            self.keys[after : after + 1].copy_(torch.where(count > 0, place + count, 0))

    def _added(self, stage: int, index_B: Tensor, output_BHK: Tensor) -> Tensor:
        """Add one member's output to the samples in these slots; (B,) the slots, the spare one for those that stop."""
        if stage == 0 and self.first is not None:
            state = {key: value.expand(index_B.shape[0], *value.shape[1:]) for key, value in self.first.items()}
        else:
            state = {key: value.index_select(0, index_B) for key, value in self.state.items()}
        outcome, state = self.rule.step(stage, output_BHK, state)
        self.outputs.index_copy_(0, index_B, outcome.mean_BK)
        self.used.index_copy_(0, index_B, torch.full_like(index_B, stage + 1))
        self._write_score(stage, index_B, outcome.score_B.to(torch.float32))
        if stage + 1 == self.steps:
            return index_B
        for key, value in state.items():
            self.state[key].index_copy_(0, index_B, value)
        return torch.where(outcome.halt_B, self.spare, index_B)

    def _write_score(self, stage: int, index_B: Tensor, score_B: Tensor) -> None:
        if stage == 0:  # the sample that had the slot before left its scores there
            later = score_B.new_full((score_B.shape[0], self.steps - 1), torch.nan)
            self.trace.index_copy_(0, index_B, torch.cat([score_B[:, None], later], 1))
        else:
            self.trace.index_put_((index_B, torch.full_like(index_B, stage)), score_B)

    def _bucket_sizes(self, buckets: Sequence[int] | None) -> tuple[int, ...] | None:
        if buckets is not None:
            return tuple(size for size in check_buckets([*buckets, self.largest]) if size <= self.largest)
        if self.device.type == "cuda":
            return bucket_sizes(self.largest, fine=self._whole_batches)
        if self._fused or any(backend.fixed_sizes for backend in self.backends):
            return bucket_sizes(self.largest)
        return None

    @torch.no_grad()
    def _count_outputs(self, example: Tensor) -> int:
        """How many outputs the members have, told by the first."""
        rows = 1 if self.sizes is None else self.sizes[0]
        inputs = example[[0] * rows]  # a copy, as a member may change what it is given
        return as_heads(self.backends[0].run(inputs.to(self.backends[0].device))).shape[2]

    def _chained(self) -> Chain | None:
        """All stages after the first as one program, where the device can choose between them."""
        if self.costs is None or self._places is None or self.steps == 1:
            return None
        try:
            return Chain(self.costs.buckets, self._programs, self._plans, self._places, self.keys)
        except CannotSwitch:
            return None

    def _warm_up_fused_or_not(self) -> CostTable | None:
        """Warm up, and do without fusing where torch turns out not to be able to compile here."""
        try:
            return self._warm_up()
        except Exception as error:
            if not self._fused or not failed_to_compile(error):
                raise
        self._fused = False
        self._settle, self._list = Stages._settled, Stages._listed
        self._programs.clear()
        self.recorder = self._new_recorder()  # the pool of graphs that are gone cannot be used again
        return self._warm_up()

    def _new_recorder(self) -> Recorder:
        return Recorder(self.device, keep=self._places is not None)

    @torch.no_grad()
    def _warm_up(self) -> CostTable | None:
        """Record and time every stage in every bucket, the largest first, whose memory the others then share."""
        self._check_memory()
        if self.sizes is None:
            return None
        ms = [[self._record(stage, size, 1) for size in reversed(self.sizes)] for stage in range(self.steps)]
        pairs = [
            [self._record(stage, size, 2) if size <= _LARGEST_PAIR else math.inf for size in reversed(self.sizes)]
            for stage in range(self.steps - 1 if self._pairs else 0)
        ]
        self.came.zero_()  # the rows of the warm-up were no samples
        return CostTable(self.sizes, *(tuple(tuple(reversed(row)) for row in rows) for rows in (ms, pairs)))

    def _record(self, stage: int, size: int, width: int) -> float:
        """Record `width` stages at once in a bucket; milliseconds they take."""
        capture = all(backend.capturable for backend in self.backends[stage : stage + width])
        with compiling() if self._fused else nullcontext():
            program = self.recorder.record(partial(self._step, stage, size, width), capture=capture)
        self._programs[stage, size, width] = program
        return measure(program, self.device)

    def _check_memory(self) -> None:
        """A slot holds what a policy remembers, so its names, shapes and types may not change from step to step."""
        output_BHK = torch.zeros(1, 1, self.outputs.shape[1], device=self.device)
        for stage in range(self.steps):
            before = {key: value[:1] for key, value in self.state.items()}
            _, after = self.rule.step(stage, output_BHK, before)
            told = [{key: (value.shape, value.dtype) for key, value in state.items()} for state in (before, after)]
            if told[0] != told[1]:
                raise OptionError(
                    f"the {self.rule.policy.name} policy must remember tensors of the same names, shapes and types at "
                    f"every step, got {told[0]} and then {told[1]}"
                )


def fuses_on(device: torch.device) -> bool:
    """Whether features, policy and lists are compiled into a few kernels unless the user says otherwise."""
    return device.type == "cuda" and generates_kernels()


def as_example(inputs: Tensor | NDArray[Any], cascade: Cascade) -> Tensor:
    """One raw input or more, which tell an engine of the cascade their shape and type."""
    if not isinstance(cascade, Cascade):
        raise OptionError(f"an engine runs the members of a Cascade in order, got a {type(cascade).__name__}")
    example = as_batch(inputs, float_type_for(cascade.members))
    row_numbers = example.ndim == 1 and not example.is_floating_point()  # other numbers are one sample, not a batch
    if (example.ndim < 2 and not row_numbers) or len(example) == 0:
        raise OptionError(f"an engine needs an example batch of one input or more, got shape {tuple(example.shape)}")
    return example


def _rule_on(rule: Rule, device: torch.device) -> Rule:
    """The rule with a policy of its own on the device; policies that no engine can run are refused."""
    if isinstance(rule.policy, Oracle):
        raise OptionError("the oracle knows the labels of one batch and is for studies: replay it on a bank")
    return Rule(copy.deepcopy(rule.policy).to(device).eval(), rule.aggregation, rule.task)


def _repeated(row: Tensor, count: int) -> Tensor:
    """Memory for so many rows like this one, all zeros."""
    return row.new_zeros(count, *row.shape[1:])


def _same_start(rule: Rule, outputs: int, device: torch.device) -> State | None:
    """What is remembered of a sample before the first step, (1, ...), if that is the same for every sample."""
    state = rule.start(3, outputs, device)
    same = all(bool((value == value[:1]).all()) for value in state.values())
    return {key: value[:1].clone() for key, value in state.items()} if same else None
