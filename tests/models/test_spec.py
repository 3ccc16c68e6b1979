from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from irene.errors import OptionError
from irene.models import MemberSpec

counts = st.integers(1, 1000)


@given(st.text(min_size=1), st.lists(counts, min_size=1, max_size=4), counts, counts)
def test_survives_json(backbone: str, shape: list[int], outputs: int, heads: int) -> None:
    spec = MemberSpec(backbone=backbone, shape=tuple(shape), outputs=outputs, heads=heads)
    assert MemberSpec.from_dict(json.loads(json.dumps(spec.to_dict()))) == spec


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backbone": ""}, "backbone must be a name"),
        ({"backbone": 3}, "backbone must be a name"),
        ({"shape": ()}, "shape must be"),
        ({"shape": (3, 0, 32)}, "shape must be"),
        ({"shape": (3.0, 32, 32)}, "shape must be"),
        ({"shape": 64}, "shape must be"),
        ({"outputs": 0}, "outputs must be"),
        ({"outputs": True}, "outputs must be"),
        ({"heads": -1}, "heads must be"),
        ({"heads": 1.0}, "heads must be"),
    ],
)
def test_refuses_what_cannot_work(change: dict[str, Any], message: str) -> None:
    good = {"backbone": "cnn", "shape": (1, 8, 8), "outputs": 10, "heads": 2}
    with pytest.raises(OptionError, match=message):
        MemberSpec(**{**good, **change})
    with pytest.raises(OptionError, match=message):
        MemberSpec.from_dict({**good, **change})


@pytest.mark.parametrize("values", [{}, {"backbone": "cnn"}, None, []])
def test_refuses_an_incomplete_description(values: Any) -> None:
    with pytest.raises(OptionError, match="needs exactly backbone, shape, outputs, heads"):
        MemberSpec.from_dict(values)


def test_refuses_unknown_fields() -> None:
    spec = MemberSpec(backbone="cnn", shape=(1, 8, 8), outputs=10)
    with pytest.raises(OptionError, match="depth"):
        MemberSpec.from_dict({**spec.to_dict(), "depth": 3})
