"""A run as a folder that runs elsewhere: members, policies, a manifest, and the loader that needs nothing of irene.

DIR/README.md        how to run it, and its operating points
DIR/manifest.json    classes, input, members with their costs, operating points, the SHA-256 of every file below
DIR/load_irene.py    `load(DIR).predict(batch)`, with numpy and what runs the members
DIR/table_irene.py   of a run on a table: `encode(rows)` makes such a batch, with numpy
DIR/members/0.onnx   one graph a member (.xml and .bin for OpenVINO, .pt2 for torch); gate.onnx for mixtures
DIR/points/NAME.npz  what a policy has learned, if it has
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from irene import __version__
from irene.data import Data
from irene.errors import OptionError
from irene.files import check_room, draft_of, sha256_of, write_atomically, write_json
from irene.halting import registry
from irene.mixture import Mixture
from irene.point import OperatingPoint
from irene.run import Run
from irene.runtime.backend import backend_class
from irene.runtime.export.graphs import Signature, trace, write_pt2
from irene.runtime.export.load_irene import FORMAT, SCORES
from irene.runtime.export.readme import readme
from irene.runtime.export.reduced import reduce
from irene.runtime.graph_backend import GraphBackend
from irene.runtime.quantise import MAX_LOSS
from irene.runtime.recalibrate import as_trained

Format = Literal["onnx", "openvino", "pt2"]
FORMATS: tuple[Format, ...] = get_args(Format)
_SUFFIXES = {"onnx": ".onnx", "openvino": ".xml", "pt2": ".pt2"}


class _Program:
    """A member as a .pt2 archive."""

    def __init__(self, member: Callable[[Tensor], Tensor], example: Tensor) -> None:
        self.signature = Signature()
        self._program = trace(member, example)

    def save(self, path: Path) -> None:
        write_pt2(self._program, path)


Graph = GraphBackend | _Program


def export(
    run: Run,
    out: str | Path,
    *,
    format: Format = "onnx",
    point: str | None = None,
    int8: bool = False,
    data: Data | None = None,
    max_loss: float = MAX_LOSS,
) -> dict[str, Any]:
    """Write a run as a folder that runs with numpy and onnxruntime, openvino or torch; returns its manifest.

        export(Run.open("runs/mine"), "exported")

    Members take batches of any size. Without a `point`, the run's own policy comes first (as the point `trained`) and
    every operating point after it; with one, only that. `int8` quantises the members on the run's held-out samples,
    for which it needs the run's `data`, sets every threshold again and refuses to lose more than `max_loss`. Of several
    points, those that cannot be set again are left out, and the manifest says why (`left_out`).
    """
    folder = Path(out)
    if format not in FORMATS:
        raise OptionError(f"format must be one of {', '.join(FORMATS)}, got {format!r}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OptionError(f"{folder}: exists already; give another --out")
    if int8 and format == "pt2":
        raise OptionError("int8 is made by ONNX Runtime or OpenVINO: use format onnx or openvino")
    if int8 and data is None:
        raise OptionError("int8 is calibrated on the run's held-out samples: give its data")
    check_room(folder)
    predictor = run.predictor()
    if isinstance(predictor, Mixture) and point is not None:
        raise OptionError(f"{run.path}: a gate chooses the members, so there are no operating points: leave point out")
    points = () if isinstance(predictor, Mixture) else _points(run, point)
    manifest = _head(run, format, "int8" if int8 else "fp32")
    example = torch.zeros(1, *manifest["input"]["shape"])
    graphs: dict[int, Graph] = {}
    if int8 and data is not None:
        reduced = reduce(
            run, predictor.members, points, data, _backend(format), max_loss=max_loss, every=point is not None
        )
        points, manifest["quantisation"], manifest["left_out"] = reduced.points, reduced.report, reduced.left_out
        graphs = dict(reduced.backends)
    used = sorted({member for one in points for member in one.members}) or range(len(predictor.members))
    draft = draft_of(folder)
    try:
        draft.mkdir()
        for i in used:
            graph = graphs.get(i) or _make(format, predictor.members[i], example)
            entry = _save(graph, draft, f"members/{i}{_SUFFIXES[format]}")
            manifest["members"].append({**entry, "cost": run.costs[i].to_dict()})
        if isinstance(predictor, Mixture):
            gate = _save(_make(format, predictor.gate, example), draft, f"gate{_SUFFIXES[format]}")
            manifest["gate"] = {**gate, "top": predictor.top}
        for one in points:
            manifest["points"][one.name] = _save_point(one, list(used), draft)
        _complete(draft, manifest)
        os.replace(draft, folder)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return manifest


def _head(run: Run, format: Format, precision: str) -> dict[str, Any]:
    """The manifest before anything is in the folder."""
    data = run.manifest["data"]
    columns = {"columns": data["columns"]} if "columns" in data else {}
    return {
        "format": FORMAT,
        "runtime": format,
        "precision": precision,
        "task": run.task,
        "classes": data["classes"],
        "input": {"shape": list(data["shape"]), "dtype": "float32", **columns},
        "members": [],
        "points": {},
        "made": {"irene": __version__, "method": run.method, "data": data["data"]},
    }


def _complete(folder: Path, manifest: dict[str, Any]) -> None:
    """Write the loaders, the manifest with the SHA-256 of every file so far, and the README."""
    for name in ("load_irene.py", *["table_irene.py"] * ("columns" in manifest["input"])):
        write_atomically(folder / name, (files(__package__) / name).read_bytes())
    written = sorted(path for path in folder.rglob("*") if path.is_file())
    manifest["files"] = {path.relative_to(folder).as_posix(): sha256_of(path) for path in written}
    write_json(folder / "manifest.json", manifest)
    write_atomically(folder / "README.md", readme(manifest).encode())  # not in the manifest: add to it what you like


def _points(run: Run, name: str | None) -> tuple[OperatingPoint, ...]:
    if name is not None:
        found = [run.point(name)]
    else:
        found = [as_trained(run.policy(), run.aggregation, run.task), *(run.point(one) for one in run.points)]
    for point in found:
        if point.policy.name not in (*SCORES, "skipping"):
            raise OptionError(
                f"the {point.policy.name} policy is for studies and cannot be exported: calibrate another"
            )
    return tuple(found)


def _backend(format: Format) -> type[GraphBackend]:
    backend = backend_class(format)
    assert issubclass(backend, GraphBackend)
    return backend


def _make(format: Format, member: Callable[[Tensor], Tensor], example: Tensor) -> Graph:
    return _Program(member, example) if format == "pt2" else _backend(format).load(member, example)


def _save(graph: Graph, folder: Path, file: str) -> dict[str, Any]:
    graph.save(folder / file)
    return {"file": file, **asdict(graph.signature)}


def _save_point(point: OperatingPoint, used: list[int], folder: Path) -> dict[str, Any]:
    """Write what the policy has learned; its entry in the manifest, with members counted as there."""
    learned = {key: value.detach().cpu().numpy() for key, value in point.policy.state_dict().items()}
    file = f"points/{point.name}.npz" if learned else None
    if file is not None:
        content = io.BytesIO()
        np.savez(content, **learned)
        write_atomically(folder / file, content.getvalue())
    return {
        "policy": registry.describe(point.policy),
        "aggregation": point.aggregation.to_dict(),
        "members": [used.index(member) for member in point.members],
        "learned": file,
        "asked": point.asked,
        "expected": point.expected,
        "why": point.why,
    }
