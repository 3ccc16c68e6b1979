"""The architecture of a member, as values for a JSON file."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from irene.errors import OptionError


def _is_count(value: object) -> bool:
    # bool is an int in Python, but True is no sensible width.
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


@dataclass(frozen=True, kw_only=True)
class MemberSpec:
    """Names a member's architecture: with a seed it gives the same weights everywhere."""

    backbone: str
    """A name of `backbones()`, one of those with a width (`resnet18x0.25`), `timm/NAME` or `module:function`; with
    `mimo3/` or `batch4/` before it, that many sub-models in one (see `irene.models.packed`)."""
    shape: tuple[int, ...]
    """Shape of one raw sample: (C, H, W) for images, (columns,) for features."""
    outputs: int
    """Classes, or predicted values for regression."""
    heads: int = 1
    """Output heads on the same features; the paper's selector compares two."""

    def __post_init__(self) -> None:
        if not isinstance(self.backbone, str) or not self.backbone:
            raise OptionError(f"backbone must be a name such as 'resnet18', got {self.backbone!r}")
        if not isinstance(self.shape, tuple) or not self.shape or not all(map(_is_count, self.shape)):
            raise OptionError(
                f"shape must be a tuple of positive integers such as (3, 32, 32) or (64,), got {self.shape!r}"
            )
        for name in ("outputs", "heads"):
            if not _is_count(getattr(self, name)):
                raise OptionError(f"{name} must be an integer of at least 1, got {getattr(self, name)!r}")

    def to_dict(self) -> dict[str, Any]:
        """The spec as JSON-able values."""
        return {**vars(self), "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> MemberSpec:
        """The spec that `to_dict` wrote; anything else is an OptionError."""
        known = [field.name for field in fields(cls)]
        if not isinstance(values, dict) or set(values) != set(known):
            got = ", ".join(map(str, values)) if isinstance(values, dict) else repr(values)
            raise OptionError(f"a member's description needs exactly {', '.join(known)}, got {got}")
        shape = values["shape"]
        return cls(**{**values, "shape": tuple(shape) if isinstance(shape, list) else shape})
