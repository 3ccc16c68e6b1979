"""What the README tells people to type works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from irene.data import load
from irene.models import MemberSpec, build

README = (Path(__file__).parents[1] / "README.md").read_text()
COMMANDS = "".join(README.split("```")[1::2])


@pytest.mark.parametrize("library", ["torch", "scikit-learn"])
def test_the_python_blocks_run(library: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    data = load("digits")
    inputs, images, targets = data.train.inputs, data.test.inputs, data.train.targets
    assert inputs is not None
    assert images is not None
    small: Any
    large: Any
    if library == "torch":
        small, large = (
            build(MemberSpec(backbone=name, shape=data.shape, outputs=data.outputs), seed=0) for name in ("mlp", "cnn")
        )
    else:
        inputs, images = inputs.flatten(1), images.flatten(1)
        models = LogisticRegression(max_iter=3000), KNeighborsClassifier()
        small, large = (model.fit(inputs[600:], targets[600:]) for model in models)
    names = {"small": small, "large": large, "images": images}
    names |= {"heldout_images": inputs[:600], "heldout_labels": targets[:600]}
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
