"""What the results page says of members and orders that were searched: markdown of what collect.py found of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from documents import table
from names import in_short, seeds, title

from pages.rows import Row

INTRODUCTION = """## Sizes searched

For each cost, in FLOPs of one ResNet-18, `irene.calibration.order.best_members` chooses which members to run, cheapest
first, by cross-validation of cost-to-go on held-out images of each seed; then the policy is fitted on them there.
Beside them stand all members. Accuracy in % on test images, and what was chosen, with the number of seeds where that
differs. R18 stands for ResNet-18."""
COLUMNS = [(which, policy) for which in ("chosen", "all") for policy in ("margin", "selector")]


def section(found: Sequence[Row]) -> str:
    """The section with its heading; nothing where there was nothing to choose from."""
    if not found:
        return ""
    heads = [f"{which}: {title(policy)}" for which, policy in COLUMNS]
    lines = []
    for about in found:
        pool = f"{title(about['dataset'])}, {about['epochs']}, {about['training']} {in_short(about['pool'])}"
        pool += f" ({seeds(about['seeds'])})"
        for cost, orders in about["orders"].items():
            cells = [f"{100 * about[which][policy][cost]['accuracy']:.2f}" for which, policy in COLUMNS]
            lines.append([pool, cost, chosen(orders), *cells])
            pool = ""
    shown = table(["data, epochs, members to choose from", "cost", "chosen", *heads], lines)
    return f"{INTRODUCTION}\n\n{shown}\n\n{conclusion(found)}\n\n"


def conclusion(found: Sequence[Row]) -> str:
    """What choosing gains on the mean of all costs, from the worst pool to the best."""
    gains = [
        fmean(
            100 * (about["chosen"]["selector"][cost]["accuracy"] - point["accuracy"]) for cost, point in every.items()
        )
        for about in found
        for every in (about["all"]["selector"],)
    ]
    return (
        f"With learned halting choosing gains {min(gains):+.2f} to {max(gains):+.2f} points on running all members, on "
        f"the mean of these costs, and more than nothing with {sum(gain > 0 for gain in gains)} of {len(gains)} pools."
    )


def chosen(orders: Sequence[Sequence[str]]) -> str:
    """The orders of all seeds, the commonest first."""
    counted = Counter(in_short(order) for order in orders).most_common()
    return "; ".join(order + f" ({count})" * (len(counted) > 1) for order, count in counted)
