"""What stands in the README of an exported folder: how to run it, and its operating points."""

from __future__ import annotations

from typing import Any

from irene.point_words import in_a_line

_PACKAGES = {"onnx": "onnxruntime", "openvino": "openvino", "pt2": "torch"}
_PAGE = """\
# {method} on {data}: {count} members in {runtime}, {precision}

A cascade that irene exported: each sample runs through as few members as it needs. It requires only
`pip install numpy {package}`, neither irene nor the code that trained the members. Run this in the folder:

```python
{batch}
answer = cascade.predict(batch)
{show}
```

`answer.outputs` holds {outputs}, `answer.members_used` how many members ran for each sample. `answer.failed` marks the
samples for which a member gave NaN or infinity: they have no answer{no_label}.
To run it from elsewhere, put the folder on the Python path (`PYTHONPATH`): `load()` finds its files beside
`load_irene.py`.

{points}
"""
_ARRAY = """\
import numpy as np
from load_irene import load

cascade = load()
batch = np.zeros({shape}, np.float32)  # your samples, raw like those of training"""
_TABLE = """\
from load_irene import load
from table_irene import encode

cascade = load()
batch = encode({table})  # your rows, by the names of their columns; a data frame does as well"""
_LABELS = """\
for label, used in zip(answer.labels, answer.members_used):
    print(cascade.classes[label], used)"""
_VALUES = """\
for values, used in zip(answer.outputs, answer.members_used):
    print(values, used)"""
_POINTS = """\
`load()` uses the first of these operating points, `load(point=NAME)` or `cascade.at(NAME)` another:

| point | its policy, what was requested, and what to expect |
|---|---|
"""
_TIMES = " (times are those of the members in torch, in float32)"


def readme(manifest: dict[str, Any]) -> str:
    """The README of the folder that a manifest describes."""
    labels = manifest["task"] == "classification"
    classes = ", ".join(f"`{name}`" for name in manifest["classes"])
    return _PAGE.format(
        **manifest["made"],
        count=len(manifest["members"]),
        runtime=manifest["runtime"],
        precision=manifest["precision"],
        package=_PACKAGES[manifest["runtime"]],
        batch=_batch(manifest["input"]),
        show=_LABELS if labels else _VALUES,
        outputs="the probability of each class" if labels else f"the values of {classes}",
        no_label=", and the label -1" if labels else "",
        points=_points(manifest["points"]),
    )


def _batch(about: dict[str, Any]) -> str:
    """How a batch is made of what the folder takes."""
    if "columns" not in about:
        return _ARRAY.format(shape=(4, *about["shape"]))
    first = {column["name"]: [(column["categories"] or [0.0])[0]] * 4 for column in about["columns"]}
    return _TABLE.format(table=first)


def _points(points: dict[str, Any]) -> str:
    if not points:
        return "A gate looks at each sample and chooses the members to run: there are no operating points."
    return _POINTS + "\n".join(f"| `{name}` | {_words(point)} |" for name, point in points.items())


def _words(point: dict[str, Any]) -> str:
    """One point."""
    expected = point["expected"]
    words = in_a_line(point["policy"]["name"], point["asked"], expected, point["why"])
    return words + _TIMES * (expected.get("unit") == "ms" or "p99" in expected)
