"""What a run of the study leaves: banks of corrupted images, and tars that hold all but the weights."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import train as study
from jobs import Job
from names import file_name
from training.corruptions import NAMES, corrupt
from training.packing import pack
from training.tars import write_tars

from irene.bank import Bank
from irene.data import Data, load
from irene.files import locked
from irene.run import Run
from irene.training.options import LoopOptions, OptimizerOptions

JOB = Job(
    dataset="digits",
    backbones=("mlp", "mlp"),
    method="average",
    seed=0,
    loop=LoopOptions(epochs=2, batch_size=64, optimizer=OptimizerOptions(kind="adam", lr=1e-3)),
)
NOISY = Job(dataset="digits+noise20", backbones=("mlp", "mlp"), method="average", seed=0, loop=JOB.loop)


@pytest.fixture(scope="module")
def digits() -> Data:
    return load("digits")


@pytest.fixture(scope="module")
def run(digits: Data, tmp_path_factory: pytest.TempPathFactory) -> Run:
    done = study.do(JOB, digits, tmp_path_factory.mktemp("runs"))
    study.add_corrupted(done, JOB, digits, len(digits.test))
    return done


def unpacked(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {entry.name: file.read() for entry in tar if (file := tar.extractfile(entry))}


def test_corrupted_banks_are_the_members_on_corrupted_images(run: Run, digits: Data) -> None:
    assert digits.test.inputs is not None
    test = run.bank("test")
    for name, (kind, level) in NAMES.items():
        bank = run.bank(name)
        images = corrupt(digits.test.inputs, kind, level)
        with torch.no_grad():
            expected = torch.stack([member(images) for member in run.members()], 1)
        torch.testing.assert_close(bank.outputs.reshape(expected.shape), expected, rtol=0, atol=1e-4)
        assert torch.equal(bank.targets, test.targets)
        assert torch.equal(bank.ids, test.ids)
        assert bank.costs == test.costs
        assert not torch.equal(bank.outputs, test.outputs)


def test_fewer_images_are_of_all_classes_and_the_same_in_every_run(run: Run, digits: Data, tmp_path: Path) -> None:
    banks = []
    for seed in (1, 2):
        job = Job(dataset="digits", backbones=("mlp",), method="average", seed=seed, loop=JOB.loop)
        other = study.do(job, digits, tmp_path)
        study.add_corrupted(other, job, digits, 50)
        banks += [other.bank("noise-1"), other.bank("contrast-5")]
    for bank in banks:
        assert len(bank) == 50
        assert torch.equal(bank.ids, banks[0].ids)
        assert torch.bincount(bank.targets, minlength=10).min() >= 4


def test_what_is_there_already_is_not_computed_again(
    run: Run, digits: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("corrupted again")

    monkeypatch.setattr(study, "corrupt", never)
    again = Run.open(run.path)
    study.add_corrupted(again, JOB, digits, len(digits.test))
    with pytest.raises(AssertionError, match="corrupted again"):
        study.add_corrupted(again, JOB, digits, 50)


def test_small_members_look_again_at_mirrored_images(digits: Data, tmp_path: Path) -> None:
    unequal = Job(dataset="digits", backbones=("cnnx0.5", "cnnx0.75", "cnn"), method="average", seed=0, loop=JOB.loop)
    done = study.do(unequal, digits, tmp_path)
    study.add_mirrored(done, unequal, digits)
    for split, samples in (("heldout", digits.train), ("test", digits.test)):
        bank, again = done.bank(split), done.bank(f"{split}-mirrored")
        assert torch.equal(again.ids, bank.ids)
        assert torch.equal(again.targets, bank.targets)
        assert again.costs == bank.costs[:2], "the largest does not look again"
        assert samples.inputs is not None
        images = torch.stack([samples.inputs[samples.ids == number][0] for number in bank.ids[:50]])
        for t, member in enumerate(done.cascade().members[:2]):
            with torch.inference_mode():
                expected = member(images.flip(-1))
            torch.testing.assert_close(again.outputs[:50, t], expected.reshape(again.outputs[:50, t].shape))
    before = done.bank("test-mirrored")
    study.add_mirrored(Run.open(done.path), unequal, digits)
    assert torch.equal(Run.open(done.path).bank("test-mirrored").outputs, before.outputs)


def test_teachers_come_from_the_run_that_a_job_names(digits: Data, tmp_path: Path) -> None:
    first = Job(dataset="digits", backbones=("mlp", "cnn"), method="distil", seed=0, loop=JOB.loop)
    there = study.do(first, digits, tmp_path)
    later = study.do(replace(first, backbones=("mlpx0.5", "cnn"), teachers=first.name), digits, tmp_path)
    assert list(later.epochs()) == ["taught"]
    assert torch.equal(later.bank("test").outputs[:, 1], there.bank("test").outputs[:, 1])


def test_a_run_is_packed_without_weights_and_in_half_precision(run: Run, tmp_path: Path) -> None:
    paths = pack(run, tmp_path)
    name = run.path.name
    assert [path.name for path in paths] == [f"{name}.tar.gz", f"{name}.corrupted.tar.gz"]
    clean, corrupted = (unpacked(path) for path in paths)
    assert set(clean) == {
        f"{name}/{file}"
        for file in ("run.json", "metrics.jsonl", "banks/heldout.safetensors", "banks/test.safetensors")
    }
    assert json.loads(clean[f"{name}/run.json"]) == run.manifest
    assert set(corrupted) == {f"{name}/banks/{split}.safetensors" for split in NAMES}
    for split, files in (("test", clean), ("blur-3", corrupted)):
        (tmp_path / "bank").write_bytes(files[f"{name}/banks/{split}.safetensors"])
        bank = Bank.load(tmp_path / "bank")
        assert torch.equal(bank.outputs, run.bank(split).outputs.half().float())
        assert torch.equal(bank.targets, run.bank(split).targets)


def test_tars_are_cut_where_they_would_be_too_large(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    files = {f"run/{i}": random.bytes(size) for i, size in enumerate((3000, 3000, 3000, 100, 7000, 0))}
    paths = write_tars(tmp_path / "name.corrupted", files.items(), limit=8000)
    assert [path.name for path in paths] == [f"name.corrupted.{end}" for end in ("tar.gz", "2.tar.gz", "3.tar.gz")]
    assert all(path.stat().st_size <= 8000 for path in paths)
    found = [unpacked(path) for path in paths]
    assert [list(part) for part in found] == [["run/0", "run/1"], ["run/2", "run/3"], ["run/4", "run/5"]]
    assert {name: content for part in found for name, content in part.items()} == files
    with pytest.raises(SystemExit, match="run/big alone takes"):
        write_tars(tmp_path / "other", [("run/big", random.bytes(9000))], limit=8000)


def test_nothing_to_pack_is_no_tar(tmp_path: Path) -> None:
    assert write_tars(tmp_path / "name", []) == []


def test_the_command_trains_corrupts_and_packs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "JOBS", {"tiny": [NOISY]})
    folders = {name: str(tmp_path / name) for name in ("data", "runs", "pack")}
    flags = [part for name, folder in folders.items() for part in (f"--{name}", folder)]
    monkeypatch.setattr(sys, "argv", ["train.py", "--jobs", "tiny", *flags, "--corrupt", "50"])
    study.main()
    assert json.loads(capsys.readouterr().out)["job"] == NOISY.name
    packed = sorted(path.name for path in (tmp_path / "pack").iterdir())
    assert packed == ["digits-noise20-mlp-average-s0-e2.corrupted.tar.gz", "digits-noise20-mlp-average-s0-e2.tar.gz"]
    files = unpacked(tmp_path / "pack" / packed[1])
    manifest = json.loads(files["digits-noise20-mlp-average-s0-e2/run.json"])
    assert manifest["data"]["data"] == "digits+noise20"


def test_a_job_that_another_process_has_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "JOBS", {"tiny": [NOISY]})
    monkeypatch.setattr(
        sys, "argv", ["train.py", "--jobs", "tiny", "--data", str(tmp_path / "data"), "--runs", str(tmp_path)]
    )
    with locked(tmp_path / f"{file_name(NOISY.name)}.lock"):
        study.main()
        assert capsys.readouterr().out == ""
        assert not (tmp_path / file_name(NOISY.name)).exists()


def test_what_the_results_know_is_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "results.json").write_text(json.dumps({"time": {"card_s": 1.0, "runs": [file_name(NOISY.name)]}}))
    monkeypatch.setattr(study, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(study, "JOBS", {"tiny": [NOISY, JOB]})
    folders = ["--data", str(tmp_path / "data"), "--runs", str(tmp_path / "runs")]
    monkeypatch.setattr(sys, "argv", ["train.py", "--jobs", "tiny", *folders, "--missing"])
    study.main()
    assert json.loads(capsys.readouterr().out)["job"] == JOB.name


def test_every_run_behind_the_committed_results_has_a_job_but_one() -> None:
    jobs = {file_name(job.name) for some in study.JOBS.values() for job in some}
    assert study.known_runs() - jobs == {"cifar10-resnet32_resnet18-irene-half-flops-s0-e30"}  # of 60 epochs since


@pytest.mark.parametrize(("only", "code"), [("no-such-job", 0), ("cifar10-resnet18-average-s0-e30", 1)])
def test_several_processes_end_with_the_worst_of_their_codes(tmp_path: Path, only: str, code: int) -> None:
    folders = ["--data", str(tmp_path / "nothing"), "--runs", str(tmp_path / "runs")]
    command = [sys.executable, study.__file__, "--jobs", "members", *folders, "--only", only, "--processes", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
