"""From data and a method to a run directory."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from irene.bank import Bank
from irene.data import Data, load, split
from irene.data.readers import check_readers
from irene.data.samples import Samples
from irene.data.splits import Splits
from irene.devices import pick_device
from irene.errors import DataError, IreneError, MissingExtraError, OptionError, RunError
from irene.files import as_json, locked
from irene.halting.rule import Aggregation
from irene.metrics import figures_of
from irene.mixture import gate_weights
from irene.run import LOCK, Run, check_free
from irene.run_manifest import environment, first_difference
from irene.training.checkpoint import Checkpoints
from irene.training.distributed import World, world
from irene.training.loop import Loop, TakenStage, Watch
from irene.training.memory import check_members
from irene.training.method import Method, Trained, Training
from irene.training.methods import find_method
from irene.training.options import LoopOptions
from irene.training.recorder import Recorder
from irene.training.sharing import stages_of
from irene.types import Cost


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What is trained, on which split, and where; the loop and the method have options of their own.

    `readers` processes read samples that do not fit in memory, in place of this one. They change no result, so a
    training may go on with another number of them.
    """

    members: int = 3
    backbones: tuple[str, ...] = ()  # one for all or one a member; empty: chosen by the shape of the data
    heldout: float | int | None = None  # share or number of training samples kept for policies
    seed: int = 0
    device: str = "auto"
    readers: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.members, Integral):
            raise OptionError(f"members must be a whole number, got {self.members!r}")
        if self.members < 1:
            raise OptionError(f"an ensemble needs at least one member, got {self.members}")
        if isinstance(self.backbones, str):
            raise OptionError(f"backbones must be a tuple of names, got {self.backbones!r}: give ({self.backbones!r},)")
        if len(self.backbones) > 1 and len(self.backbones) != self.members:
            raise OptionError(
                f"give one backbone, or one for each of {self.members} members, got {len(self.backbones)}"
            )


def train(
    method: str,
    data: Any,
    out: str | Path,
    *,
    options: TrainOptions | None = None,
    loop: LoopOptions | None = None,
    method_options: Any = None,
    resume: bool = False,
    console: Console | None = None,
    tensorboard: bool = False,
    checkpoint_seconds: float = 15.0,
    members_of: Run | None = None,
    taken: Mapping[str, TakenStage] | None = None,
    watch: Watch | None = None,
) -> Run:
    """Train an ensemble by a method and leave a run directory; with `resume`, go on with an interrupted one.

    `data` is a data set, or whatever `load_data` makes one of: a name, arrays (x, y), a torch Dataset.
    Members that the method would train exactly as `members_of` did are taken from that run (see Method.members_of), and
    so are the stages in `taken`, which the caller vouches for. `watch` is called with each stage's name and model after
    its training, and may raise to end the whole.
    """
    options = options or TrainOptions()
    loop = loop or LoopOptions()
    _check_kind("options", options, TrainOptions)
    _check_kind("loop", loop, LoopOptions)
    if not checkpoint_seconds >= 0:  # nor NaN
        raise OptionError(f"seconds between checkpoints must be 0 or more, got {checkpoint_seconds:g}")
    device = pick_device(options.device)
    plan = _plan(method, data, options, loop, method_options)
    data = plan.splits.data
    check_readers(options.readers, data)
    check_members(plan.backbones, data.shape, data.outputs, loop.optimizer, device)  # before anything is written
    if members_of is not None and members_of.method != plan.method.members_of:
        raise OptionError(f"{method} does not train the members of {members_of.method}, so it cannot take them")
    taken = {**(taken or {}), **({} if members_of is None else stages_of(members_of, plan.about))}
    here = world(device)
    with _run_to_train(Path(out), plan.about, resume, here) as run:
        if run.finished:
            return run
        checkpoints = Checkpoints(run.path / "stages")
        with _removed_if_refused(run, checkpoints, here):
            recorder = Recorder(
                run.path / "metrics.jsonl" if here.leads else None,
                console=console if here.leads else None,
                tensorboard=run.path / "tensorboard" if tensorboard and here.leads else None,
            )
            training = Training(
                splits=plan.splits,
                backbones=plan.backbones,
                loop=Loop(
                    device=device,
                    seed=options.seed,
                    readers=options.readers,
                    recorder=recorder,
                    checkpoints=checkpoints,
                    world=here,
                    checkpoint_seconds=checkpoint_seconds,
                    taken=taken,
                    watch=watch,
                ),
                loop_options=loop,
                options=plan.own,
            )
            with closing(recorder):
                trained = plan.method.train(training)
        if here.leads:
            _finish(run, training, trained, checkpoints.seconds)
        here.wait()
        return run if here.leads else Run.open(run.path)


def is_trained(
    method: str, data: Data, out: Path, *, options: TrainOptions, loop: LoopOptions, method_options: Any = None
) -> bool:
    """Whether this very training has been finished in a folder; another training there is an error."""
    if not (out / "run.json").exists():
        return False
    run = Run.open(out, unfinished=True)
    _check_same(run, _plan(method, data, options, loop, method_options).about)
    return run.finished


def default_backbone(shape: tuple[int, ...]) -> str:
    """A sensible backbone for samples of this shape."""
    if len(shape) != 3:
        return "mlp"
    return "cnn" if max(shape[1:]) < 28 else "resnet32"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Plan:
    """A training as it is described before it begins."""

    method: Method
    splits: Splits
    backbones: tuple[str, ...]
    own: Any  # the method's own options
    about: dict[str, Any]  # the head of the manifest: all that decides what is trained


def _plan(method: str, data: Any, options: TrainOptions, loop: LoopOptions, own: Any) -> _Plan:
    chosen = find_method(method)
    data = load(data)
    splits = split(data, heldout=options.heldout, seed=options.seed)
    backbones = _backbones(options, chosen, data.shape)
    defaults = chosen.options()
    own = defaults if own is None else own
    _check_kind(f"method_options of {chosen.name}", own, type(defaults))
    about = {
        "method": chosen.name,
        "task": data.task,
        "seed": options.seed,
        "backbones": list(backbones),
        "options": {
            "loop": dataclasses.asdict(loop),
            "method": dataclasses.asdict(own) if own is not None else {},
        },
        "data": {**splits.record, "classes": list(data.classes), "shape": list(data.shape)},
    }
    return _Plan(method=chosen, splits=splits, backbones=backbones, own=own, about=about)


def _check_kind(name: str, given: object, kind: type) -> None:
    if not isinstance(given, kind):
        wanted = "None" if kind is type(None) else kind.__name__
        raise OptionError(f"{name} must be {wanted}, got {type(given).__name__}")


def _backbones(options: TrainOptions, method: Method, shape: tuple[int, ...]) -> tuple[str, ...]:
    count = method.members or options.members
    names: Sequence[str] = options.backbones or (default_backbone(shape),)
    return tuple(names[:count]) if len(names) >= count else (names[0],) * count


@contextmanager
def _run_to_train(path: Path, about: dict[str, Any], resume: bool, here: World) -> Iterator[Run]:
    """The run to train, new or taken up again; until the block ends no other training can write to it.

    The leading process decides for all: what another one finds depends on when it looks.
    """
    with ExitStack() as lock:
        refused: IreneError | None = None
        if here.leads:
            try:
                _create_or_check(path, about, resume, lock)
            except IreneError as error:
                refused = error
        told = here.told(None if refused is None else str(refused))
        if told is not None:
            raise refused or RunError(told)
        run = Run.open(path, unfinished=True)
        here.wait()  # a mistake that the leading process finds takes the run away again: all have read it by then
        yield run


def _create_or_check(path: Path, about: dict[str, Any], resume: bool, lock: ExitStack) -> None:
    """Create the run, or check the one that is there, and lock it unless it is finished."""
    run = _existing_run(path, about, resume)
    if run is not None and run.finished:
        return
    path.mkdir(parents=True, exist_ok=True)
    if not lock.enter_context(locked(path / LOCK)):
        raise RunError(
            f"{path}: another process is training this run; wait until it has ended, or give another folder (--out)"
        )
    if _existing_run(path, about, resume) is not None:
        return
    Run.create(path, {**as_json(about), "environment": {**environment(), "commit": _git_commit()}})


def _existing_run(path: Path, about: dict[str, Any], resume: bool) -> Run | None:
    """The run in the folder if this training may go on with it; None if the folder is free."""
    if not (path / "run.json").exists():
        check_free(path)
        return None
    if not resume:
        raise RunError(f"{path}: exists already; give another folder (--out), or continue it (--resume)")
    run = Run.open(path, unfinished=True)
    _check_same(run, about)
    return run


@contextmanager
def _removed_if_refused(run: Run, checkpoints: Checkpoints, here: World) -> Iterator[None]:
    """Remove the run if the training is refused before it starts; if it stops later, keep how long it has taken."""
    try:
        yield
    except BaseException as error:
        begun = (run.path / "metrics.jsonl").exists() or (run.path / "stages").exists()
        if here.leads and begun:
            checkpoints.keep_seconds()
        elif here.leads and isinstance(error, DataError | MissingExtraError | OptionError | RunError):
            shutil.rmtree(run.path, ignore_errors=True)
        raise


def _check_same(run: Run, about: dict[str, Any]) -> None:
    data = as_json(about["data"])
    if "target" not in run.manifest["data"]:
        data.pop("target", None)  # a run of a version that did not record it; the fingerprint tells it as well
    for key, asked in {**as_json(about), "data": data}.items():
        begun = run.manifest.get(key)
        if begun != asked:
            name, begun, asked = first_difference(key, begun, asked)
            raise RunError(
                f"{run.path}: was started with {name} {begun}, and {asked} was asked for; "
                "resume with the options it was started with, or train into another folder (--out)"
            )


def _finish(run: Run, training: Training, trained: Trained, seconds: float) -> None:
    """Write members, policy, banks and figures; the run is finished once its manifest says so."""
    run.manifest["members"] = []  # an attempt that was killed while finishing may have left some
    costs = tuple(training.cost(member) for member in trained.members)
    for member, cost in zip(trained.members, costs, strict=True):
        run.save_member(member, cost)
    aggregation = trained.aggregation or Aggregation.equal(len(trained.members))
    run.manifest["aggregation"] = aggregation.to_dict()
    policy = trained.policy.cpu()
    run.save_policy(policy)
    if trained.gate is not None:
        run.save_gate(trained.gate, trained.running, training.cost(trained.gate))
    figures = {}
    splits = training.splits
    for name, samples in (("heldout", splits.heldout), ("test", splits.test)):
        if len(samples):
            bank = make_bank(training, trained, samples, costs, name)
            run.save_bank(name, bank)
            figures[name] = figures_of(bank.replay(policy, aggregation), bank.targets, costs, run.gate_cost)
    run.write(status="finished", figures=figures, notes=training.notes, seconds=round(seconds, 3), **trained.facts)
    shutil.rmtree(run.path / "stages", ignore_errors=True)


def make_bank(training: Training, trained: Trained, samples: Samples, costs: tuple[Cost, ...], split_name: str) -> Bank:
    """Every member's outputs on samples, and the gate's weights where the run is a mixture."""
    gates = None
    if trained.gate is not None:
        logits_NT = training.outputs(trained.gate, samples)[:, 0]
        gates = gate_weights(logits_NT, trained.running)
    return Bank(
        task=training.task,
        outputs=torch.stack([training.outputs(member, samples) for member in trained.members], 1),
        targets=samples.targets,
        ids=samples.ids,
        costs=costs,
        gates=gates,
        about={"split": split_name, "fingerprint": training.splits.data.fingerprint},
    )


def _git_commit() -> str | None:
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], check=False, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
