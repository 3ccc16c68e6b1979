"""Which test images are answered right, by policy and mean cost: all that comparisons over seeds need of a run.

A bank of CIFAR-100 takes megabytes and what is said here kilobytes, so it stays in the repository: seeds may be trained
one by one, and be compared with what was trained before.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

FOLDER = Path(__file__).resolve().parents[1] / "answers"
KINDS = {"patterns": "<f8", "which": "<u2"}  # of numbers


AS_IS = "as it is"  # a run's own policy at the threshold it was trained with, or all members of an average


class At(NamedTuple):
    """A policy, and the mean cost at which it stops."""

    policy: str
    cost: float


@dataclass(frozen=True, eq=False)
class Answers:
    """Of members of one seed: what they are, and which test images each policy answers right at each cost."""

    about: Mapping[str, Any]
    right: Mapping[At, Tensor]  # (N,): right or wrong, or in between where two thresholds share a cost

    @property
    def seed(self) -> int:
        return int(self.about["seed"])

    @property
    def as_is(self) -> Tensor:
        return self.right[At(AS_IS, self.about["cost"])]

    def packed(self) -> dict[str, Any]:
        """As JSON: the few patterns that samples have over all policies and costs, and which one each sample has."""
        right_VN = torch.stack([*self.right.values()]).to(torch.float64).numpy()
        patterns_VP, which_N = np.unique(right_VN, axis=1, return_inverse=True)
        return {
            "about": dict(self.about),
            "at": [list(at) for at in self.right],
            "patterns": as_text(patterns_VP.astype(KINDS["patterns"])),
            "which": as_text(which_N.reshape(-1).astype(KINDS["which"])),
        }

    @classmethod
    def unpacked(cls, said: Mapping[str, Any]) -> Answers:
        patterns_VP, which_N = (np.frombuffer(from_text(said[key]), kind) for key, kind in KINDS.items())
        right_VN = patterns_VP.reshape(len(said["at"]), -1)[:, which_N]
        return cls(
            said["about"], {At(*at): torch.from_numpy(row) for at, row in zip(said["at"], right_VN, strict=True)}
        )


def as_text(values: NDArray[Any]) -> str:
    return base64.b64encode(zlib.compress(values.tobytes(), 9)).decode()


def from_text(text: str) -> bytes:
    return zlib.decompress(base64.b64decode(text))


def keep(found: Iterable[Mapping[str, Any]], folder: Path = FOLDER) -> None:
    """Write what was found, packed, a file each; one of the same name is replaced."""
    folder.mkdir(exist_ok=True)
    for said in found:
        (folder / f"{said['about']['name']}.json").write_text(json.dumps(said) + "\n")


def kept(folder: Path = FOLDER) -> list[Answers]:
    """All that there are, by name."""
    return [Answers.unpacked(json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]
