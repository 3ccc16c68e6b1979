"""What the README tells people to type works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from irene.data import load
from irene.models import MemberSpec, build

README = (Path(__file__).parents[1] / "README.md").read_text()
COMMANDS = "".join(README.split("```")[1::2])


def test_the_python_blocks_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    data = load("digits")
    small, large = (
        build(MemberSpec(backbone=name, shape=data.shape, outputs=data.outputs), seed=0) for name in ("mlp", "cnn")
    )
    inputs = data.train.inputs
    assert inputs is not None
    names = {"small": small, "large": large, "images": data.test.inputs}
    names |= {"heldout_images": inputs[:600], "heldout_labels": data.train.targets[:600]}
    for block in blocks:
        exec(block, names)
        prediction = names["prediction"]
        assert len(prediction.labels) == len(data.test)
        assert 1 < prediction.members_used.float().mean() < 2
    assert names["point"].expected["cost"] == pytest.approx(1.3, abs=0.02)
    streamed = torch.cat([prediction.labels for prediction in names["predictions"]])
    assert torch.equal(streamed, prediction.labels)


@pytest.mark.parametrize("verb", sorted(set(re.findall(r"^irene ([a-z]+)", COMMANDS, re.MULTILINE))))
def test_every_verb_exists_and_explains_itself(verb: str) -> None:
    done = subprocess.run([sys.executable, "-m", "irene", verb, "--help"], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Example" in done.stdout
