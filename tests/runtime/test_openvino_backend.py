"""OpenVINO gives a member's answers, in float to rounding and in int8 nearly, and reports to nobody."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from irene.errors import MissingExtraError, OptionError
from irene.runtime.backend import backend_class
from irene.runtime.openvino_backend import OpenVino
from irene.runtime.telemetry import import_quietly

from .conftest import make_member, needs_nncf, needs_openvino, pictures


@needs_openvino
@pytest.mark.parametrize("backbone", ["cnn", "resnet8", "vgg8"])
def test_float_answers_are_the_member_s(backbone: str) -> None:
    member, images = make_member(backbone), pictures(7)
    backend = backend_class("openvino").load(member, images[:1])
    assert (backend.name, backend.precision, backend.device) == ("openvino", "fp32", torch.device("cpu"))
    first = backend.run(images)
    kept = first.clone()
    for size in (1, 2, 7):
        torch.testing.assert_close(backend.run(images[:size]), member(images[:size]).detach(), rtol=1e-5, atol=1e-5)
    backend.run(pictures(7))
    assert torch.equal(first, kept)


@needs_openvino
@needs_nncf
def test_int8_is_near(tmp_path: Path) -> None:
    member, images = make_member("resnet8"), pictures(64)
    backend = OpenVino.load(member, images, precision="int8")
    wanted = member(images).detach()
    assert backend.precision == "int8"
    assert float((backend.run(images) - wanted).abs().mean()) < 0.05 * float(wanted.std())
    backend.save(tmp_path / "member.xml")
    text = (tmp_path / "member.xml").read_text()
    assert 'type="FakeQuantize"' in text
    assert 'element_type="i8"' in text  # weights are kept in 8 bits


@needs_openvino
def test_what_it_cannot_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    backend = OpenVino.load(make_member("cnn"), pictures(1))
    with pytest.raises(OptionError, match="OpenVINO cannot read this member"):
        OpenVino.open(tmp_path / "bad.onnx", backend.signature)


@needs_openvino
def test_members_share_one_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    OpenVino.load(make_member("cnn"), pictures(1))
    monkeypatch.setattr(import_quietly("openvino"), "Core", lambda: pytest.fail("there is a second runtime"))
    member, images = make_member("cnn"), pictures(3)
    torch.testing.assert_close(OpenVino.load(member, images[:1]).run(images), member(images).detach())


@needs_openvino
@needs_nncf
def test_its_extra_brings_all_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    brought = {re.split(r"[^\w-]", line)[0] for line in project["optional-dependencies"]["openvino"]}
    for package in {"nncf", "onnx", "onnxruntime", "onnxscript", "openvino"} - brought:
        monkeypatch.setitem(sys.modules, package, None)
    for precision in OpenVino.precisions:
        assert OpenVino.load(make_member("cnn"), pictures(16), precision=precision).precision == precision


@needs_openvino
@needs_nncf
def test_nothing_is_reported() -> None:
    code = (
        "import sys, irene.runtime.telemetry as t\n"
        "for name in ('openvino', 'nncf'): t.import_quietly(name)\n"
        "assert not [name for name in sys.modules if name.startswith('openvino_telemetry')]\n"
        "from openvino.tools.ovc.telemetry_utils import tm\n"
        "assert tm.__name__.endswith('telemetry_stub')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr


def test_without_openvino_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(MissingExtraError, match=r"openvino is not installed: .*irene-ensemble\[openvino\]"):
        import_quietly("openvino")
    assert "openvino_telemetry" not in sys.modules
