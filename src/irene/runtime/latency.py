"""How long one sample by itself takes to be answered: what a latency is asked in."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from irene.calibration.wishes import p99_of
from irene.cascade import Cascade
from irene.devices import seconds_of
from irene.errors import OptionError
from irene.halting.policies import Never, plain_policy
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.models.adapters import as_batch, float_type_for
from irene.types import Cost

_FEWEST, _MOST, _SECONDS = 20, 300, 10.0
_LEAST_MS = 1e-6  # of a member, where one more took no longer


def measure_latency(cascade: Cascade, sample: Tensor | NDArray[Any]) -> tuple[Cost, ...]:
    """Measure the ms that each member adds to the answer for one sample (1, ...): the members' costs with these.

    After so many members `Cascade.predict` answers within so long in 99 of 100 runs, policy included: up to 300 runs
    of each depth, in turn, or as many as ten seconds allow. A bank with these costs is what to ask for a p99 of.
    """
    sample = as_batch(sample, float_type_for(cascade.members))
    if len(sample) != 1:
        raise OptionError(f"a latency is that of one sample, got {len(sample)}: give one, such as inputs[:1]")
    depths = [_through(cascade, depth) for depth in range(1, len(cascade.members) + 1)]
    ms_T: list[list[float]] = [[] for _ in depths]
    for depth in depths:
        depth.predict(sample)
    begun = perf_counter()
    while len(ms_T[0]) < _MOST and (len(ms_T[0]) < _FEWEST or perf_counter() - begun < _SECONDS):
        for depth, found in zip(depths, ms_T, strict=True):
            found.append(1000 * seconds_of(partial(depth.predict, sample), sample.device))
    after = [0.0, *(p99_of(torch.tensor(found, dtype=torch.float64)) for found in ms_T)]
    return tuple(
        replace(cost, ms=max(later - earlier, _LEAST_MS), ms_batch=1)
        for cost, (earlier, later) in zip(cascade.costs, pairwise(after), strict=True)
    )


def _through(cascade: Cascade, depth: int) -> Cascade:
    """A cascade that runs all of the first `depth` members, and asks its policy after each nevertheless."""
    return Cascade(cascade.members[:depth], _asked(cascade), aggregation=Aggregation.equal(depth), task=cascade.task)


def _asked(cascade: Cascade) -> Policy:
    """A policy that never stops a sample: the cascade's own or, where that never asks or has no order, a plain one."""
    own = cascade.policy
    if isinstance(own, Policy) and not isinstance(own, Never):
        return own.at(math.inf)
    return plain_policy(cascade.task).at(math.inf)
