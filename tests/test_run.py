"""A run directory: whole when it says so, and a clear word when it is not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from irene.bank import Bank
from irene.cascade import Cascade
from irene.errors import OptionError, RunError
from irene.fitting import fit_policy
from irene.halting.policies import Margin, Never
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.mixture import Mixture
from irene.models import Member, MemberSpec, build
from irene.run import Run
from irene.types import Cost

DATA = {"classes": ["a", "b", "c", "d"], "shape": [5]}
ABOUT = {"method": "average", "task": "classification", "seed": 3, "data": DATA}
COSTS = (Cost(flops=1.0), Cost(flops=2.0))


def make_members(outputs: int = 4) -> list[Member]:
    mean, std = torch.randn(5), torch.rand(5) + 0.5
    spec = MemberSpec(backbone="mlp", shape=(5,), outputs=outputs, heads=2)
    return [build(spec, seed=seed, mean=mean, std=std) for seed in range(2)]


def write_run(path: Path, policy: Policy, bank: Bank | None = None, *, gate: bool = False) -> Run:
    """A finished run of two small members."""
    run = Run.create(path, ABOUT)
    for member, cost in zip(make_members(), COSTS, strict=True):
        run.save_member(member, cost)
    run.save_policy(policy)
    if bank is not None:
        run.save_bank("test", bank)
    if gate:
        run.save_gate(build(MemberSpec(backbone="mlp", shape=(5,), outputs=2), seed=9), top=1, cost=Cost(flops=7.0))
    aggregation = Aggregation((1.0, 2.0), (1.5, 0.5))
    run.write(status="finished", aggregation=aggregation.to_dict(), figures={"test": {"accuracy": 0.5}})
    return run


@pytest.fixture
def run_path(tmp_path: Path, make_bank: Callable[..., Bank]) -> Path:
    path = tmp_path / "run"
    write_run(path, Selector(0.1), make_bank(9, members=2))
    return path


@pytest.mark.parametrize("policy", [Never(), Margin(0.3), Selector(0.1, hidden=4)])
def test_a_run_comes_back_as_it_was(tmp_path: Path, policy: Policy, make_bank: Callable[..., Bank]) -> None:
    torch.manual_seed(1)
    bank = make_bank(9, members=2)
    write_run(tmp_path / "run", policy, bank)
    torch.manual_seed(1)
    make_bank(9, members=2)
    expected = Cascade(make_members(), policy, aggregation=Aggregation((1.0, 2.0), (1.5, 0.5)), costs=COSTS)

    run = Run.open(tmp_path / "run")
    assert (run.method, run.task, run.finished) == ("average", "classification", True)
    assert run.costs == COSTS
    assert run.figures["test"]["accuracy"] == 0.5
    assert torch.equal(run.bank("test").outputs, bank.outputs)
    inputs = torch.randn(20, 5)
    for found in (run.cascade(), run.predictor()):
        prediction, wanted = found.predict(inputs), expected.predict(inputs)
        assert torch.equal(prediction.outputs, wanted.outputs)
        assert torch.equal(prediction.members_used, wanted.members_used)
        assert found.costs == COSTS
    assert not any(member.training for member in run.members())


def test_another_policy_may_be_given(run_path: Path) -> None:
    cascade = Run.open(run_path).cascade(policy=Never())
    assert cascade.predict(torch.randn(7, 5)).members_used.tolist() == [2] * 7


def test_a_policy_that_is_given_stays_where_it_is(run_path: Path) -> None:
    policy = Selector()
    cascade = Run.open(run_path).cascade(policy=policy)
    cascade.policy.to("meta")  # as another device would be
    assert {value.device.type for value in policy.state_dict().values()} == {"cpu"}


def test_a_run_is_shown_in_a_line(run_path: Path) -> None:
    run = Run.open(run_path)
    assert repr(run) == f"Run({str(run_path)!r}, {run.method}, classification, 2 members, finished)"


def test_a_mixture_comes_back_with_its_gate(tmp_path: Path) -> None:
    write_run(tmp_path / "run", Never(), gate=True)
    run = Run.open(tmp_path / "run")
    mixture = run.predictor()
    assert isinstance(mixture, Mixture)
    assert (mixture.top, mixture.costs) == (1, COSTS)
    assert mixture.predict(torch.randn(7, 5)).members_used.tolist() == [1] * 7
    with pytest.raises(RunError, match=r"has a gate.*and no order"):
        run.cascade()


def test_every_file_is_in_the_manifest_and_no_other_is_left(run_path: Path) -> None:
    manifest = json.loads((run_path / "run.json").read_text())
    named = [entry["file"] for entry in (*manifest["members"], manifest["policy"], *manifest["banks"].values())]
    found = sorted(str(path.relative_to(run_path)) for path in run_path.rglob("*") if path.is_file())
    assert found == sorted([*named, "run.json"])


def test_a_run_never_overwrites_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(RunError, match=r"exists already; give another folder \(--out\)$"):
        Run.create(tmp_path, ABOUT)
    with pytest.raises(RunError, match="exists already"):
        Run.create(tmp_path / "precious.txt", ABOUT)
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]
    (tmp_path / "empty").mkdir()
    assert Run.create(tmp_path / "empty", ABOUT).manifest["seed"] == 3


def test_an_unfinished_run_is_opened_only_on_purpose(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", ABOUT)
    with pytest.raises(RunError, match=r"interrupted; continue with `irene train .* --resume`"):
        Run.open(tmp_path / "run")
    assert not Run.open(tmp_path / "run", unfinished=True).finished


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"none: not a run, there is no run\.json"):
        Run.open(tmp_path / "none")
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="file: not a run"):
        Run.open(tmp_path / "file")
    (tmp_path / "odd" / "run.json").mkdir(parents=True)
    with pytest.raises(RunError, match=r"run\.json: "):
        Run.open(tmp_path / "odd")


@pytest.mark.parametrize("content", [b"", b'{"format": 1, "sta', b"\xff\xfe\x00", b"not json"])
def test_a_damaged_manifest_is_named(run_path: Path, content: bytes) -> None:
    (run_path / "run.json").write_bytes(content)
    with pytest.raises(RunError, match=r"run\.json: not readable as JSON \(.*\); restore it or train the run again"):
        Run.open(run_path)


@pytest.mark.parametrize(("content", "found"), [('{"format": 99}', "99"), ("{}", "None"), ("[]", "list")])
def test_a_manifest_of_another_format_is_named(run_path: Path, content: str, found: str) -> None:
    (run_path / "run.json").write_text(content)
    with pytest.raises(RunError, match=rf"run\.json: format 1 expected, got {found}; use the irene version"):
        Run.open(run_path)


FIELDS = ["status", "method", "task", "data", "members", "policy", "aggregation", "banks", "figures"]


@pytest.mark.parametrize("field", FIELDS)
def test_a_manifest_that_lacks_a_field_is_named(run_path: Path, field: str) -> None:
    manifest = json.loads((run_path / "run.json").read_text())
    del manifest[field]
    (run_path / "run.json").write_text(json.dumps(manifest))
    with pytest.raises(RunError, match=rf"run\.json: has no {field}; restore it or train the run again"):
        Run.open(run_path)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("task", None, "task must be a text, got null"),
        ("task", "regresion", "task must be one of classification, regression, got 'regresion'"),
        ("members", None, "members must be a list, got null"),
        ("members", [None], r"members\.0 must be an object, got null"),
        ("members", [{}], r"has no members\.0\.cost"),
        ("policy", None, "policy must be an object, got null"),
        ("policy", {"name": None, "options": {}}, r"policy\.name must be a text, got null"),
        ("aggregation", None, "aggregation must be an object, got null"),
        ("aggregation", {"weights": None}, r"aggregation\.weights must be a list, got null"),
        ("banks", [], r"banks must be an object, got \[\]"),
        ("data", None, "data must be an object, got null"),
        ("data", {"classes": [], "shape": None}, r"data\.shape must be a list, got null"),
        ("points", None, "points must be an object, got null"),
    ],
)
def test_a_manifest_with_a_field_of_another_kind_is_named(run_path: Path, field: str, value: Any, words: str) -> None:
    manifest = json.loads((run_path / "run.json").read_text())
    (run_path / "run.json").write_text(json.dumps({**manifest, field: value}))
    with pytest.raises(RunError, match=rf"run\.json: {words}; restore it or train the run again$"):
        Run.open(run_path)


USES: dict[str, Callable[[Run], Any]] = {
    "members/1.safetensors": lambda run: run.members(),
    "policy.safetensors": lambda run: run.policy(),
    "banks/test.safetensors": lambda run: run.bank("test"),
}


@pytest.mark.parametrize("file", USES)
def test_a_missing_file_is_named(run_path: Path, file: str) -> None:
    (run_path / file).unlink()
    with pytest.raises(RunError, match=rf"{file}: missing, though run\.json names it; restore it or train"):
        USES[file](Run.open(run_path))


@pytest.mark.parametrize("file", USES)
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty"])
def test_a_file_with_another_digest_is_named(run_path: Path, file: str, damage: str) -> None:
    content = bytearray((run_path / file).read_bytes())
    content[-1] ^= 1
    changed = {"flip": content, "truncate": content[:-10], "empty": b""}[damage]
    (run_path / file).write_bytes(changed)
    with pytest.raises(RunError, match=rf"{file}: damaged, its SHA-256 is not the one in run\.json"):
        USES[file](Run.open(run_path))


def test_tensors_that_do_not_fit_are_named(run_path: Path) -> None:
    """Files that were swapped together with their digests: whole, but not what the manifest describes."""
    run = Run.open(run_path)
    member, policy = run.manifest["members"][0], run.manifest["policy"]
    member["sha256"] = policy["sha256"]
    shutil.copy(run_path / policy["file"], run_path / member["file"])
    with pytest.raises(RunError, match=r"0\.safetensors: does not fit its member"):
        run.members()
    other = run.manifest["members"][1]
    policy |= {"file": other["file"], "sha256": other["sha256"]}
    with pytest.raises(RunError, match=r"1\.safetensors: does not fit its policy"):
        run.policy()


def test_the_banks_there_are_are_named(run_path: Path) -> None:
    with pytest.raises(RunError, match=r"no bank of the heldout split \(there are: test\)"):
        Run.open(run_path).bank("heldout")


def test_a_failed_write_leaves_the_last_manifest(run_path: Path) -> None:
    run = Run.open(run_path)
    before = (run_path / "run.json").read_text()
    with pytest.raises(TypeError):
        run.write(figures={"test": {1, 2}})
    assert (run_path / "run.json").read_text() == before
    assert Run.open(run_path).figures["test"]["accuracy"] == 0.5


def test_operating_points_live_in_the_run(run_path: Path, make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(200, members=2)
    run = Run.open(run_path)
    for name, cost in (("fast", 1.2), ("good", 1.8), ("fast", 1.5)):
        written = run.save_point(fit_policy(bank, "change", cost=cost, name=name))
    assert (written.name, written.version) == ("fast", 2)
    again = Run.open(run_path)
    assert again.points == ("fast", "good")
    assert again.point("fast").to_dict() == written.to_dict()
    assert again.point("good").version == 1
    inputs = torch.randn(30, 5)
    cascade = again.cascade(point="fast")
    expected = written.cascade(again.members(), COSTS)
    assert torch.equal(cascade.predict(inputs).outputs, expected.predict(inputs).outputs)
    assert torch.equal(cascade.predict(inputs).members_used, again.predictor(point="fast").predict(inputs).members_used)
    assert cascade.costs == COSTS


def test_points_of_other_members_are_refused(run_path: Path, make_bank: Callable[..., Bank]) -> None:
    run = Run.open(run_path)
    others = {
        "3 members where this run has 2 members": make_bank(200, members=3),
        "5 outputs where this run has 4 outputs": make_bank(200, members=2, outputs=5),
        "task regression where this run has task classification": make_bank(200, members=2, task="regression"),
    }
    for words, bank in others.items():
        point = fit_policy(bank, "margin" if bank.task == "classification" else "spread", cost=1.5)
        with pytest.raises(RunError, match=rf"the point calibrated is of other members, with {words}: calibrate on"):
            run.save_point(point)
    point = fit_policy(make_bank(200, members=2), "margin", cost=1.5)
    with pytest.raises(RunError, match="with 4 members where this run has 2"):
        run.save_point(replace(point, members=(3, 0), data={}))  # as a version that did not count them wrote it
    assert run.points == Run.open(run_path).points == ()


def test_a_point_by_a_policy_of_ones_own_is_refused(run_path: Path, make_bank: Callable[..., Bank]) -> None:
    class Gap(Margin):
        name = "gap"

    run = Run.open(run_path)
    with pytest.raises(OptionError, match="a file can hold irene's own policies only"):
        run.save_point(fit_policy(make_bank(200, members=2), Gap(), cost=1.3, name="mine"))
    assert Run.open(run_path).points == ()
    assert not (run_path / "points").exists()


def test_points_of_some_of_the_members_are_kept(tmp_path: Path, make_bank: Callable[..., Bank]) -> None:
    run = Run.create(tmp_path / "run", ABOUT)
    run.save_absent((Cost(),) * 3)
    run.save_policy(Never())
    run.write(status="finished", aggregation=Aggregation.equal(3).to_dict(), figures={})
    bank = make_bank(200, members=3)
    point = fit_policy(bank.members([2, 0]), "margin", cost=1.5)
    run.save_point(replace(point, members=(2, 0)))
    run.save_point(fit_policy(bank.members([2, 1, 0]).members([2, 1]), "margin", cost=1.5, name="first"))
    assert run.point("calibrated").members == (2, 0)
    with pytest.raises(RunError, match="with 2 members where this run has 3 members"):
        run.save_point(fit_policy(make_bank(200, members=2), "margin", cost=1.5))


def test_points_saved_by_two_who_opened_the_run_are_both_there(run_path: Path, make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(200, members=2)
    first, second = Run.open(run_path), Run.open(run_path)
    first.save_point(fit_policy(bank, "margin", cost=1.2, name="a"))
    second.save_point(fit_policy(bank, "margin", cost=1.5, name="b"))
    again = first.save_point(fit_policy(bank, "margin", cost=1.8, name="b"))
    assert again.version == 2, "the other one's is counted"
    assert Run.open(run_path).points == first.points == ("a", "b")
    assert second.points == ("a", "b")
    assert Run.open(run_path).point("b").asked["cost"] == 1.8


def test_a_command_is_noted_once_and_loses_no_point(run_path: Path, make_bank: Callable[..., Bank]) -> None:
    first, second = Run.open(run_path), Run.open(run_path)
    first.save_point(fit_policy(make_bank(200, members=2), "margin", cost=1.2, name="a"))
    second.note_command("irene train one")
    first.note_command("irene train another")
    now = Run.open(run_path)
    assert now.points == first.points == second.points == ("a",)
    assert {run.manifest["command"] for run in (now, first, second)} == {"irene train one"}


SAVE = """
import sys
from dataclasses import replace
from irene.halting.policies import Margin
from irene.halting.rule import Aggregation
from irene.runtime.recalibrate import as_trained
from irene.run import Run
run = Run.open(sys.argv[1])
for number in range(10):
    run.save_point(replace(as_trained(Margin(0.5), Aggregation.equal(2), run.task), name=f"{sys.argv[2]}-{number}"))
"""


def test_no_point_is_lost_where_processes_save_at_once(run_path: Path) -> None:
    processes = [
        subprocess.Popen([sys.executable, "-c", SAVE, str(run_path), name], stderr=subprocess.PIPE, text=True)
        for name in ("left", "right")
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    run = Run.open(run_path)
    assert set(run.points) == {f"{name}-{number}" for name in ("left", "right") for number in range(10)}
    for name in run.points:
        assert run.point(name).name == name
    assert not (run_path / "lock").exists()


def test_a_device_that_is_not_there_is_refused(run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    mixture = write_run(tmp_path / "mixture", Never(), gate=True)
    for use in (Run.open(run_path).cascade, Run.open(run_path).predictor, mixture.predictor):
        with pytest.raises(OptionError, match="device cuda was asked for and torch sees none here"):
            use("cuda")


def test_points_that_cannot_be_had_are_named(run_path: Path, make_bank: Callable[..., Bank]) -> None:
    run = Run.open(run_path)
    with pytest.raises(RunError, match=r"no operating point is called 'fast' \(there are: none\); make it with"):
        run.point("fast")
    point = fit_policy(make_bank(200, members=2), "margin", cost=1.5)
    for name in ("", "../up", "a/b", ".hidden", "with space"):
        with pytest.raises(OptionError, match="a point's name is letters"):
            run.save_point(replace(point, name=name))
    with pytest.raises(OptionError, match="'trained' stands for the policy the run was trained with"):
        run.save_point(replace(point, name="trained"))
    run.save_point(point)
    with pytest.raises(OptionError, match="give a policy or the operating point calibrated"):
        run.cascade(policy=Never(), point="calibrated")
    for file in ("points/calibrated.json", "points/calibrated.safetensors"):
        content = (run_path / file).read_bytes()
        (run_path / file).write_bytes(content + b" ")
        with pytest.raises(RunError, match=rf"{file}: damaged, .*; calibrate the point again"):
            run.point("calibrated")
        (run_path / file).write_bytes(content)
    assert run.point("calibrated").name == "calibrated"


def test_a_run_without_points_of_its_own_is_as_before(run_path: Path) -> None:
    manifest = json.loads((run_path / "run.json").read_text())
    del manifest["points"]
    (run_path / "run.json").write_text(json.dumps(manifest))
    assert Run.open(run_path).points == ()


def test_a_gate_leaves_no_room_for_a_point(tmp_path: Path) -> None:
    write_run(tmp_path / "run", Never(), gate=True)
    with pytest.raises(RunError, match=r"has a gate.*and no order"):
        Run.open(tmp_path / "run").predictor(point="fast")


def test_members_of_which_there_are_outputs_only_cannot_be_run(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", ABOUT)
    run.save_absent(COSTS)
    assert run.costs == COSTS
    for ask in (run.members, run.cascade, run.predictor):
        with pytest.raises(RunError, match="holds the outputs of its members and not the members"):
            ask()
