"""Bucket sizes, and queues of sample numbers."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from irene.errors import OptionError
from irene.runtime.buckets import bucket_sizes, check_buckets, measure
from irene.runtime.queues import Queue


def test_powers_of_two_and_some_between() -> None:
    assert bucket_sizes(1) == (1,)
    assert bucket_sizes(100) == (1, 2, 4, 8, 16, 32, 64, 100)
    assert bucket_sizes(256, fine=True) == (
        *(1, 2, 4, 8, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256),
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
    with pytest.raises(OptionError, match="sizes of 1 or more"):
        check_buckets([])


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
