from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from irene.errors import MissingExtraError, OptionError
from irene.models import Member, MemberSpec, build
from irene.models.external import adapt

SHAPE = (3, 6, 6)


class WithFeatures(nn.Module):
    """Its own forward is a classifier; irene is to use features()."""

    num_features = 3

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)
        self.classifier = nn.Linear(3, 1000)

    def features(self, x: Tensor) -> Tensor:
        return torch.mean(self.norm(x), dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


def flat(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], 5))


def not_a_module(shape: tuple[int, ...]) -> int:
    return 3


def without_shape() -> nn.Module:
    return flat(SHAPE)


def failing(shape: tuple[int, ...]) -> nn.Module:
    raise KeyError("width\nand more")


def without_words(shape: tuple[int, ...]) -> nn.Module:
    raise AssertionError


class Namespace:
    flat = staticmethod(flat)


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, "my_backbones", sys.modules[__name__])
    return "my_backbones"


def make(backbone: str) -> Member:
    return build(MemberSpec(backbone=backbone, shape=SHAPE, outputs=2), seed=0)


@pytest.mark.parametrize("function", ["flat", "Namespace.flat"])
def test_import_path(path: str, function: str) -> None:
    member = make(f"{path}:{function}")
    assert member(torch.zeros(4, *SHAPE, dtype=torch.uint8)).shape == (4, 1, 2)
    assert torch.equal(member.head.weight, make(f"{path}:{function}").head.weight)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("absent", "has no function 'absent'"),
        ("", "has no function ''"),
        ("SHAPE", "has no function 'SHAPE'"),
        ("not_a_module", "must make a torch.nn.Module, got int"),
    ],
)
def test_import_path_without_a_factory(path: str, function: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make(f"{path}:{function}")


@pytest.mark.parametrize(
    ("function", "raised"),
    [
        ("without_shape", r"TypeError: without_shape\(\) takes 0 positional arguments but 1 was given"),
        ("failing", r"KeyError: 'width.*"),
        ("without_words", "AssertionError"),
    ],
)
def test_what_a_function_raises_is_told_with_its_backbone(path: str, function: str, raised: str) -> None:
    made = r"its function must make a module from the shape of a sample, \(3, 6, 6\), and raised"
    with pytest.raises(OptionError, match=rf"^backbone '{path}:{function}': {made} {raised}$"):
        make(f"{path}:{function}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty current folder, which is not on Python's path, as for the installed command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if Path(place).resolve() != tmp_path])
    modules = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - modules:
        if name.startswith("my_"):
            del sys.modules[name]


NET = "from torch import nn\n\ndef net(shape):\n    return nn.Sequential(nn.Flatten(), nn.Linear(108, %d))\n"


def test_a_module_in_the_current_folder_is_found_after_those_on_the_path(folder: Path) -> None:
    (folder / "my_net.py").write_text(NET % 5)
    assert make("my_net:net").head.in_features == 5
    (folder / "elsewhere").mkdir()
    (folder / "my_other.py").write_text(NET % 5)
    (folder / "elsewhere" / "my_other.py").write_text(NET % 6)
    sys.path.insert(0, str(folder / "elsewhere"))
    assert make("my_other:net").head.in_features == 6


def test_the_current_folder_is_looked_into_only_for_a_module(folder: Path) -> None:
    make("cnn")
    assert "" not in sys.path


@pytest.mark.parametrize("words", ["import no_such_package", "x = nope", "x ="])
def test_a_module_that_cannot_be_imported_is_told(folder: Path, words: str) -> None:
    (folder / "my_broken.py").write_text(words)
    with pytest.raises(OptionError, match=r"^backbone 'my_broken:net': cannot import 'my_broken' \(\w+Error: .+\): "):
        make("my_broken:net")


@pytest.mark.parametrize("module", ["no_such_module_anywhere", "", ".part", "irene.no_such_part"])
def test_import_path_without_a_module(module: str) -> None:
    with pytest.raises(OptionError, match="cannot import"):
        make(f"{module}:flat")


def test_a_features_method_is_preferred() -> None:
    module = WithFeatures()
    backbone, width = adapt(module, "mine", SHAPE)
    x = torch.randn(4, *SHAPE, generator=torch.Generator().manual_seed(0))
    assert width == 3
    assert torch.equal(backbone.eval()(x), module.features(x))


def test_trying_a_backbone_leaves_no_trace() -> None:
    module = WithFeatures().train()
    module.norm.eval()
    state = {name: value.clone() for name, value in module.state_dict().items()}
    adapt(module, "mine", SHAPE)
    assert module.training
    assert not module.norm.training
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())


def test_a_features_part_is_not_a_features_method() -> None:
    module = nn.Sequential()
    module.add_module("features", nn.Flatten())
    backbone, width = adapt(module, "mine", SHAPE)
    assert backbone is module
    assert width == 3 * 6 * 6


def test_unusable_modules_are_explained() -> None:
    with pytest.raises(OptionError, match=r"must return features .* got shape \(1, 3, 6, 6\)"):
        adapt(nn.Identity(), "mine", SHAPE)
    with pytest.raises(OptionError, match=r"cannot take inputs of shape \(3, 6, 6\)"):
        adapt(nn.Linear(5, 5), "mine", SHAPE)
    lying = nn.Flatten()
    lying.num_features = 7
    with pytest.raises(OptionError, match="num_features = 7 but returns features of width 108"):
        adapt(lying, "mine", SHAPE)


def test_timm_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(MissingExtraError, match=r"timm is not installed: .*\[timm\]"):
        make("timm/resnet18")


class FakeTimm:
    """The part of timm's interface that irene uses."""

    def __init__(self, *, fixed: bool) -> None:
        self.fixed = fixed
        self.asked: dict[str, Any] = {}

    def is_model(self, name: str) -> bool:
        return name in self.list_models()

    def list_models(self) -> list[str]:
        return ["resnet18", "vit_tiny"]

    def get_pretrained_cfg(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(fixed_input_size=self.fixed)

    def create_model(self, name: str, **options: Any) -> nn.Module:
        self.asked = options
        module = flat(SHAPE)
        module.num_features = 99  # before timm's own pre-classifier layers
        return module


@pytest.mark.parametrize("fixed", [True, False])
def test_timm_is_asked_for_an_untrained_model_of_the_shape(monkeypatch: pytest.MonkeyPatch, fixed: bool) -> None:
    timm = FakeTimm(fixed=fixed)
    monkeypatch.setitem(sys.modules, "timm", timm)
    assert make("timm/vit_tiny").head.in_features == 5
    expected: dict[str, Any] = {"pretrained": False, "num_classes": 0, "in_chans": 3}
    assert timm.asked == (expected | {"img_size": (6, 6)} if fixed else expected)


def test_an_unknown_timm_model_gets_near_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", FakeTimm(fixed=False))
    with pytest.raises(OptionError, match="timm has no model 'resnet19': did you mean resnet18"):
        make("timm/resnet19")
