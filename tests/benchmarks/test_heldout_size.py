"""Draws of held-out samples are of the size that was asked for, and what came of them is summed up rightly."""

from __future__ import annotations

from collections.abc import Callable

import heldout_size
import pytest
from ensembles import Pair, Setting

from irene.bank import Bank


def test_all_samples_are_drawn_once_and_fewer_several_times(lifelike_bank: Callable[..., Bank]) -> None:
    bank = lifelike_bank(60)
    assert [len(drawn) for drawn in heldout_size.draws(bank, 60, 3)] == [60]
    few = list(heldout_size.draws(bank, 20, 3))
    assert [len(drawn) for drawn in few] == [20, 20, 20]
    assert all(drawn.ids.unique().numel() == 20 for drawn in few)
    assert few[0].ids.tolist() != few[1].ids.tolist()


def test_misses_are_averaged_and_the_ninth_of_ten_told() -> None:
    found = heldout_size.summary([(0.9, 0.01 * place) for place in range(11)] + [(0.5, 0.0)])
    assert found["fits"] == 12
    assert found["worst"] == 0.5
    assert found["miss"] == pytest.approx(0.55 / 12)
    assert found["miss_9_of_10"] == pytest.approx(0.089)


def test_every_size_and_policy_is_looked_at(
    lifelike_bank: Callable[..., Bank], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heldout_size, "SIZES", (50, 200))
    pairs = [Pair(lifelike_bank(200, seed=0), lifelike_bank(200, seed=1))]
    setting = Setting(name="equal", costs=(1.3,), unit="members", unit_size=1.0, pairs=pairs, said="three members")
    found = heldout_size.look(setting, 2)
    assert found["asked"] == 1.3
    assert {size: rows["margin"]["fits"] for size, rows in found["sizes"].items()} == {"50": 2, "200": 1}
    assert list(found["sizes"]["50"]) == ["margin", "change", "selector"]
    assert all(0 <= row["miss"] < 1 and 0.3 < row["accuracy"] <= 1 for row in found["sizes"]["200"].values())
    lines = heldout_size.markdown("three", found).splitlines()
    assert [line.split(" | ")[0] for line in lines[4:]] == ["| 50", "| 200"]
