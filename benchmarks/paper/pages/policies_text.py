"""What the results page says of policies on the same members: benchmarks/results/policies.json in, markdown out."""

from __future__ import annotations

from typing import Any

from names import title

BASELINE = "margin"


def conclusion(found: dict[str, Any]) -> str:
    """Who is clearly better than a threshold on the margin where little is spent, by kind of members."""
    return "; ".join(of_members(kind, about["policies"]) for kind, about in found.items()) + "."


def of_members(kind: str, policies: dict[str, Any]) -> str:
    costs = policies[BASELINE]["cheap"]["costs"]
    gains = {name: points["cheap"]["gain"] for name, points in policies.items()}
    better = [f"{title(name)} {mean:+.2f}" for name, (mean, low, _) in gains.items() if low > 0]
    return f"on {kind} members, on the mean of costs {costs[0]:g} to {costs[-1]:g}: {', '.join(better) or 'none'}"
