"""The bench times every mode in the same way, and its figures fit together."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import Tensor

from irene.cascade import Cascade
from irene.errors import OptionError
from irene.halting.policies import Margin, Never
from irene.models import MemberSpec, build
from irene.models.onnx_file import OnnxFile
from irene.processes import cores
from irene.runtime.backend import Backend, load_backends
from irene.runtime.bench import BenchOptions, at_cost, bench, default_backends, hardware, noise_for, random_inputs
from irene.runtime.bench_loops import Alone, Whole
from irene.runtime.bench_picture import bench_picture, growth_picture
from irene.runtime.growth import growth

CPU = torch.device("cpu")
MODES = ("single", "full", "plain", "engine", "stream")


def cascade(steps: int = 3) -> Cascade:
    spec = MemberSpec(backbone="mlp", shape=(5,), outputs=4)
    return Cascade([build(spec, seed=seed) for seed in range(steps)], Margin(0.1))


def test_rows_fit_together() -> None:
    inputs = random_inputs((5,), 40, CPU)
    found = at_cost(cascade(), inputs, 1.5)
    heard = []
    options = BenchOptions(batches=(1, 8), seconds=0.0, samples=16, stream_batches=3)
    rows = bench(found, inputs, options, report=heard.append)
    assert rows == heard
    assert [(row["batch"], row["mode"]) for row in rows] == [(batch, mode) for batch in (1, 8) for mode in MODES]
    for batch in (1, 8):
        single, full, *others = (row for row in rows if row["batch"] == batch)
        assert (single["mean_cost"], full["mean_cost"], full["speedup"]) == (1.0, 3.0, 1.0)
        used = found.predict(inputs[: len(inputs[:16])]).members_used
        for row in others:
            assert row["mean_cost"] == pytest.approx(float(used.double().mean()))
        for row in (single, full, *others):
            assert (row["device"], row["backend"]) == ("cpu", "eager")
            assert row["ms_low"] <= row["ms"] <= row["ms_high"]
            assert row["images_per_s"] == pytest.approx(1000 * batch / row["ms"])
            assert row["speedup"] == pytest.approx(full["ms"] / row["ms"])
            assert row["limit"] == pytest.approx(full["ms"] / (row["mean_cost"] * single["ms"]))
            assert row["ratio"] == pytest.approx(row["speedup"] / row["limit"])


def test_a_backend_that_cannot_run_these_members_is_left_out() -> None:
    inputs = torch.zeros(4, 2)
    functions = Cascade([lambda inputs: inputs.clone()] * 2, Margin())
    skipped: dict[str, str] = {}
    options = BenchOptions(batches=(2,), backends=("compile", "eager"), seconds=0.0, samples=2, stream_batches=1)
    rows = bench(functions, inputs, options, skip=skipped.__setitem__)
    assert {row["backend"] for row in rows} == {"eager"}
    assert "takes torch modules" in skipped["compile"]
    with pytest.raises(OptionError, match="takes torch modules"):
        bench(functions, inputs, options)


@pytest.mark.parametrize("cost", [1.0, 1.3, 2.0, 3.0])
def test_a_threshold_for_a_cost(cost: float) -> None:
    inputs = random_inputs((5,), 300, CPU)
    used = at_cost(cascade(), inputs, cost).predict(inputs).members_used
    assert float(used.double().mean()) == pytest.approx(cost, abs=0.01)


def test_inputs_are_of_all_kinds_and_always_the_same() -> None:
    images = random_inputs((3, 8, 8), 50, CPU)
    assert (images.dtype, images.shape) == (torch.uint8, (50, 3, 8, 8))
    contrast = images.float().flatten(1).std(1)
    assert contrast.max() > 2 * contrast.min()
    assert torch.equal(images, random_inputs((3, 8, 8), 50, CPU))


def test_the_loops_it_is_measured_against() -> None:
    inputs = random_inputs((5,), 16, CPU)
    found = at_cost(cascade(), inputs, 1.5)
    backends: list[Backend] = load_backends(found, inputs, "eager")
    assert torch.equal(Alone(backends[1], inputs).run(inputs), found.members[1](inputs))
    whole = Whole(backends, found.rule, inputs)
    torch.testing.assert_close(whole.run(inputs), found.predict(inputs).outputs)
    everybody = Cascade(found.members, Never())
    torch.testing.assert_close(Whole(backends, everybody.rule, inputs).run(inputs), everybody.predict(inputs).outputs)


def test_growth_over_members_and_samples() -> None:
    inputs = random_inputs((5,), 32, CPU)
    asked: list[int] = []

    def member(inputs: Tensor) -> Tensor:
        asked.append(len(inputs))
        return inputs[:, :3]

    rows = growth([member], Margin(), inputs, bucket=8, cost=1.0, counts=(1, 4))
    told = [(row["axis"], row["mode"], row["members"], row["samples"], row["mean_cost"]) for row in rows]
    assert told == [
        ("members", "full", 1, 32, 1.0),
        ("members", "stream", 1, 32, 1.0),
        ("members", "full", 4, 32, 4.0),
        ("members", "stream", 4, 32, 1.0),
        *(("samples", mode, 1, 32 * times, 1.0) for times in (1, 2, 4, 8) for mode in ("full", "stream")),
    ]
    assert all(row["seconds"] > 0 for row in rows)
    figure = growth_picture(rows)
    assert [axes.get_xlabel() for axes in figure.axes] == ["members", "samples"]


def test_the_picture_has_two_panels_a_backend() -> None:
    row = {"batch": 1, "images_per_s": 10.0, "ratio": 0.9}
    rows = [{**row, "backend": name, "mode": mode} for name in ("eager", "onnx") for mode in MODES]
    figure = bench_picture(rows)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "eager: samples a second",
        "eager: speed-up / limit",
        "onnx: samples a second",
        "onnx: speed-up / limit",
    ]


def test_defaults_and_hardware() -> None:
    assert default_backends(CPU)[:2] == ("eager", "compile")
    assert default_backends(torch.device("cuda")) == ("eager", "eager:bf16", "compile:bf16")
    told = hardware(CPU)
    assert told["device"] == "cpu"
    assert told["cpu"]
    assert told["cores"] == cores()
    for options in ({"batches": (0,)}, {"batches": ()}, {"samples": 0}, {"seconds": -1.0}):
        with pytest.raises(OptionError):
            BenchOptions(**options)


def test_noise_is_what_members_take(tmp_path: Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["logits"], to=TensorProto.FLOAT)],
        "numbers as they are",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, ["batch", 5])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 5])],
    )
    path = tmp_path / "bytes.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    takes_bytes = Cascade([OnnxFile(path)])
    noise = noise_for(takes_bytes, (5,), 40, CPU)
    assert len(takes_bytes.predict(noise)) == 40
    assert len(noise.unique()) > 2
    assert torch.equal(noise_for(cascade(), (5,), 40, CPU), random_inputs((5,), 40, CPU))
