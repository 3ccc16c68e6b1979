"""The results page names the policies that are clearly better than a threshold, and no others."""

from __future__ import annotations

from typing import Any

from pages import policies_text


def policies(**gains: list[float]) -> dict[str, Any]:
    costs = [0.2, 0.3, 0.5]
    found = {"margin": [0.0, 0.0, 0.0], **gains}
    return {"policies": {name: {"cheap": {"costs": costs, "gain": gain}} for name, gain in found.items()}}


def test_only_those_clearly_better_are_named() -> None:
    unclear, behind, better = [0.3, -0.1, 0.7], [-0.3, -0.4, -0.2], [0.04, 0.01, 0.07]
    found = {"equal": policies(entropy=behind, agreement=unclear), "unequal": policies(change=better, random=behind)}
    assert policies_text.conclusion(found) == (
        "on equal members, on the mean of costs 0.2 to 0.5: none; "
        "on unequal members, on the mean of costs 0.2 to 0.5: change predictor +0.04."
    )
