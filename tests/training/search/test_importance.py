"""The picture of what decides shows every hyper-parameter, the most important on top."""

from __future__ import annotations

from irene.training.search.importance import importance

SHARES = {"rank": 0.2, "lr": 0.7, "decay": 0.1}


def test_bars_in_order() -> None:
    (axes,) = importance(SHARES).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["decay", "rank", "lr"]
    assert [round(bar.get_width(), 3) for bar in axes.patches] == [0.1, 0.2, 0.7]
    assert {text.get_text() for text in axes.texts} == {"10%", "20%", "70%"}
