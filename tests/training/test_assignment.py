from __future__ import annotations

import itertools
import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from irene.training.assignment import assign, shares

WEIGHTS = st.sampled_from([(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.7, 0.4)])
seeds = st.integers(0, 10_000)


def diversity(shares_NF: Tensor, chosen_N: Tensor) -> Tensor:
    """The diversity of a set of samples, in units of samples: N for all of them, and more than its size for a few."""
    samples, features = shares_NF.shape
    return (chosen_N.float() @ shares_NF).sqrt().sum() * (samples / features)


def assignment_value(value_NT: Tensor, shares_NF: Tensor, chosen_NT: Tensor, *, intra: float, inter: float) -> Tensor:
    """What the greedy choice maximises; inter-member diversity is averaged over the partners of a member."""
    members = value_NT.shape[1]
    total = value_NT[chosen_NT].sum()
    for i in range(members):
        total = total + intra * diversity(shares_NF, chosen_NT[:, i])
        for j in range(i):
            total = total + inter / (members - 1) * diversity(shares_NF, chosen_NT[:, i] | chosen_NT[:, j])
    return total


def problem(seed: int, samples: int, members: int, features: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    value = torch.rand(samples, members, generator=generator)
    return value, shares(torch.randn(samples, features, generator=generator))


def feasible(chosen: Tensor, models: int, samples: int) -> bool:
    return bool((chosen.sum(1) <= models).all() and (chosen.sum(0) <= samples).all())


@given(seeds, WEIGHTS, st.integers(1, 3), st.integers(1, 9))
@settings(max_examples=40)
def test_with_a_round_for_each_pair_it_is_the_greedy_algorithm(
    seed: int, weights: tuple[float, float], models: int, samples: int
) -> None:
    intra, inter = weights
    value, held = problem(seed, 8, 3)
    expected = torch.zeros(8, 3, dtype=torch.bool)
    while True:  # the definition: add the feasible pair that raises the value most
        best, gain = None, -math.inf
        now = assignment_value(value, held, expected, intra=intra, inter=inter)
        for pair in itertools.product(range(8), range(3)):
            trial = expected.clone()
            trial[pair] = True
            if not expected[pair] and feasible(trial, models, samples):
                rise = float(assignment_value(value, held, trial, intra=intra, inter=inter) - now)
                best, gain = (pair, rise) if rise > gain else (best, gain)
        if best is None:
            break
        expected[best] = True
    found = assign(value, held, models=models, samples=samples, intra=intra, inter=inter, rounds=1000)
    torch.testing.assert_close(
        assignment_value(value, held, found, intra=intra, inter=inter),
        assignment_value(value, held, expected, intra=intra, inter=inter),
    )


@given(seeds, WEIGHTS, st.integers(1, 3), st.floats(0.05, 1))
@settings(max_examples=40)
def test_rounds_keep_the_limits_and_most_of_the_value(
    seed: int, weights: tuple[float, float], models: int, share: float
) -> None:
    intra, inter = weights
    value, held = problem(seed, 60, 3, features=8)
    limits = {"models": models, "samples": math.ceil(share * 60), "intra": intra, "inter": inter}
    fast, plain = assign(value, held, **limits), assign(value, held, **limits, rounds=1000)
    assert feasible(fast, models, math.ceil(share * 60))
    assert fast.sum() == min(60 * models, 3 * math.ceil(share * 60))
    worth = [float(assignment_value(value, held, chosen, intra=intra, inter=inter)) for chosen in (fast, plain)]
    assert worth[0] >= 0.95 * worth[1]


@given(seeds, WEIGHTS)
@settings(max_examples=10)
def test_the_greedy_value_is_within_its_bound(seed: int, weights: tuple[float, float]) -> None:
    intra, inter = weights
    value, held = problem(seed, 4, 2)
    best = max(
        float(assignment_value(value, held, chosen, intra=intra, inter=inter))
        for bits in itertools.product([False, True], repeat=8)
        if feasible(chosen := torch.tensor(bits).view(4, 2), 1, 3)
    )
    found = assign(value, held, models=1, samples=3, intra=intra, inter=inter, rounds=1000)
    assert float(assignment_value(value, held, found, intra=intra, inter=inter)) >= best / 3


def test_without_diversity_the_easiest_samples_are_taken() -> None:
    value, held = problem(0, 50, 1)
    chosen = assign(value, held, models=1, samples=10, intra=0.0, inter=0.0)[:, 0]
    assert set(chosen.nonzero()[:, 0].tolist()) == set(value[:, 0].topk(10).indices.tolist())


def test_intra_diversity_covers_the_kinds_of_samples() -> None:
    kinds = torch.arange(40) % 4
    held = shares(torch.nn.functional.one_hot(kinds).float())
    value = (3 - kinds).float()[:, None] / 10  # kind 0 is the easiest
    alone = assign(value, held, models=1, samples=8, intra=0.0, inter=0.0)[:, 0]
    assert kinds[alone].unique().tolist() == [0]
    diverse = assign(value, held, models=1, samples=8, intra=1.0, inter=0.0, rounds=1000)[:, 0]
    assert kinds[diverse].unique().tolist() == [0, 1, 2, 3]


def test_inter_diversity_drives_members_apart() -> None:
    _, held = problem(0, 40, 2, features=8)
    value = torch.rand(40, 1, generator=torch.Generator().manual_seed(0)).expand(40, 2)
    same = assign(value, held, models=2, samples=20, intra=0.0, inter=0.0)
    apart = assign(value, held, models=2, samples=20, intra=0.0, inter=5.0)
    assert (same.sum(1) == 2).sum() == 20
    assert (apart.sum(1) == 2).sum() < 5


def test_shares_split_signs_and_drop_what_no_sample_has() -> None:
    found = shares(torch.tensor([[1.0, -2.0, 0.0], [3.0, 2.0, 0.0]]))
    assert torch.equal(found, torch.tensor([[0.25, 0.0, 1.0], [0.75, 1.0, 0.0]]))
    everything = diversity(found, torch.ones(2, dtype=torch.bool))
    torch.testing.assert_close(everything, torch.tensor(2.0))
    assert diversity(found, torch.zeros(2, dtype=torch.bool)) == 0
