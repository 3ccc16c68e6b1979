"""What every verb has in common: help, exit codes, one line for a mistake, one object for --json."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
import typer.main

from irene.cli.app import app
from irene.data import names
from irene.evaluation.studies import STUDIES
from irene.halting.features import FEATURES
from irene.halting.registry import POLICIES
from irene.runtime.backend import BACKENDS
from irene.runtime.export.folder import FORMATS
from irene.training.methods import METHODS
from irene.training.methods.irene import Part
from irene.training.schedules import ScheduleKind

VERBS = (
    *("demo", "train", "tune", "evaluate", "calibrate", "points", "drift", "predict", "report"),
    *("import", "bank", "data", "methods", "doctor", "compare", "study", "bench", "export"),
)
Irene = Callable[..., Any]


def parameters(verb: str) -> list[Any]:
    """The options and arguments of a verb."""
    command: Any = typer.main.get_command(app)
    found: list[Any] = command.commands[verb].params
    return found


def test_help_names_every_verb(irene: Irene) -> None:
    for arguments in ((), ("--help",), ("-h",)):
        done = irene(*arguments)
        assert done.code == 0
        assert all(verb in done.out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example_and_json(irene: Irene, verb: str) -> None:
    done = irene(verb, "--help")
    assert done.code == 0
    assert f"Example: irene {verb}" in done.out
    assert "--json" in done.out


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_and_argument_is_explained(verb: str) -> None:
    assert [one.name for one in parameters(verb) if not one.help] == []


@pytest.mark.parametrize(
    ("verb", "names"),
    [
        ("train", METHODS),
        ("train", get_args(Part)),
        ("train", [name for features in FEATURES.values() for name in features]),
        ("train", get_args(ScheduleKind)),
        ("study", STUDIES),
        ("calibrate", set(POLICIES) - {"never", "random"}),
        ("predict", BACKENDS),
        ("export", FORMATS),
        ("evaluate", [name for name, _ in names()]),
    ],
    ids=["methods", "parts", "features", "schedules", "studies", "policies", "backends", "formats", "data"],
)
def test_help_names_what_there_is(verb: str, names: Iterable[str]) -> None:
    words = {word for one in parameters(verb) for word in re.findall(r"[\w:-]+", f"{one.metavar} {one.help}")}
    assert set(names) - words == set()


def test_help_fills_the_lines_of_a_narrow_screen(irene: Irene) -> None:
    about = irene("predict", "--help").out.split("With --out,")[1].split("╭")[0]
    lines = [line.strip() for line in about.strip().splitlines()]
    assert len(lines) > 1
    assert min(map(len, lines[:-1])) > 50


def test_help_does_not_wait_for_torch() -> None:
    code = "import sys; from irene.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_version(irene: Irene) -> None:
    done = irene("--version")
    assert (done.code, done.out.split()[0]) == (0, "irene")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("trian",), "No such command 'trian'"),
        (("train", "--nonsense"), "No such option: --nonsense"),
        (("train",), "Missing argument"),
        (("train", "average", "--epochs", "many"), "--epochs"),
        (("predict", "run", "file", "--batch-size", "0"), "--batch-size"),
    ],
)
def test_a_wrong_command_line_is_one_line(irene: Irene, arguments: tuple[str, ...], words: str) -> None:
    mistake = irene(*arguments).mistake
    assert words in mistake
    assert "--help" in mistake


def _raise(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_an_unexpected_error_is_one_line_with_a_hint(irene: Irene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irene.cli.doctor.examine", _raise(RuntimeError("first\nsecond")))
    monkeypatch.delenv("IRENE_DEBUG", raising=False)
    done = irene("doctor")
    assert done.code == 1
    assert done.err.splitlines() == [
        "irene: unexpected RuntimeError: first second (run again with IRENE_DEBUG=1 to see where)"
    ]
    monkeypatch.setenv("IRENE_DEBUG", "1")
    assert "Traceback" in irene("doctor").err


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore"), "CUDA out of memory. Tried to"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), "DefaultCPUAllocator: can't allocate"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_too_little_memory_is_told_with_what_takes_less(
    irene: Irene, monkeypatch: pytest.MonkeyPatch, error: Exception, why: str
) -> None:
    monkeypatch.setattr("irene.cli.doctor.examine", _raise(error))
    mistake = irene("doctor").mistake
    assert mistake.startswith(f"out of memory ({why}")
    assert mistake.endswith("): take smaller batches, or fewer or smaller members")


def test_a_file_that_cannot_be_written_is_a_users_mistake(irene: Irene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irene.cli.doctor.examine", _raise(PermissionError(13, "Permission denied", "/there")))
    assert irene("doctor").mistake == "/there: Permission denied"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk to be full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_is_no_mistake_of_ours(unbuffered: str) -> None:
    call = [sys.executable, "-m", "irene", "methods"]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "w") as full:
        done = subprocess.run(call, check=False, stdout=full, stderr=subprocess.PIPE, text=True, env=env)
    told = "irene: No space left on device: make room, then repeat the command\n"
    assert (done.returncode, done.stderr) == (2, told)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_training_that_a_full_disk_ends_can_be_resumed(
    irene: Irene, workplace: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr("irene.training.recorder.Recorder.write", _raise(OSError(code, os.strerror(code), "/there")))
    flags = ("train", "single", "--data", "digits", "--epochs", "1", "--out", "run")
    for words, remedy in (
        (flags, "make room, then repeat the command with --resume and the --out of the run, to go on"),
        ((*flags, "--resume"), "make room, then repeat the command"),
    ):
        done = irene(*words)
        assert done.code == 2
        assert done.err.splitlines()[-1] == f"irene: /there: {os.strerror(code)}: {remedy}"


def test_control_c_is_clean(irene: Irene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("irene.cli.doctor.examine", _raise(KeyboardInterrupt()))
    done = irene("doctor")
    assert (done.code, done.out, done.err.strip()) == (130, "", "irene: interrupted")


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    """As in `irene data | head -0`."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "irene", "data"], check=False, stdout=write, stderr=subprocess.PIPE, text=True
    )
    os.close(write)
    assert done.stderr == ""


def test_only_the_first_process_speaks(irene: Irene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert irene("methods").out == ""
    assert irene("methods", "--json").out == ""
    failed = irene("evaluate", "/nowhere")
    assert (failed.code, failed.err) == (2, "")


def test_what_libraries_print_does_not_spoil_the_result(irene: Irene, monkeypatch: pytest.MonkeyPatch) -> None:
    def noisy() -> dict[str, Any]:
        print("a library has something to say")
        return {"ratio": float("nan")}

    monkeypatch.setattr("irene.cli.doctor.examine", noisy)
    monkeypatch.setattr("irene.cli.doctor._lines", lambda found: [])
    done = irene("doctor", "--json")
    assert done.json == {"ratio": None}
    assert "a library has something to say" in done.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [("irene tra", "train"), ("irene train sing", "single"), ("irene train average --data dig", "digits")],
)
def test_shells_complete_verbs_methods_and_data(words: str, expected: str) -> None:
    environment = {
        **os.environ,
        "_IRENE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run([sys.executable, "-m", "irene"], check=False, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == [expected]


def test_torchrun_trains_one_run_and_prints_one_object(files: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command += ["-m", "irene", "train", "single", "--data", f"npz:{files / 'points.npz'}", "--epochs", "1", "--json"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith('{"run": "runs/single-points-seed0"')
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["single-points-seed0"]
