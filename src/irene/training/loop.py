"""The training loop: the one optimisation step of the package, whatever the method."""

from __future__ import annotations

import copy
import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, convert_conv2d_weight_memory_format, get_total_norm

from irene.data.loader import Batch, Loader
from irene.data.samples import Augment, Samples
from irene.devices import fastest_kernels
from irene.errors import TrainingError
from irene.training.checkpoint import Checkpoints
from irene.training.distributed import World
from irene.training.objective import Objective
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.recorder import Recorder

Watch = Callable[[str, nn.Module], None]  # gets the name of a stage and its trained model


def derive_seed(*parts: object) -> int:
    """A seed that depends on all the parts, the same on every machine."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:4], "big")


@dataclass(frozen=True, kw_only=True)
class TakenStage:
    """A stage that another run has trained: the model it ended with, and the figures of its epochs."""

    model: nn.Module
    epochs: Sequence[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Trains one model after the other on a device, with progress, checkpoints and resume.

    Every draw of chance is a function of (seed, stage, epoch), so a resumed training repeats the
    uninterrupted one: bit for bit on a CPU.
    """

    device: torch.device
    seed: int
    recorder: Recorder
    checkpoints: Checkpoints
    world: World = field(default_factory=World)
    checkpoint_seconds: float = 15.0
    readers: int = 0  # processes that read samples which are not in memory
    taken: Mapping[str, TakenStage] = field(default_factory=dict)  # stages that need no training here
    watch: Watch | None = None  # called after each stage, wherever its model came from

    def fit(
        self,
        stage: str,
        model: nn.Module,
        objective: Objective,
        samples: Samples,
        options: LoopOptions,
        augment: Augment | None = None,
    ) -> None:
        """Train a model in place; a stage that has finished before, here or in another run, is read back instead."""
        parts = nn.ModuleDict({"model": model})
        if objective.companion is not None:
            parts["companion"] = objective.companion
        if (tensors := self.checkpoints.finished(stage)) is not None:
            with self.checkpoints.fitting(stage, finished=True):
                _restore(tensors, parts, objective)
        elif stage in self.taken:
            self._take(stage, model)
        else:
            loader = Loader(
                samples,
                batch_size=options.batch_size,
                device=self.device,
                shuffle=True,
                seed=derive_seed(self.seed, stage),
                augment=augment,
                drop_last=True,
                rank=self.world.rank,
                world=self.world.size,
                readers=self.readers,
            )
            devices = [self.device] if self.device.type == "cuda" else []
            # The caller's draws go on as if nothing had been trained.
            with torch.random.fork_rng(devices), fastest_kernels():  # sizes are fixed
                self._train(stage, model.to(self.device), objective, loader, options)
            parts.zero_grad()  # gradients would take as much memory as the weights, for as long as the member is kept
            if self.world.leads:
                self.checkpoints.finish(stage, _snapshot(parts, objective))
            self.world.wait()
        model.to(self.device).eval()
        if self.watch is not None:
            self.watch(stage, model)

    def _train(self, stage: str, model: nn.Module, objective: Objective, loader: Loader, options: LoopOptions) -> None:
        stepper = Stepper(model, objective, options, self.device, self.world, loader.batch_size)
        first = self._resume(stage, stepper)
        self.recorder.drop_after(stage, first)
        good: dict[str, Any] | None = None  # where the training stood after the last epoch without NaN
        saved = time.monotonic()
        with self.recorder.stage(stage, options.epochs, first) as record:
            for epoch in range(first, options.epochs):
                started = time.monotonic()
                self._draw_anew(derive_seed(self.seed, stage, epoch, "draws"))
                model.eval()
                objective.begin_epoch(model, epoch)
                model.train()
                for index, batch in enumerate(loader.epoch(epoch)):
                    stepper.step(batch, (epoch * len(loader) + index) / (options.epochs * len(loader)))
                figures = stepper.figures(len(loader))
                for what, value in (("loss", figures["loss"]), ("size of the weights", stepper.size())):
                    if math.isfinite(value):
                        continue
                    if self.world.leads and good is not None:
                        self.checkpoints.save(stage, good)
                    raise TrainingError(
                        f"the {what} of {stage} became {value} in epoch {epoch + 1}: the last good state is kept; "
                        "train into another folder (--out) with a lower learning rate or with clipped gradients"
                    )
                self.world.average_buffers(model)
                if self.world.leads:
                    figures["seconds"] = time.monotonic() - started
                    # Before the checkpoint: a line too many is dropped on resume, a missing one is never written.
                    record(epoch, {**figures, **objective.figures()})
                    good = copy.deepcopy({"epoch": epoch + 1, **stepper.state()})
                    if time.monotonic() - saved >= self.checkpoint_seconds and epoch + 1 < options.epochs:
                        self.checkpoints.save(stage, good)
                        saved = time.monotonic()

    def _draw_anew(self, seed: int) -> None:
        """Seed what is drawn from here: on the CPU and on the device, and on no other one, which are the caller's."""
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            with torch.cuda.device(self.device):
                torch.cuda.manual_seed(seed)

    def _take(self, stage: str, model: nn.Module) -> None:
        model.load_state_dict(self.taken[stage].model.state_dict())
        self.recorder.drop_after(stage, 0)
        for record in self.taken[stage].epochs:
            self.recorder.write(record)

    def _resume(self, stage: str, stepper: Stepper) -> int:
        state = self.checkpoints.running(stage)
        if state is None:
            return 0
        with self.checkpoints.fitting(stage, finished=False):
            stepper.load(state)
            return int(state["epoch"])


class Stepper:
    """One optimisation step, eager or as one CUDA graph."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        options: LoopOptions,
        device: torch.device,
        world: World,
        batch_size: int,
    ) -> None:
        self.model = model
        self.objective = objective
        self.options = options
        self.device = device
        self.world = world
        self.batch_size = batch_size  # of all processes together
        if device.type == "cuda":
            convert_conv2d_weight_memory_format(model, torch.channels_last)
        self.forward = torch.compile(model, dynamic=False) if options.compile else model
        self.parts: list[tuple[nn.Module, OptimizerOptions]] = [(model, options.optimizer)]
        if objective.companion is not None:
            assert objective.companion_optimizer is not None
            self.parts.append((objective.companion.to(device), objective.companion_optimizer))
        self.optimizers = [_optimizer(module, its_options, device) for module, its_options in self.parts]
        self.parameters = [parameter for module, _ in self.parts for parameter in module.parameters()]
        self.names: list[str] = []
        self.sums: Tensor | None = None
        self.graph = _GraphedStep(self._run) if device.type == "cuda" and world.size == 1 else None

    def step(self, batch: Batch, progress: float) -> None:
        for optimizer, (_, options) in zip(self.optimizers, self.parts, strict=True):
            _set_lr(optimizer, options.lr * options.schedule.factor(progress))
        if self.graph is not None:
            self.graph(batch)
        else:
            self._run(batch)

    def _run(self, batch: Batch) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        batch = self.objective.prepared(batch)
        with self.options.autocast(self.device):
            output = self.forward(batch.inputs)
        terms = self.objective.terms(batch, output)
        values = torch.stack(list(terms.values()))
        if self.world.size > 1:  # a process whose share of the batch is larger by a sample counts for more
            values = values * (len(batch) * self.world.size / self.batch_size)
        values.sum().backward()
        self.world.average_gradients(self.parameters)
        if self.options.clip is not None:
            clip_grad_norm_(self.parameters, self.options.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        if self.sums is None:
            self.names = list(terms)
            self.sums = torch.zeros_like(values)
        self.sums += values.detach()

    def figures(self, steps: int) -> dict[str, float]:
        """The mean of every term over the epoch, which starts anew."""
        assert self.sums is not None
        means = (self.world.average(self.sums) / steps).tolist()
        self.sums.zero_()
        return {"loss": sum(means), **dict(zip(self.names, means, strict=True))}

    def size(self) -> float:
        """The norm of all weights: not finite as soon as one of them is not, which losses show a step later."""
        return float(get_total_norm([parameter.detach() for parameter in self.parameters]))

    def state(self) -> dict[str, Any]:
        return {
            "modules": [module.state_dict() for module, _ in self.parts],
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "objective": self.objective.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        for (module, _), saved in zip(self.parts, state["modules"], strict=True):
            module.load_state_dict(saved)
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            rates = [group["lr"] for group in optimizer.param_groups]
            optimizer.load_state_dict(saved)
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate  # the tensor a CUDA graph reads stays in its place
        for key, tensor in self.objective.state().items():
            tensor.copy_(state["objective"][key])


class _GraphedStep:
    """Runs a step eagerly a few times, then captures it as a CUDA graph and replays that."""

    WARM_UP = 3

    def __init__(self, run: Any) -> None:
        self.run = run
        self.calls = 0
        self.graph: torch.cuda.CUDAGraph | None = None
        self.batch: Batch | None = None

    def __call__(self, batch: Batch) -> None:
        if self.batch is None:
            self.batch = Batch(*(tensor.clone() for tensor in _tensors(batch)))
        for mine, new in zip(_tensors(self.batch), _tensors(batch), strict=True):
            mine.copy_(new, non_blocking=True)
        if self.graph is not None:
            self.graph.replay()
        elif self.calls < self.WARM_UP:
            self._warm_up()
        else:
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.run(self.batch)
            self.graph.replay()
        self.calls += 1

    def _warm_up(self) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            self.run(self.batch)
        torch.cuda.current_stream().wait_stream(stream)


def _tensors(batch: Batch) -> Iterator[Tensor]:
    yield from (batch.inputs, batch.targets, batch.ids, batch.index)


def _optimizer(module: nn.Module, options: OptimizerOptions, device: torch.device) -> torch.optim.Optimizer:
    fast = device.type == "cuda"
    lr = torch.tensor(options.lr, device=device) if fast else options.lr  # a tensor, so a graph sees it change
    if options.kind == "sgd":
        return torch.optim.SGD(
            module.parameters(),
            lr=lr,
            momentum=options.momentum,
            nesterov=options.momentum > 0,
            weight_decay=options.weight_decay,
            fused=fast,
        )
    return torch.optim.AdamW(module.parameters(), lr=lr, weight_decay=options.weight_decay, fused=fast, capturable=fast)


def _set_lr(optimizer: torch.optim.Optimizer, value: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(value)
        else:
            group["lr"] = value


def _snapshot(parts: nn.ModuleDict, objective: Objective) -> dict[str, Tensor]:
    return {**parts.state_dict(), **{f"objective.{key}": value for key, value in objective.state().items()}}


def _restore(tensors: dict[str, Tensor], parts: nn.ModuleDict, objective: Objective) -> None:
    for key, tensor in objective.state().items():
        tensor.copy_(tensors.pop(f"objective.{key}"))
    parts.load_state_dict(tensors)
