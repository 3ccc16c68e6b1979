from __future__ import annotations

from irene.models.names import near


def test_near() -> None:
    assert near("resnt18", ["resnet18", "mlp"]) == ": did you mean resnet18?"
    assert near("cats", ["cat", "cast"]) == ": did you mean cat or cast?"
    assert near("quite-other", ["resnet18", "mlp"]) == ""
