"""How the time grows with the number of members and of samples: in straight lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from irene.cascade import Cascade
from irene.devices import seconds_of
from irene.halting.policies import Never
from irene.halting.policy import Policy
from irene.runtime.backend import parse_backend
from irene.runtime.bench import Row, at_cost
from irene.runtime.stream import Stream, StreamOptions
from irene.types import Task

MEMBERS = (1, 2, 4, 8, 16, 32)
SAMPLES = (1, 2, 4, 8)  # times the inputs given
_REPEATS = 3


def growth(
    members: Sequence[Callable[[Tensor], Tensor]],
    policy: Policy,
    inputs: Tensor,
    *,
    bucket: int,
    cost: float,
    counts: Sequence[int] = MEMBERS,
    backend: str = "eager",
    task: Task = "classification",
) -> list[Row]:
    """Seconds that the streaming engine takes for 1 to many members, and for the inputs taken once to several times.

    Rows of mode `full` run every member on every sample; those of mode `stream` stop early, at about `cost` members a
    sample. Members are taken from the first on again where more are asked for than given. `backend` is a name, with a
    precision if it is not fp32: eager:bf16.
    """
    rows = []
    batches = list(inputs.split(bucket))
    for count in counts:
        some = [members[t % len(members)] for t in range(count)]
        rows += _rows(Cascade(some, policy, task=task), batches, cost, backend, "members")
    for multiple in SAMPLES:
        rows += _rows(Cascade(members, policy, task=task), batches * multiple, cost, backend, "samples")
    return rows


def _rows(cascade: Cascade, batches: Sequence[Tensor], cost: float, backend: str, axis: str) -> list[Row]:
    rows = []
    kind, precision = parse_backend(backend)
    stopping = at_cost(cascade, batches[0], cost)
    never = cascade.stopped_by(Never())
    for mode, cascade in (("full", never), ("stream", stopping)):
        options = StreamOptions(bucket=len(batches[0]))
        stream = Stream(cascade, batches[0], backends=kind, precision=precision, options=options)
        used, seconds = _best(stream, batches)
        rows.append(
            {
                "axis": axis,
                "mode": mode,
                "members": len(cascade.members),
                "samples": len(used),
                "mean_cost": float(used.double().mean()),
                "seconds": seconds,
            }
        )
    return rows


def _best(stream: Stream, batches: Sequence[Tensor]) -> tuple[Tensor, float]:
    """Members used, and the shortest of a few times: what the work takes when nothing else disturbs it."""
    used: list[Tensor] = []

    def work() -> None:
        used[:] = [answer.members_used for answer in stream.predict(batches)]

    seconds = min(seconds_of(work, batches[0].device) for _ in range(_REPEATS))
    return torch.cat(used), seconds
