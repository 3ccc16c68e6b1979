"""Run: the directory a training leaves, from which everything downstream starts.

DIR/run.json              method, options, data and split record, versions, costs, figures, and the
                             SHA-256 of every file below
DIR/members/0.safetensors    one file a member; gate.safetensors for mixtures
DIR/policy.safetensors       the selector or another learned policy, if the run has one
DIR/banks/test.safetensors   every member's outputs on a split
DIR/points/NAME.json         operating points
DIR/metrics.jsonl            one line an epoch
DIR/stages/                  where an unfinished training stands
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from irene.bank import Bank
from irene.cascade import Cascade
from irene.errors import RunError
from irene.files import sha256_of, write_atomically, write_json
from irene.halting import registry
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.mixture import Mixture
from irene.models import Member, MemberSpec, build
from irene.types import Cost, Task

FORMAT = 1
FIELDS = ("status", "method", "task", "members", "banks")  # of every manifest
FINISHED_FIELDS = ("policy", "aggregation", "figures")


class Run:
    """A run directory: open it with `Run.open(path)`, then ask it for its cascade or its banks."""

    def __init__(self, path: Path, manifest: dict[str, Any]) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def create(cls, path: str | Path, about: dict[str, Any]) -> Run:
        """Begin a run in a new or empty directory."""
        folder = Path(path)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise RunError(f"{folder}: exists already; give another --out, or --resume to go on with it")
        run = cls(
            folder,
            {"format": FORMAT, "status": "training", **about, "members": [], "banks": {}, "points": {}},
        )
        run.write()
        return run

    @classmethod
    def open(cls, path: str | Path, *, unfinished: bool = False) -> Run:
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
        needed = FIELDS if manifest.get("status") == "training" else FIELDS + FINISHED_FIELDS
        missing = [field for field in needed if field not in manifest]
        if missing:
            raise RunError(f"{file}: has no {missing[0]}; restore it or train the run again")
        if manifest["status"] != "finished" and not unfinished:
            raise RunError(f"{folder}: the training was interrupted; go on with `irene train ... --resume`")
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

    def members(self) -> list[Member]:
        """The trained members, on the CPU, in evaluation mode."""
        return [self._load_member(entry) for entry in self.manifest["members"]]

    def policy(self) -> Policy:
        """The policy the run was trained with."""
        entry = self.manifest["policy"]
        tensors = self._tensors(entry["file"], entry["sha256"]) if "file" in entry else None
        try:
            return registry.restore(entry, tensors)
        except RuntimeError:
            raise RunError(f"{self.path / entry['file']}: does not fit its policy; train the run again") from None

    def predictor(self, device: str | torch.device = "cpu") -> Cascade | Mixture:
        """The trained ensemble, ready to predict on a device."""
        if "gate" not in self.manifest:
            return self.cascade(device)
        entry = self.manifest["gate"]
        gate = self._load_member(entry).to(device)
        members = [member.to(device) for member in self.members()]
        return Mixture(members, gate, top=entry["top"], costs=self.costs, task=self.task)

    def cascade(self, device: str | torch.device = "cpu", *, policy: Policy | None = None) -> Cascade:
        """The cascade of the trained members, with the run's own policy unless another is given."""
        if "gate" in self.manifest:
            raise RunError(f"{self.path}: a {self.method} run has a gate and no order; use predictor()")
        return Cascade(
            [member.to(device) for member in self.members()],
            (policy or self.policy()).to(device),
            aggregation=self.aggregation,
            costs=self.costs,
            task=self.task,
        )

    def bank(self, split: str) -> Bank:
        """Every member's outputs on a split: `heldout` or `test`."""
        if split not in self.manifest["banks"]:
            there = ", ".join(self.manifest["banks"]) or "none"
            raise RunError(f"{self.path}: no bank of the {split} split (there are: {there})")
        entry = self.manifest["banks"][split]
        self._check(entry["file"], entry["sha256"])
        return Bank.load(self.path / entry["file"])

    def save_member(self, member: Member, cost: Cost) -> None:
        """Add a trained member."""
        file = f"members/{len(self.manifest['members'])}.safetensors"
        self.manifest["members"].append({**self._save_module(file, member), **_about(member), "cost": cost.to_dict()})

    def save_gate(self, gate: Member, top: int) -> None:
        """Add the gate of a mixture."""
        self.manifest["gate"] = {**self._save_module("gate.safetensors", gate), **_about(gate), "top": top}

    def save_policy(self, policy: Policy) -> None:
        """Set the policy and write its tensors if it has any."""
        entry = registry.describe(policy)
        if policy.state_dict():
            entry |= self._save_module("policy.safetensors", policy)
        self.manifest["policy"] = entry

    def save_bank(self, split: str, bank: Bank) -> None:
        """Add or replace the bank of a split."""
        file = f"banks/{split}.safetensors"
        self.manifest["banks"][split] = {
            "file": file,
            "sha256": bank.save(self.path / file),
            "samples": len(bank),
        }

    def write(self, **changes: Any) -> None:
        """Change fields of the manifest and write it."""
        self.manifest |= changes
        write_json(self.path / "run.json", self.manifest)

    def _save_module(self, file: str, module: nn.Module) -> dict[str, str]:
        tensors = {key: value.detach().contiguous().cpu() for key, value in module.state_dict().items()}
        return {"file": file, "sha256": write_atomically(self.path / file, save(tensors))}

    def _load_member(self, entry: dict[str, Any]) -> Member:
        member = build(MemberSpec.from_dict(entry["spec"]), seed=0)
        tensors = self._tensors(entry["file"], entry["sha256"])
        try:
            member.load_state_dict(tensors)
        except RuntimeError:
            raise RunError(f"{self.path / entry['file']}: does not fit its member; train the run again") from None
        return member.eval()

    def _tensors(self, file: str, sha256: str) -> dict[str, Tensor]:
        self._check(file, sha256)
        try:
            return load((self.path / file).read_bytes())
        except SafetensorError as error:
            raise RunError(f"{self.path / file}: not a safetensors file ({error})") from None

    def _check(self, file: str, sha256: str) -> None:
        path = self.path / file
        if not path.exists():
            raise RunError(f"{path}: missing, though run.json names it; restore it or train the run again")
        if sha256_of(path) != sha256:
            raise RunError(f"{path}: damaged, its SHA-256 is not the one in run.json; restore it or train again")


def _about(member: Member) -> dict[str, Any]:
    return {"spec": member.spec.to_dict()}
