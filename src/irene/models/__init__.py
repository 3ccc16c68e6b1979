"""Members of an ensemble: backbones, the normalising and multi-head wrapper, and what a member costs."""

from __future__ import annotations

from irene.models.cost import measure_cost
from irene.models.member import Member, as_heads, build
from irene.models.normalise import statistics
from irene.models.registry import backbones, register
from irene.models.spec import MemberSpec

__all__ = [
    "Member",
    "MemberSpec",
    "as_heads",
    "backbones",
    "build",
    "measure_cost",
    "register",
    "statistics",
]
