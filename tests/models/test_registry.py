from __future__ import annotations

import pytest
import torch
from torch import nn

from irene.errors import OptionError
from irene.models import MemberSpec, backbones, build, register, registry
from irene.models.mlp import MLP


@pytest.fixture(autouse=True)
def own_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_ENTRIES", dict(registry._ENTRIES))


def make(backbone: str, shape: tuple[int, ...] = (3, 8, 8)) -> nn.Module:
    return build(MemberSpec(backbone=backbone, shape=shape, outputs=2), seed=0)


@pytest.mark.parametrize("name", list(backbones()))
def test_every_listed_backbone_can_be_built(name: str) -> None:
    assert make(name)(torch.zeros(2, 3, 8, 8)).shape == (2, 1, 2)


@pytest.mark.parametrize("name", list(backbones()))
def test_every_listed_backbone_has_widths(name: str) -> None:
    sizes = [sum(value.numel() for value in make(f"{name}{width}").parameters()) for width in ("x0.5", "", "x1.5")]
    assert sizes == sorted(set(sizes))
    assert make(f"{name}x0.5")(torch.zeros(2, 3, 8, 8)).shape == (2, 1, 2)


def test_descriptions_are_one_line() -> None:
    assert {"resnet18", "resnet32", "cnn", "mlp"} <= set(backbones())
    assert all(line and "\n" not in line for line in backbones().values())


def test_an_unknown_name_gets_near_matches_and_the_whole_list() -> None:
    with pytest.raises(OptionError) as caught:
        make("resnet19")
    message = str(caught.value)
    assert "'resnet19': did you mean" in message
    assert "resnet18" in message.split("?", maxsplit=1)[0]
    assert all(name in message for name in backbones())
    assert "timm/NAME" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", ["quite-other", "resnet19x0.5", "resnet18x", "resnet18x.5.5", "x2"])
def test_other_unknown_names(name: str) -> None:
    with pytest.raises(OptionError, match="no backbone is called"):
        make(name)


@pytest.mark.parametrize("name", ["resnet18", "cnn", "resnet32x0.5", "timm/resnet18"])
def test_image_backbones_refuse_tables(name: str) -> None:
    with pytest.raises(OptionError, match=r"takes images .*\(64,\): use 'mlp'"):
        make(name, (64,))


def test_a_registered_backbone_is_like_our_own() -> None:
    register("wide", lambda shape: nn.Sequential(nn.Flatten(), nn.Linear(shape[0], 9)), "nine wide")
    assert backbones()["wide"] == "nine wide"
    assert make("wide", (4,))(torch.zeros(2, 4)).shape == (2, 1, 2)
    with pytest.raises(OptionError, match="did you mean wide"):
        make("wid")
    with pytest.raises(OptionError, match=r"no backbone is called 'widex2'.* irene's own also with a width"):
        make("widex2", (4,))


def test_other_names_may_end_as_if_they_had_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("wide", "widex2"):
        register(name, lambda shape: nn.Sequential(nn.Flatten(), nn.Linear(shape[0], 9)), "nine wide")
    monkeypatch.setattr(registry, "mlpx2", MLP, raising=False)
    for name, width in (("widex2", 9), ("irene.models.registry:mlpx2", 128)):
        head = build(MemberSpec(backbone=name, shape=(4,), outputs=2), seed=0).head
        assert head.in_features == width


@pytest.mark.parametrize("name", list(backbones()))
def test_a_width_has_to_leave_some_channels(name: str) -> None:
    for width in ("0", "0.0", "0.0001"):
        with pytest.raises(OptionError, match="leaves no channels"):
            make(f"{name}x{width}")
    with pytest.raises(OptionError, match="no backbone is called"):
        make(f"{name}x-1")


@pytest.mark.parametrize("name", ["cnn", "", "a/b", "a:b", "two words", "resnet18x0.5"])
def test_register_refuses_names_that_mean_something_else(name: str) -> None:
    with pytest.raises(OptionError, match="name"):
        register(name, lambda shape: nn.Identity(), "no")
