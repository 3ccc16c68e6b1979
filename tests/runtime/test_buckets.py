"""Bucket sizes, what is run in which, and queues of sample numbers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from irene.errors import OptionError
from irene.runtime.buckets import CostTable, bucket_sizes, check_buckets, measure, usual_bucket
from irene.runtime.queues import Queue


def test_a_cpu_takes_images_by_tens() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert [usual_bucket((3, 32, 32), device) for device in (cpu, gpu)] == [64, 1024]
    assert [usual_bucket((5,), device) for device in (cpu, gpu)] == [1024, 1024]


def test_powers_of_two_and_some_between() -> None:
    assert bucket_sizes(1) == (1,)
    assert bucket_sizes(100) == (1, 2, 4, 8, 16, 32, 64, 100)
    assert bucket_sizes(1000, fine=True) == (
        *(1, 2, 4, 8, *range(16, 64, 4), *range(64, 256, 8)),
        *(256, 320, 384, 448, 512, 640, 768, 896, 1000),
    )
    with pytest.raises(OptionError, match="1 or more"):
        bucket_sizes(0)


@given(largest=st.integers(1, 5000), fine=st.booleans())
def test_every_number_has_a_bucket_less_than_twice_as_large(largest: int, fine: bool) -> None:
    sizes = bucket_sizes(largest, fine=fine)
    assert sizes[-1] == largest
    assert all(low < high <= 2 * low for low, high in pairwise(sizes))


def test_buckets_are_sorted_and_checked() -> None:
    assert check_buckets([8, 2, 8]) == (2, 8)
    wrong: list[Any] = [[], [0, 8], [2.5], 8]
    for one in wrong:
        with pytest.raises(OptionError, match="buckets must be sizes of 1 sample or more, whole numbers, got"):
            check_buckets(one)


def test_a_program_is_timed() -> None:
    calls: list[int] = []
    assert measure(lambda: calls.append(1), torch.device("cpu")) >= 0
    assert len(calls) == 3


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=30))
def test_a_queue_keeps_order(moves: list[tuple[int, int]]) -> None:
    queue, model, number = Queue(), list[int](), 0
    for pushed, popped in moves:
        queue.push(np.arange(number, number + pushed))
        model += range(number, number + pushed)
        number += pushed
        assert len(queue) == len(model)
        if model:
            assert queue.head == model[0]
            assert queue.pop(popped).tolist() == model[:popped]
            model = model[popped:]


def plan(table: CostTable, stage: int, count: int, within: int, going: float) -> tuple[int, int]:
    places, widths = table.plans(stage, within, going)
    return table.buckets[places[count - 1]], int(widths[count - 1])


def test_the_costs_decide_whether_two_members_run_at_once() -> None:
    table = CostTable((4, 16), ((1.0, 3.0), (1.0, 3.0), (1.0, 3.0)), ((1.2, 6.0), (math.inf, math.inf)))
    assert plan(table, 0, 3, within=16, going=0.5) == (4, 2)
    assert plan(table, 0, 3, within=16, going=0.05) == (4, 1)  # most stop: the second would run for little
    assert plan(table, 0, 10, within=16, going=1.0) == (16, 1)  # no faster at once
    assert plan(table, 1, 3, within=16, going=1.0) == (4, 1)  # never recorded as a pair
    assert plan(table, 2, 3, within=16, going=0.0) == (4, 1)  # the last one


costs = st.floats(0.5, 9.5).map(lambda ms: round(ms, 1))


@given(
    buckets=st.sets(st.integers(1, 30), min_size=1).map(lambda sizes: tuple(sorted(sizes))),
    numbers=st.data(),
    going=st.floats(0, 1),
)
def test_plans_are_the_cheapest(buckets: tuple[int, ...], numbers: st.DataObject, going: float) -> None:
    """Against the rule written out for one number of samples."""
    row = st.lists(costs, min_size=len(buckets), max_size=len(buckets)).map(tuple)
    table = CostTable(buckets, (numbers.draw(row), numbers.draw(row)), (numbers.draw(row),))
    within = numbers.draw(st.sampled_from(buckets))

    def cheapest(ms: tuple[float, ...], count: int, most: int) -> tuple[float, int]:
        least, size = min((cost, -size) for cost, size in zip(ms, buckets, strict=True) if count <= size <= most)
        return least, -size

    for count in range(1, within + 1):
        alone, rows = cheapest(table.ms[0], count, within)
        assert plan(table, 1, count, within, going) == (cheapest(table.ms[1], count, within)[1], 1)
        after, _ = cheapest(table.ms[1], max(1, round(going * count)), rows)
        together, beside = cheapest(table.pairs[0], count, within)
        pays = together < 0.9 * (alone + min(1.0, going * count) * after)
        assert plan(table, 0, count, within, going) == ((beside, 2) if pays else (rows, 1))


def test_the_costs_decide_whether_compacting_pays() -> None:
    table = CostTable((1, 4, 16, 64), ((1.0, 1.0, 2.0, 9.0), (3.0, 2.0, 5.0, 4.0)))
    assert plan(table, 0, 3, within=64, going=0.0) == (4, 1)
    assert plan(table, 0, 1, within=64, going=0.0) == (4, 1)  # one is no cheaper than four: stay as large as is free
    assert plan(table, 0, 1, within=1, going=0.0) == (1, 1)
    assert plan(table, 1, 10, within=64, going=0.0) == (64, 1)  # the larger bucket is the faster one
    assert plan(table, 1, 10, within=16, going=0.0) == (16, 1)
    with pytest.raises(OptionError, match="do not fit"):
        table.plans(0, 65, 0.0)
