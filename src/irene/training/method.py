"""What a training method is given, and what it must give back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from irene.bank import collect
from irene.data.evenly import evenly
from irene.data.loader import Loader
from irene.data.samples import Samples
from irene.data.splits import Splits
from irene.halting.policies import Never
from irene.halting.policy import Stopper
from irene.halting.rule import Aggregation
from irene.models import Member, MemberSpec, as_heads, build, statistics
from irene.models.cost import measure_cost
from irene.models.packed import Pack
from irene.training import losses
from irene.training.loop import Loop, derive_seed
from irene.training.objective import Objective, Supervised
from irene.training.options import LoopOptions
from irene.types import Cost, Task

COST_BATCH = 256  # samples with which costs are measured
_READ = 2048  # samples, where they are read from files, that tell the mean and the spread to normalise by


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training to be done: the data, one backbone a member, the loop and the method's own options."""

    splits: Splits
    backbones: tuple[str, ...]
    loop: Loop
    loop_options: LoopOptions
    options: Any
    notes: list[str] = field(default_factory=list)  # what run.json is to keep of what the user was told
    _costs: dict[MemberSpec, Cost] = field(default_factory=dict, init=False)

    @property
    def task(self) -> Task:
        return self.splits.data.task

    @property
    def device(self) -> torch.device:
        return self.loop.device

    @property
    def scale_K(self) -> Tensor | None:
        """The spread of regression targets, in whose units errors are counted; None for classification."""
        if self.task == "classification":
            return None
        return losses.error_unit(self.splits.train.targets).to(self.device)

    @cached_property
    def _statistics(self) -> tuple[Tensor, Tensor]:
        """The mean and the spread of the training inputs, which members normalise by."""
        train = self.splits.train
        return statistics(train.read(evenly(len(train), _READ).tolist()) if train.inputs is None else train.inputs)

    def note(self, text: str) -> None:
        """Tell the user something, and keep it for run.json."""
        self.notes.append(text)
        self.loop.recorder.console.print(text)

    def new_member(self, index: int, *, heads: int = 1, name: str = "member") -> Member:
        """A fresh member number `index` (from 0), with the weights its seed gives."""
        data, train = self.splits.data, self.splits.train
        spec = MemberSpec(
            backbone=self.backbones[index],
            shape=data.shape,
            outputs=data.outputs,
            heads=heads,
        )
        mean, std = self._statistics
        member = build(spec, seed=derive_seed(self.loop.seed, name, index), mean=mean, std=std)
        if self.task == "regression":
            member.scale_outputs(train.targets.mean(0), losses.spread(train.targets))
        return member

    def new_packed(self, kind: Literal["mimo", "batch"], submodels: int) -> Member:
        """A fresh member that holds so many sub-models, each with the one backbone there is."""
        (backbone,) = self.backbones
        pack = Pack(kind=kind, count=submodels, values=self.task == "regression", backbone=backbone)
        return replace(self, backbones=(pack.name,)).new_member(0)

    def fit(
        self,
        stage: str,
        member: torch.nn.Module,
        objective: Objective | None = None,
        *,
        samples: Samples | None = None,
        options: LoopOptions | None = None,
    ) -> None:
        """Train a model in place on the training samples, by default for the plain supervised loss."""
        self.loop.fit(
            stage,
            member,
            objective or Supervised(self.task, scale_K=self.scale_K),
            self.splits.train if samples is None else samples,
            options or self.loop_options,
            self.splits.data.augment,
        )

    def outputs(self, member: torch.nn.Module, samples: Samples) -> Tensor:
        """(N, H, K) raw outputs of a member on samples, in evaluation mode, on the CPU."""
        loader = Loader(samples, batch_size=1024, device=self.device, shuffle=False, readers=self.loop.readers)
        with self.loop_options.autocast(self.device):
            return collect(member.eval(), loader.epoch(0))

    def frozen(self, member: torch.nn.Module) -> Callable[[Tensor], Tensor]:
        """A trained member as a function of raw inputs that takes no gradient, as fast as training itself."""
        member.eval().requires_grad_(False)
        forward = torch.compile(member, dynamic=False) if self.loop_options.compile else member

        @torch.no_grad()
        def call(inputs: Tensor) -> Tensor:
            with self.loop_options.autocast(self.device):
                return as_heads(forward(inputs)).float()

        return call

    def cost(self, member: Member) -> Cost:
        """Parameters, FLOPs and measured milliseconds a sample of a member; members alike cost the same."""
        if member.spec not in self._costs:
            train = self.splits.train
            batch = train.read(range(min(len(train), COST_BATCH)))
            self._costs[member.spec] = measure_cost(member, batch.to(self.device))
        return self._costs[member.spec]

    def costs(self, *, heads: int = 1) -> tuple[Cost, ...]:
        """What each member will cost, known before any is trained, from one fresh member of each backbone."""
        by_backbone = {}
        for name in dict.fromkeys(self.backbones):
            member = self.new_member(self.backbones.index(name), heads=heads)
            by_backbone[name] = self.cost(member.to(self.device))
        return tuple(by_backbone[name] for name in self.backbones)


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a method gives back: members in the order they run, and what stops or mixes them."""

    members: list[Member]
    policy: Stopper = field(default_factory=Never)
    aggregation: Aggregation | None = None  # equal weights if None
    gate: Member | None = None
    top: int | None = None  # of a mixture: how many members each sample runs; all if None
    facts: dict[str, Any] = field(default_factory=dict)  # what else run.json is to say, by name

    @property
    def running(self) -> int:
        """How many members of a mixture each sample runs."""
        return len(self.members) if self.top is None else self.top


@dataclass(frozen=True, kw_only=True)
class Method:
    """A way to train an ensemble, by name."""

    name: str
    description: str
    train: Callable[[Training], Trained]
    options: Callable[[], Any] = lambda: None  # the frozen dataclass of the method's own options, if it has any
    needs_heldout: bool = False  # whether it learns on held-out samples when to stop, unless its options say otherwise
    members: int | None = None  # how many members it always has, if that is fixed
    members_of: str | None = None  # the method whose members it trains in the very same stages, if there is one
