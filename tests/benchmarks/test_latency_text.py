"""The section on measured time says what the rows say, and nothing where there are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from names import DISTILLED, INDEPENDENT, WARM_STARTED
from pages import latency_figure, latency_text

BACKBONES = ["resnet32", "resnet32", "resnet18", "resnet18"]


def about(seed: int, backend: str, **changes: Any) -> dict[str, Any]:
    run = f"cifar10-resnet32-average-s{seed}-e60 + cifar10-resnet18-average-s{seed}-e30"
    shared = {"run": run, "dataset": "cifar10", "seed": seed, "training": INDEPENDENT, "backbones": BACKBONES}
    return {**shared, "backend": backend, "device": "cpu", "bucket": 64, "half_precision": seed == 1, **changes}


def network(seed: int, backend: str, **changes: Any) -> dict[str, Any]:
    members = [
        {"backbone": name, "flops": flops, "time": time, "accuracy": 0.9, "accuracy_fp32": 0.91, "same_labels": 0.98}
        for name, flops, time in zip(BACKBONES, (0.124, 0.124, 1, 1), (0.3, 0.3, 1, 1), strict=True)
    ]
    figures = {
        "members": members,
        "single": 0.93,
        "ensemble": 0.94,
        "networks": 3,
        "networks_of": f"cifar10-resnet18-average-s{seed}-e30",
        "network_ms": 0.0123,
        "whole": 0.942,
    }
    machine = {"gpu": None, "cpu": "Some CPU", "threads": 2, "torch": "2.11"}
    return {**about(seed, backend), **figures, "hardware": machine, **changes}


def row(seed: int, asked: float, accuracy: float, time: float, **changes: Any) -> dict[str, Any]:
    gains = {"over_single": [accuracy - 0.93, -0.01, 0.01], "over_ensemble": [accuracy - 0.94, -0.02, 0.0]}
    quartiles = {"median": time, "low": time - 0.01, "high": time + 0.01}
    rates = {
        key: {"median": rate, "low": rate, "high": rate}
        for key, rate in (("images_per_s", 900.0), ("alone_images_per_s", 500.0))
    }
    shown = {"policy": "selector", "unit": "flops", "asked": asked, "accuracy": accuracy, "flops": asked + 0.01}
    return {**about(seed, "eager"), **shown, **gains, "time": quartiles, **rates, **changes}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Any]:
    int8 = [{**row(seed, 0.3, 0.92, 0.4), "backend": "onnx:int8", "accuracy_fp32": 0.931} for seed in (0, 1)]
    rows = [
        row(seed, asked, accuracy + 0.002 * seed, time)
        for seed in (0, 1)
        for asked, accuracy, time in ((0.2, 0.920, 0.35), (0.3, 0.930, 0.45), (0.5, 0.935, 0.62))
    ]
    rows += [row(seed, 0.5, 0.933, 0.5, unit="ms") for seed in (0, 1)]
    networks = [
        *(network(seed, "eager") for seed in (0, 1)),
        *(network(seed, "onnx:int8", whole_fp32=0.943) for seed in (0, 1)),
    ]
    (tmp_path / "latency-cpu.json").write_text(json.dumps({"networks": networks, "rows": rows + int8}))
    return latency_text.load_files(tmp_path)


def test_nothing_is_said_while_nothing_is_measured(tmp_path: Path) -> None:
    assert latency_text.load_files(tmp_path) == {}
    assert latency_text.section({}) == ""
    assert latency_figure.drawn({}) == {}


def test_seeds_are_one_cascade(files: dict[str, Any]) -> None:
    text = latency_text.section(files)
    assert "### CIFAR-10, Some CPU, 2 threads, torch 2.11" in text
    assert text.count("#### R32, R32, R18, R18, independent members, 60 and 30 epochs, 2 seeds") == 1
    line = next(line for line in text.splitlines() if line.startswith("| eager | selector | 0.3 FLOPs |"))
    assert line.split(" | ")[3:7] == ["93.10 ± 0.14", "+0.10 ± 0.14", "-0.90 ± 0.14", "0.310"]
    assert line.endswith("| 0.45 (0.44 to 0.46) | 900 | 500 |")
    assert "| eager | selector | 0.5 time |" in text
    assert "one ResNet-32 takes 0.124 of its FLOPs and 0.30 of its time" in text
    assert "Saved weights were rounded to half precision." in text
    assert text.endswith("\n\n")


def test_cascades_of_some_members_of_a_run_are_other_cascades(files: dict[str, Any]) -> None:
    run = "cifar10-resnet32_resnet18-distil-s0-e60"
    taught = [
        latency_text.with_kind(network(0, "eager", run=run, training=DISTILLED, backbones=BACKBONES[first:]))
        for first in (0, 1)
    ]
    together = {**files["cpu"], "networks": [*files["cpu"]["networks"], *taught]}
    text = latency_text.section({"cpu": together})
    assert [line for line in text.splitlines() if line.startswith("####")] == [
        "#### R32, R32, R18, R18, independent members, 60 and 30 epochs, 2 seeds",
        "#### R32, R32, R18, R18, small members distilled, 60 epochs, one seed",
        "#### R32, R18, R18, small members distilled, 60 epochs, one seed",
    ]


def test_the_fastest_row_that_is_as_accurate_is_named(files: dict[str, Any]) -> None:
    text = latency_text.section(files)
    assert "- eager: as one ResNet-18: 0.45 (0.31 FLOPs, selector); as three averaged: at none of these costs." in text
    assert "- onnx:int8: as one ResNet-18: at none of these costs; as three averaged: at none of these costs." in text


def test_one_seed_has_an_interval(files: dict[str, Any]) -> None:
    rows = [one for one in files["cpu"]["rows"] if one["seed"] == 0 and one["asked"] == 0.2]
    assert latency_text.difference(rows, "over_single") == "-1.00 [-1.00, +1.00]"


def test_int8_stands_beside_float(files: dict[str, Any]) -> None:
    text = latency_text.section(files)
    assert "| onnx:int8 | member 1, ResNet-32 | 91.00 | 90.00 | 98.00 |" in text
    assert "| onnx:int8 | all members | 94.30 | 94.20 |  |" in text
    assert "| onnx:int8 | cascade, selector at 0.3 FLOPs | 93.10 | 92.00 |  |" in text


def test_a_figure_has_both_costs_and_one_line_a_backend(files: dict[str, Any]) -> None:
    (name,) = latency_figure.drawn(files)
    figure = latency_figure.drawn(files)[name]
    assert name == "latency-cpu-cifar10.svg"
    assert f"(figures/{name})" in latency_text.section(files)
    assert isinstance(figure, Figure)
    flops, time = (
        {line.get_label(): [*zip(*line.get_data(), strict=True)] for line in axes.get_lines()} for axes in figure.axes
    )
    assert set(flops) == {
        "R32, R32, R18, R18, independent, 60 and 30 epochs: eager",
        "R32, R32, R18, R18, independent, 60 and 30 epochs: onnx:int8",
        "one ResNet-18, three averaged, 30 epochs",
        "one ResNet-32",
    }
    assert [x for x, _ in flops["R32, R32, R18, R18, independent, 60 and 30 epochs: eager"]] == pytest.approx(
        [0.21, 0.31, 0.51]
    )
    line = "R32, R32, R18, R18, independent, 60 and 30 epochs: eager"
    assert [x for x, _ in time[line]] == [0.35, 0.45, 0.5, 0.62], "one alone that was asked for in time is no line"
    rows = files["cpu"]["rows"]
    more = [latency_text.with_kind(row(0, 0.6, 0.94, 0.6, unit="ms")), *rows]
    ((_, asked_in_time),) = (one.axes for one in latency_figure.drawn({"cpu": {**files["cpu"], "rows": more}}).values())
    assert [*asked_in_time.get_lines()[0].get_xdata()] == [0.5, 0.6]
    assert time["one ResNet-32"] == [pytest.approx((0.3, 0.9))]


def test_large_networks_that_trained_longer_are_other_marks(files: dict[str, Any]) -> None:
    longer = network(0, "eager", single=0.945, ensemble=0.955, networks_of="cifar10-resnet18-average-s0-e60")
    cpu = {**files["cpu"], "networks": [*files["cpu"]["networks"], latency_text.with_kind(longer)]}
    (figure,) = latency_figure.drawn({"cpu": cpu}).values()
    lines = {str(line.get_label()): list(line.get_ydata()) for line in figure.axes[0].get_lines()}
    assert lines["one ResNet-18, three averaged, 30 epochs"] == pytest.approx([0.93, 0.94])
    assert lines["one ResNet-18, three averaged, 60 epochs"] == pytest.approx([0.945, 0.955])


def test_one_backend_has_a_line_a_policy(files: dict[str, Any]) -> None:
    rows = [one for one in files["cpu"]["rows"] if one["backend"] == "eager"]
    rows += [{**one, "policy": "margin"} for one in rows]
    assert list(latency_figure.lines(rows)) == [
        "R32, R32, R18, R18, independent, 60 and 30 epochs: selector",
        "R32, R32, R18, R18, independent, 60 and 30 epochs: margin + temperature",
    ]


def test_warm_started_large_networks_have_a_mark_of_their_own(files: dict[str, Any]) -> None:
    run = "cifar10-resnet32_resnet18-distil-s0-e60"
    both = [
        latency_text.with_kind({**network(0, "eager", run=run, training=training), "networks_of": run})
        for training in (DISTILLED, f"{DISTILLED} {WARM_STARTED}")
    ]
    (figure,) = latency_figure.drawn({"cpu": {**files["cpu"], "networks": both}}).values()
    labels = {str(line.get_label()) for line in figure.axes[0].get_lines()}
    assert {label for label in labels if "averaged" in label} == {
        "one ResNet-18, three averaged, 60 epochs",
        "one ResNet-18, three averaged, 60 epochs, warm-started",
    }
