"""Run: the directory a training leaves, from which everything downstream starts.

DIR/run.json              method, options, data and split record, versions, costs, figures, and the
                             SHA-256 of every file below
DIR/members/0.safetensors    one file a member, .onnx where it was imported; gate.safetensors for mixtures
DIR/policy.safetensors       the selector or another learned policy, if the run has one
DIR/banks/test.safetensors   every member's outputs on a split
DIR/points/NAME.json         operating points, each with its tensors in NAME.safetensors
DIR/metrics.jsonl            one line an epoch
DIR/stages/                  where an unfinished training stands
DIR/lock                     there while a process writes the run

What is replaced has a second name, such as NAME~.json: the new files are written under the one of its two names that
run.json does not give, then run.json names them, then the old ones go. So there is a whole run at any moment.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, Self

import torch
from torch import Tensor

from irene import run_files
from irene.bank import Bank
from irene.cascade import Cascade, MemberLike
from irene.devices import pick_device
from irene.errors import OptionError, RunError
from irene.files import as_json, check_room, locked, write_atomically, write_json
from irene.halting import registry
from irene.halting.policy import Stopper
from irene.halting.rule import Aggregation
from irene.mixture import Mixture
from irene.models import Member, MemberSpec, build
from irene.models.onnx_file import OnnxFile
from irene.point import TRAINED, OperatingPoint
from irene.run_manifest import check_manifest
from irene.types import Cost, Task

FORMAT = 1
LOCK = "lock"  # the file that a process holds while it writes a run
_BEGUN = re.compile(rf"{LOCK}|\.run\.json\.[0-9a-f]+")  # the lock, and drafts of run.json (see files.draft_of)
_POINT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # what is a file name everywhere


class Run:
    """A run directory: open it with `Run.open(path)`, then ask it for its cascade or its banks."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest
        self._to_remove: set[str] = set()  # files that run.json does not name any more once it is written

    def __repr__(self) -> str:
        points = f", points {', '.join(self.points)}" if self.points else ""
        members = len(self.manifest["members"])
        return (
            f"Run({str(self.path)!r}, {self.method}, {self.task}, {members} members{points}, {self.manifest['status']})"
        )

    @classmethod
    def create(cls, path: str | Path, about: dict[str, Any]) -> Self:
        """Begin a run in a new or empty directory."""
        folder = Path(path)
        check_free(folder)
        run = cls(
            folder,
            {"format": FORMAT, "status": "training", **about, "members": [], "banks": {}, "points": {}},
        )
        run.write()
        return run

    @classmethod
    def open(cls, path: str | Path, *, unfinished: bool = False) -> Self:
        """Open a run and check that it is whole; `unfinished` accepts one whose training was interrupted."""
        folder = Path(path)
        file = folder / "run.json"
        try:
            manifest = json.loads(file.read_text())
        except (FileNotFoundError, NotADirectoryError):
            raise RunError(f"{folder}: not a run, there is no run.json; train one with `irene train`") from None
        except OSError as error:
            raise RunError(f"{file}: cannot be read ({error.strerror}); restore it or train the run again") from None
        except ValueError as error:
            raise RunError(f"{file}: not readable as JSON ({error}); restore it or train the run again") from None
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            found = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
            raise RunError(f"{file}: format {FORMAT} expected, got {found}; use the irene version that wrote it")
        check_manifest(file, manifest)
        if manifest["status"] != "finished" and not unfinished:
            raise RunError(f"{folder}: the training was interrupted; continue with `irene train ... --resume`")
        return cls(folder, manifest)

    @property
    def finished(self) -> bool:
        return bool(self.manifest["status"] == "finished")

    @property
    def method(self) -> str:
        return str(self.manifest["method"])

    @property
    def task(self) -> Task:
        task: Task = self.manifest["task"]
        return task

    @property
    def costs(self) -> tuple[Cost, ...]:
        """The cost of each member."""
        return tuple(Cost.from_dict(member["cost"]) for member in self.manifest["members"])

    @property
    def aggregation(self) -> Aggregation:
        return Aggregation.from_dict(self.manifest["aggregation"])

    @property
    def figures(self) -> dict[str, Any]:
        """The figures that were measured at the end of training, by split."""
        figures: dict[str, Any] = self.manifest["figures"]
        return figures

    @property
    def points(self) -> tuple[str, ...]:
        """The names of the operating points."""
        return tuple(self.manifest.get("points", {}))

    @property
    def gate_cost(self) -> Cost | None:
        """What the gate of a mixture costs on every sample; None without a gate."""
        return Cost.from_dict(self.manifest["gate"]["cost"]) if "gate" in self.manifest else None

    def files(self) -> list[Path]:
        """All that makes up the run, in its folder."""
        return [*self.path.glob("run.json"), *self.path.glob("*.safetensors"), *self.path.glob("metrics.jsonl")] + [
            file for folder in ("members", "banks", "points") for file in (self.path / folder).glob("*")
        ]

    def epochs(self) -> dict[str, list[dict[str, Any]]]:
        """The figures of every epoch of training by stage, as metrics.jsonl has them; empty without that file."""
        file = self.path / "metrics.jsonl"
        stages: dict[str, list[dict[str, Any]]] = {}
        for line in file.read_text().splitlines() if file.exists() else ():
            try:
                record = json.loads(line)
                stages.setdefault(record["stage"], []).append({**record, "loss": float(record["loss"])})
            except (ValueError, KeyError, TypeError) as error:
                raise RunError(f"{file}: has a line that is no record of an epoch ({error}); remove the line") from None
        return stages

    def members(self) -> list[Member]:
        """The members that irene trained, on the CPU, in evaluation mode."""
        return [self._load_member(entry) for entry in self.manifest["members"]]

    def policy(self) -> Stopper:
        """The policy the run was trained with."""
        entry = self.manifest["policy"]
        tensors = self._tensors(entry) if "file" in entry else None
        try:
            return registry.restore(entry, tensors)
        except RuntimeError:
            raise RunError(f"{self.path / entry['file']}: does not fit its policy; train the run again") from None

    def predictor(self, device: str | torch.device = "cpu", *, point: str | None = None) -> Cascade | Mixture:
        """The ensemble, ready to predict on a device, at an operating point if one is named."""
        if "gate" not in self.manifest or point is not None:
            return self.cascade(device, point=point)
        entry, device = self.manifest["gate"], pick_device(device)
        gate = self._load_member(entry).to(device)
        members = [member.to(device) for member in self.members()]
        return Mixture(members, gate, top=entry["top"], costs=self.costs, task=self.task)

    def cascade(
        self, device: str | torch.device = "cpu", *, policy: Stopper | None = None, point: str | None = None
    ) -> Cascade:
        """The cascade of the members, at an operating point, by another policy, or by the run's own."""
        if "gate" in self.manifest:
            raise RunError(
                f"{self.path}: a {self.method} run has a gate, which picks members for each sample, and no order to "
                "stop in"
            )
        if policy is not None and point is not None:
            raise OptionError(f"give a policy or the operating point {point}, which has its own, not both")
        device = pick_device(device)
        members = [self._runnable(entry, device) for entry in self.manifest["members"]]
        if point is not None:
            calibrated = self.point(point)
            calibrated.policy.to(device)
            return calibrated.cascade(members, self.costs)
        return Cascade(
            members,
            (self.policy() if policy is None else copy.deepcopy(policy)).to(device),
            aggregation=self.aggregation,
            costs=self.costs,
            task=self.task,
        )

    def point(self, name: str) -> OperatingPoint:
        """The operating point of a name, as it was calibrated last."""
        return run_files.read_point(self.path, self._point_entry(name))

    def bank(self, split: str) -> Bank:
        """Every member's outputs on a split: `heldout` or `test`."""
        if split not in self.manifest["banks"]:
            there = ", ".join(self.manifest["banks"]) or "none"
            raise RunError(f"{self.path}: no bank of the {split} split (there are: {there})")
        entry = self.manifest["banks"][split]
        return Bank.load(run_files.check(self.path, entry["file"], entry["sha256"]))

    def save_member(self, member: Member, cost: Cost) -> None:
        """Add a trained member."""
        file = f"members/{len(self.manifest['members'])}.safetensors"
        self.manifest["members"].append({**self._write_member(file, member), "cost": cost.to_dict()})

    def save_onnx(self, content: bytes, cost: Cost, *, log: bool) -> None:
        """Add a member that is an ONNX model, as the content of its file; `log` as in `OnnxFile`."""
        file = f"members/{len(self.manifest['members'])}.onnx"
        entry = {"kind": "onnx", "file": file, "sha256": write_atomically(self.path / file, content)}
        self.manifest["members"].append({**entry, "log": log, "cost": cost.to_dict()})

    def save_absent(self, costs: Sequence[Cost]) -> None:
        """Add members that cannot be run, as the banks hold their outputs and nothing else is there."""
        self.manifest["members"] += [{"kind": "absent", "cost": cost.to_dict()} for cost in costs]

    def save_point(self, point: OperatingPoint) -> OperatingPoint:
        """Write an operating point under its name; replacing one counts its version up. Returns it as written."""
        self.check_point_name(point.name)
        point.check_can_be_saved()
        self._check_point(point)
        with self._reopened() as now:
            points = now.manifest.setdefault("points", {})
            before = points[point.name]["version"] if point.name in points else 0
            point = replace(point, version=before + 1)
            file, tensors = (now._unused_name(f"points/{point.name}.{ending}") for ending in ("json", "safetensors"))
            points[point.name] = run_files.write_point(self.path, point, file, tensors)
        return point

    def check_point_name(self, name: str) -> None:
        """Refuse a name that no operating point can have."""
        if not _POINT_NAME.fullmatch(name):
            raise OptionError(f"a point's name is letters, digits, '.', '_' and '-', got {name!r}")
        if name == TRAINED:
            raise OptionError(
                f"{TRAINED!r} stands for the policy the run was trained with: give the point another name"
            )

    def delete_point(self, name: str) -> None:
        """Take an operating point out of the manifest, and remove its files after that."""
        with self._reopened() as now:
            entry = now._point_entry(name)
            del now.manifest["points"][name]
            files = (entry["file"], entry["tensors"]["file"])
            now._to_remove |= {f"points/{Path(file).name}" for file in files}  # in the run, wherever they may lead

    def _check_point(self, point: OperatingPoint) -> None:
        """Refuse a point that cannot be of this run's members; it may have been calibrated on any data."""
        members, outputs = len(self.manifest["members"]), len(self.manifest["data"]["classes"])
        known = {"task": self.task, "members": members, "outputs": outputs}
        found = {**known, **point.data, "task": point.task}
        if max(point.members) >= members:  # of a point that says nothing of its members
            found["members"] = max(found["members"], max(point.members) + 1)
        for what, expected in known.items():
            if found[what] != expected:
                one, other = (f"{what} {it}" if what == "task" else f"{it} {what}" for it in (found[what], expected))
                raise RunError(
                    f"{self.path}: the point {point.name} is of other members, with {one} where this run has {other}: "
                    "calibrate on a bank of this run"
                )

    def note_command(self, command: str) -> None:
        """Write down the command that made the run, unless one is there already."""
        with self._reopened() as now:
            now.manifest.setdefault("command", command)

    @contextmanager
    def _reopened(self) -> Iterator[Run]:
        """The run as its folder has it now, locked for this process; it is written when the block ends."""
        check_room(self.path / "run.json")
        with locked(self.path / LOCK, wait=True):
            now = Run.open(self.path, unfinished=True)
            yield now
            now.write()
        self.manifest |= {key: now.manifest[key] for key in ("points", "command") if key in now.manifest}

    def save_gate(self, gate: Member, top: int, cost: Cost) -> None:
        """Add the gate of a mixture, which runs on every sample beside the members it chooses."""
        entry = self._write_member(self._unused_name("gate.safetensors"), gate)
        self.manifest["gate"] = {**entry, "top": top, "cost": cost.to_dict()}

    def save_policy(self, policy: Stopper) -> None:
        """Set the policy and write its tensors if it has any."""
        entry = registry.describe(policy)
        if policy.state_dict():
            file = self._unused_name("policy.safetensors")
            entry |= run_files.write_tensors(self.path, file, policy.state_dict())
        self.manifest["policy"] = entry

    def save_bank(self, split: str, bank: Bank) -> None:
        """Add or replace the bank of a split."""
        file = self._unused_name(f"banks/{split}.safetensors")
        self.manifest["banks"][split] = {
            "file": file,
            "sha256": bank.save(self.path / file),
            "samples": len(bank),
        }

    def write(self, **changes: Any) -> None:
        """Change fields of the manifest and write it; NaN and infinity become None, as in the file."""
        self.manifest |= as_json(changes)
        write_json(self.path / "run.json", self.manifest)
        while self._to_remove:
            (self.path / self._to_remove.pop()).unlink(missing_ok=True)

    def _unused_name(self, file: str) -> str:
        """The name to write a file under: NAME, or NAME~ if run.json names NAME already.

        The file under the other name is removed once run.json is written and names this one.
        """
        path = PurePosixPath(file)
        new, old = file, str(path.with_stem(f"{path.stem}~"))
        if json.dumps(file) in (self.path / "run.json").read_text():
            new, old = old, new
        self._to_remove.add(old)
        return new

    def _point_entry(self, name: str) -> dict[str, Any]:
        if name not in self.points:
            there = ", ".join(self.points) or "none"
            raise RunError(
                f"{self.path}: no operating point is called {name!r} (there are: {there}); make it with "
                "`irene calibrate`"
            )
        entry: dict[str, Any] = self.manifest["points"][name]
        return entry

    def _write_member(self, file: str, member: Member) -> dict[str, Any]:
        return {**run_files.write_tensors(self.path, file, member.state_dict()), "spec": member.spec.to_dict()}

    def _runnable(self, entry: dict[str, Any], device: torch.device) -> MemberLike:
        if entry.get("kind") == "onnx":
            file = run_files.check(self.path, entry["file"], entry["sha256"])
            return OnnxFile(file, log=entry.get("log"))
        return self._load_member(entry).to(device)

    def _load_member(self, entry: dict[str, Any]) -> Member:
        if entry.get("kind") == "absent":
            raise RunError(
                f"{self.path}: holds the outputs of its members and not the members, so there is nothing to run; "
                "it can be calibrated and evaluated"
            )
        if entry.get("kind") == "onnx":
            raise RunError(f"{self.path}: its members are ONNX files in {self.path / 'members'}, not torch modules")
        member = build(MemberSpec.from_dict(entry["spec"]), seed=0)
        tensors = self._tensors(entry)
        try:
            member.load_state_dict(tensors)
        except RuntimeError:
            raise RunError(f"{self.path / entry['file']}: does not fit its member; train the run again") from None
        return member.eval()

    def _tensors(self, entry: dict[str, Any]) -> dict[str, Tensor]:
        return run_files.read_tensors(run_files.check(self.path, entry["file"], entry["sha256"]))


def check_free(folder: Path) -> None:
    """Refuse a folder that holds more than what a process leaves behind when it is killed while creating a run."""
    if folder.exists() and (not folder.is_dir() or any(not _BEGUN.fullmatch(item.name) for item in folder.iterdir())):
        raise RunError(f"{folder}: exists already; give another folder (--out)")
