"""The loop learns, stops at NaN with the last good state, and never trains a finished stage again."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from irene.data.loader import Batch
from irene.data.samples import Data
from irene.errors import RunError, TrainingError
from irene.models import MemberSpec, build
from irene.training.checkpoint import Checkpoints
from irene.training.loop import Loop, derive_seed
from irene.training.objective import Objective, Supervised
from irene.training.options import LoopOptions, OptimizerOptions
from irene.training.recorder import Recorder
from irene.training.schedules import Schedule

MakeLoop = Callable[..., Loop]
CLASSES = Supervised("classification")


def make_member(data: Data, *, heads: int = 1, seed: int = 0) -> nn.Module:
    member = build(MemberSpec(backbone="mlp", shape=data.shape, outputs=data.outputs, heads=heads), seed=seed)
    if data.task == "regression":
        member.scale_outputs(data.train.targets.mean(0), data.train.targets.std(0))
    return member


def options(epochs: int = 3, lr: float = 0.05, **others: Any) -> LoopOptions:
    optimizer = others.pop("optimizer", OptimizerOptions(lr=lr))
    return LoopOptions(epochs=epochs, batch_size=32, optimizer=optimizer, **others)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def weights(model: nn.Module) -> list[Tensor]:
    return [value.clone() for value in model.state_dict().values()]


def same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    "optimizer",
    [
        OptimizerOptions(lr=0.05),
        OptimizerOptions(lr=0.05, momentum=0.0, schedule=Schedule(kind="multistep")),
        OptimizerOptions(kind="adam", lr=0.003, schedule=Schedule(kind="cosine")),
        OptimizerOptions(kind="adam", lr=0.003, schedule=Schedule(kind="constant")),
    ],
    ids=["sgd-onecycle", "sgd-multistep", "adam-cosine", "adam-constant"],
)
@pytest.mark.parametrize("heads", [1, 2])
def test_the_loss_goes_down(
    tmp_path: Path, make_loop: MakeLoop, blobs: Data, optimizer: OptimizerOptions, heads: int
) -> None:
    member = make_member(blobs, heads=heads)
    objective = Supervised("classification", discrepancy=0.01)
    make_loop(tmp_path).fit("m", member, objective, blobs.train, options(5, optimizer=optimizer))
    records = lines(tmp_path)
    assert records[-1]["base"] < 0.7 * records[0]["base"]
    assert ("discrepancy" in records[0]) == (heads == 2)
    assert records[0]["loss"] == pytest.approx(records[0]["base"] + records[0].get("discrepancy", 0.0))


def test_regression_learns_values_of_any_scale(tmp_path: Path, make_loop: MakeLoop, curve: Data) -> None:
    scale = curve.train.targets.std(0)
    member = make_member(curve)
    loop = options(20, optimizer=OptimizerOptions(kind="adam", lr=0.01))
    make_loop(tmp_path).fit("m", member, Supervised("regression", scale_K=scale), curve.train, loop)
    records = lines(tmp_path)
    assert records[0]["loss"] > 0.5
    assert records[-1]["loss"] < 0.2
    assert curve.test.inputs is not None
    error = (member(curve.test.inputs)[:, 0] - curve.test.targets) / scale
    assert (error.square().mean(0) < 0.6).all()  # both values, though one is 10,000 times as large


def test_every_epoch_is_one_line(tmp_path: Path, make_loop: MakeLoop, blobs: Data) -> None:
    make_loop(tmp_path).fit("first", make_member(blobs), CLASSES, blobs.train, options(3))
    make_loop(tmp_path).fit("second", make_member(blobs), CLASSES, blobs.train, options(2))
    records = lines(tmp_path)
    assert [(record["stage"], record["epoch"]) for record in records] == [
        ("first", 0),
        ("first", 1),
        ("first", 2),
        ("second", 0),
        ("second", 1),
    ]
    assert all(set(record) == {"stage", "epoch", "loss", "base", "seconds"} for record in records)
    assert all(record["seconds"] >= 0 for record in records)


class Watched(Objective):
    """The plain loss, with a look at what the loop does between the steps."""

    def __init__(self) -> None:
        self.modes: list[bool] = []
        self.outputs: list[Tensor] = []

    def begin_epoch(self, model: nn.Module, epoch: int) -> None:
        self.modes.append(model.training)

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        self.outputs.append(output.detach())
        return CLASSES.terms(batch, output)

    def figures(self) -> dict[str, float]:
        return {"steps": float(len(self.outputs)), "odd": math.nan}


def test_hooks_see_the_model_at_rest_and_their_figures_are_logged(
    tmp_path: Path, make_loop: MakeLoop, blobs: Data
) -> None:
    watched = Watched()
    member = make_member(blobs)
    make_loop(tmp_path).fit("m", member, watched, blobs.train, options(2))
    assert watched.modes == [False, False]
    assert not member.training
    steps = len(blobs.train) // 32
    assert [record["steps"] for record in lines(tmp_path)] == [steps, 2 * steps]
    assert [record["odd"] for record in lines(tmp_path)] == [None, None]  # JSON has no NaN


def test_one_step_is_the_optimisers_own(make_loop: MakeLoop, blobs: Data) -> None:
    """One batch, one epoch: the same as torch's SGD by hand, clipped and not."""
    assert blobs.train.inputs is not None
    for clip in (None, 0.01):
        optimizer = OptimizerOptions(lr=0.5, weight_decay=0.01, schedule=Schedule(kind="constant"))
        loop = LoopOptions(epochs=1, batch_size=len(blobs.train), optimizer=optimizer, clip=clip)
        trained, by_hand = make_member(blobs), make_member(blobs)
        make_loop().fit("m", trained, CLASSES, blobs.train, loop)
        loss = nn.functional.cross_entropy(by_hand(blobs.train.inputs)[:, 0], blobs.train.targets)
        gradients = torch.autograd.grad(loss, list(by_hand.parameters()))
        norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
        assert norm > 0.01
        factor = 1.0 if clip is None else clip / norm
        for mine, start, gradient in zip(trained.parameters(), by_hand.parameters(), gradients, strict=True):
            # The first step of Nesterov momentum goes 1 + 0.9 times the gradient, weight decay included.
            step = 0.5 * 1.9 * (factor * gradient + 0.01 * start)
            torch.testing.assert_close(mine, start - step, rtol=1e-4, atol=1e-6)


def test_the_rate_follows_the_schedule(make_loop: MakeLoop, blobs: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = []
    step = torch.optim.SGD.step

    def watched(self: torch.optim.SGD, *arguments: Any) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return step(self, *arguments)

    monkeypatch.setattr(torch.optim.SGD, "step", watched)
    schedule = Schedule(kind="onecycle", warmup=0.5)
    loop = options(2, optimizer=OptimizerOptions(lr=0.1, schedule=schedule))
    make_loop().fit("m", make_member(blobs), CLASSES, blobs.train, loop)
    steps = 2 * (len(blobs.train) // 32)
    assert rates == pytest.approx([0.1 * schedule.factor(index / steps) for index in range(steps)])


def test_bf16_keeps_the_weights_in_float32(make_loop: MakeLoop, blobs: Data) -> None:
    watched, member = Watched(), make_member(blobs)
    make_loop().fit("m", member, watched, blobs.train, options(1, precision="bf16"))
    exact = Watched()
    make_loop().fit("m", make_member(blobs), exact, blobs.train, options(1, precision="fp32"))
    assert not torch.equal(watched.outputs[0].float(), exact.outputs[0])
    assert {parameter.dtype for parameter in member.parameters()} == {torch.float32}


def test_a_trained_member_keeps_no_gradients(make_loop: MakeLoop, blobs: Data) -> None:
    member = make_member(blobs)
    make_loop().fit("m", member, CLASSES, blobs.train, options(1))
    assert [parameter.grad for parameter in member.parameters()] == [None] * len(list(member.parameters()))


def test_the_callers_draws_and_settings_go_on_as_if_nothing_had_been_trained(
    make_loop: MakeLoop, blobs: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reseeded(seed: int) -> NoReturn:
        raise AssertionError("generators of GPUs that nothing is trained on belong to the caller")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", reseeded)
    searches = torch.backends.cudnn.benchmark
    torch.default_generator.manual_seed(3)
    wanted = torch.rand(4)
    torch.default_generator.manual_seed(3)
    make_loop().fit("m", make_member(blobs), CLASSES, blobs.train, options(2))
    assert torch.equal(torch.rand(4), wanted)
    assert torch.backends.cudnn.benchmark == searches


def test_the_same_seed_gives_the_same_weights(make_loop: MakeLoop, blobs: Data) -> None:
    results = []
    for seed in (0, 0, 1):
        member = make_member(blobs)
        torch.rand(seed + 1)  # whatever the program drew before does not matter
        make_loop(seed=seed).fit("m", member, CLASSES, blobs.train, options())
        results.append(weights(member))
    assert same(results[0], results[1])
    assert not same(results[0], results[2])
    assert derive_seed(1, "m", 2) == derive_seed(1, "m", 2) != derive_seed(1, "m", 3)


class Exploding(Objective):
    """The plain loss until an epoch in which it is NaN."""

    def __init__(self, good: int) -> None:
        self.left = good + 1

    def begin_epoch(self, model: nn.Module, epoch: int) -> None:
        self.left -= 1

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        terms = CLASSES.terms(batch, output)
        return terms if self.left > 0 else {key: value * torch.nan for key, value in terms.items()}


@pytest.mark.parametrize("checkpoint_seconds", [0.0, 1e9])
def test_nan_stops_and_the_last_good_state_is_kept(
    tmp_path: Path, make_loop: MakeLoop, blobs: Data, checkpoint_seconds: float
) -> None:
    loop = make_loop(tmp_path, checkpoint_seconds=checkpoint_seconds)
    member = make_member(blobs)
    with pytest.raises(TrainingError, match=r"loss of m became nan in epoch 3: .*lower learning rate"):
        loop.fit("m", member, Exploding(good=2), blobs.train, options(5))
    assert not all(value.isfinite().all() for value in weights(member))
    assert [record["epoch"] for record in lines(tmp_path)] == [0, 1]

    kept = loop.checkpoints.running("m")
    assert kept is not None
    assert kept["epoch"] == 2
    assert all(value.isfinite().all() for value in kept["modules"][0].values())

    whole, again = make_member(blobs), make_member(blobs)
    make_loop().fit("m", whole, CLASSES, blobs.train, options(5))
    loop.fit("m", again, CLASSES, blobs.train, options(5))  # without the explosion it goes on from there
    assert same(weights(whole), weights(again))
    assert [record["epoch"] for record in lines(tmp_path)] == [0, 1, 2, 3, 4]


class ExplodingLast(Objective):
    """The plain loss, with a gradient that is infinite in the last step of an epoch."""

    def __init__(self, step: int) -> None:
        self.left = step

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        self.left -= 1
        if self.left == 0:
            output.register_hook(lambda gradient: gradient * torch.inf)
        return CLASSES.terms(batch, output)


@pytest.mark.parametrize("epochs", [3, 5])
def test_weights_lost_in_the_last_step_of_an_epoch_are_noticed_in_it(
    tmp_path: Path, make_loop: MakeLoop, blobs: Data, epochs: int
) -> None:
    loop, steps = make_loop(tmp_path), len(blobs.train) // 32
    with pytest.raises(TrainingError, match=r"size of the weights of m became nan in epoch 3: .*last good state"):
        loop.fit("m", make_member(blobs), ExplodingLast(3 * steps), blobs.train, options(epochs))
    kept = loop.checkpoints.running("m")
    assert kept is not None
    assert kept["epoch"] == 2
    assert all(value.isfinite().all() for value in kept["modules"][0].values())


def test_nan_in_the_first_epoch_leaves_no_state(tmp_path: Path, make_loop: MakeLoop, blobs: Data) -> None:
    loop = make_loop(tmp_path)
    with pytest.raises(TrainingError, match="epoch 1"):
        loop.fit("m", make_member(blobs), Exploding(good=0), blobs.train, options(5))
    assert loop.checkpoints.running("m") is None


def test_a_finished_stage_is_read_back_and_not_trained_again(tmp_path: Path, make_loop: MakeLoop, blobs: Data) -> None:
    loop, member = make_loop(tmp_path), make_member(blobs)
    loop.fit("m", member, CLASSES, blobs.train, options())
    before = (tmp_path / "metrics.jsonl").read_text()

    class Untouchable(Objective):
        def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
            raise AssertionError("a finished stage must not be trained")

    again = make_member(blobs, seed=5)
    make_loop(tmp_path).fit("m", again, Untouchable(), blobs.train, options())
    assert same(weights(member), weights(again))
    assert not again.training
    assert (tmp_path / "metrics.jsonl").read_text() == before
    assert loop.checkpoints.running("m") is None  # a finished stage needs no checkpoint


class Companion(Objective):
    """Trains a number beside the model, with a draw of chance a step, and counts steps in a tensor."""

    def __init__(self) -> None:
        self.companion = nn.Linear(1, 1, bias=False)
        nn.init.ones_(self.companion.weight)
        self.companion_optimizer = OptimizerOptions(kind="adam", lr=0.01, schedule=Schedule(kind="constant"))
        self.count = torch.zeros(())

    def terms(self, batch: Batch, output: Tensor) -> dict[str, Tensor]:
        self.count += 1
        return CLASSES.terms(batch, output) | {"companion": torch.rand(()) * self.companion.weight.square().sum()}

    def state(self) -> dict[str, Tensor]:
        return {"count": self.count}


class Interrupted(Exception):
    pass


def test_a_companion_and_the_state_of_its_objective_are_trained_saved_and_resumed(
    tmp_path: Path, make_loop: MakeLoop, blobs: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, beside = make_member(blobs), Companion()
    make_loop().fit("m", whole, beside, blobs.train, options(4))
    assert 0 < beside.companion.weight.item() < 1
    assert beside.count.item() == 4 * (len(blobs.train) // 32)

    save = Checkpoints.save

    def cut_off(self: Checkpoints, stage: str, state: dict[str, Any]) -> None:
        save(self, stage, state)
        if state["epoch"] == 2:
            raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", cut_off)
        with pytest.raises(Interrupted):
            make_loop(tmp_path).fit("m", make_member(blobs), Companion(), blobs.train, options(4))
    again, resumed = make_member(blobs, seed=3), Companion()
    make_loop(tmp_path).fit("m", again, resumed, blobs.train, options(4))
    assert same(weights(whole), weights(again))
    assert same(weights(beside.companion), weights(resumed.companion))
    assert resumed.count == beside.count
    assert [record["epoch"] for record in lines(tmp_path)] == [0, 1, 2, 3]

    third, read_back = make_member(blobs, seed=4), Companion()
    make_loop(tmp_path).fit("m", third, read_back, blobs.train, options(4))
    assert same(weights(beside.companion), weights(read_back.companion))
    assert read_back.count == beside.count


def test_damaged_checkpoints_are_named(tmp_path: Path, make_loop: MakeLoop, blobs: Data) -> None:
    loop = make_loop(tmp_path)
    with pytest.raises(TrainingError):
        loop.fit("m", make_member(blobs), Exploding(good=1), blobs.train, options(5))
    path = tmp_path / "stages" / "m.checkpoint.pt"
    content = path.read_bytes()
    for damaged in (b"", b"garbage", content[: len(content) // 2], content[:200] + b"xxxx" + content[204:]):
        path.write_bytes(damaged)
        with pytest.raises(RunError, match=r"m\.checkpoint\.pt: damaged; delete it and resume"):
            loop.fit("m", make_member(blobs), CLASSES, blobs.train, options(5))
    (tmp_path / "stages" / "m.safetensors").write_bytes(b"garbage")
    with pytest.raises(RunError, match=r"m\.safetensors: damaged .*delete it and resume"):
        loop.fit("m", make_member(blobs), CLASSES, blobs.train, options(5))


def test_checkpoints_of_another_training_are_named(tmp_path: Path, make_loop: MakeLoop, blobs: Data) -> None:
    """As another version of irene may have left them: whole files with other things in them."""
    loop = make_loop(tmp_path)
    with pytest.raises(TrainingError):
        loop.fit("m", make_member(blobs), Exploding(good=1), blobs.train, options(5))
    path = tmp_path / "stages" / "m.checkpoint.pt"
    whole = torch.load(path, weights_only=True)
    fewer = {key: value for key, value in whole.items() if key != "optimizers"}
    narrow = {key: value[:1] if value.ndim else value for key, value in whole["modules"][0].items()}
    for other in (fewer, {**whole, "modules": [narrow]}, {**whole, "modules": []}, [1, 2]):
        torch.save(other, path)
        with pytest.raises(RunError, match=r"m\.checkpoint\.pt: does not fit this training .*delete it and resume"):
            loop.fit("m", make_member(blobs), CLASSES, blobs.train, options(5))
    save_file({"model.other": torch.zeros(2)}, tmp_path / "stages" / "m.safetensors")
    with pytest.raises(RunError, match=r"m\.safetensors: does not fit this training .*delete it and resume") as caught:
        loop.fit("m", make_member(blobs), CLASSES, blobs.train, options(5))
    assert "\n" not in str(caught.value)


def test_lines_of_epochs_that_are_trained_again_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    recorder = Recorder(path)
    for stage, epoch in (("a", 0), ("a", 1), ("b", 0), ("b", 1)):
        recorder.write({"stage": stage, "epoch": epoch})
    with path.open("a") as file:
        file.write('3\n{"stage": "b", "epoch": null}\n')  # no records of epochs
        file.write('{"stage": "b", "epo')  # cut off by a kill
    path.write_bytes(path.read_bytes() + b"\xff")
    recorder.drop_after("b", 1)
    assert [(record["stage"], record["epoch"]) for record in lines(tmp_path)] == [("a", 0), ("a", 1), ("b", 0)]
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_tensorboard_gets_every_figure(tmp_path: Path, blobs: Data) -> None:
    recorder = Recorder(tensorboard=tmp_path / "tb")
    loop = Loop(device=torch.device("cpu"), seed=0, recorder=recorder, checkpoints=Checkpoints(None))
    loop.fit("m", make_member(blobs), CLASSES, blobs.train, options(2))
    recorder.close()
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "tb"))
    events.Reload()
    assert set(events.Tags()["scalars"]) == {"m/loss", "m/base", "m/seconds"}
    assert [event.step for event in events.Scalars("m/loss")] == [0, 1]
