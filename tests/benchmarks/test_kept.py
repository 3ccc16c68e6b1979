"""What was found is not computed twice, and what a run or the user changed is computed anew."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

import pytest
from replay import kept
from replay.kept import Kept
from replay.packed import Packed, Study

from irene.bank import Bank
from irene.run import Run

asked: list[str] = []


def doubled(name: str) -> tuple[str, float]:
    asked.append(name)
    if name == "broken":
        raise RuntimeError("no such thing")
    return name + name, float("nan")


def seeds(study: Study, name: str) -> dict[str, object]:
    asked.append(name)
    return {"seeds": [run.seed for run in study.runs]}


@pytest.fixture
def pool() -> Iterator[Executor]:
    asked.clear()
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_what_is_known_is_not_computed_again(tmp_path: Path, pool: Executor) -> None:
    first = Kept(tmp_path).each(pool, "", doubled, ["a", "b", "a"])
    assert first == [["aa", None], ["bb", None], ["aa", None]], "as JSON has it"
    assert asked == ["a", "b"]
    again = Kept(tmp_path)
    assert again.each(pool, "", doubled, ["b", "c"]) == [["bb", None], ["cc", None]]
    assert asked == ["a", "b", "c"]
    assert again.others == 0


def test_what_was_found_before_a_failure_stays(tmp_path: Path, pool: Executor) -> None:
    with pytest.raises(RuntimeError, match="no such thing"):
        Kept(tmp_path).each(pool, "", doubled, ["a", "broken"])
    asked.clear()
    Kept(tmp_path).each(pool, "", doubled, ["a", "b"])
    assert asked == ["b"]


def test_functions_do_not_share_results(tmp_path: Path, pool: Executor) -> None:
    results = Kept(tmp_path)
    results.each(pool, "", doubled, ["a"])
    assert results.each(pool, "", seeds, [Study([])], ["a"]) == [{"seeds": []}]


def test_all_is_computed_anew_where_the_user_says_so(tmp_path: Path, pool: Executor) -> None:
    for anew, times in ((False, 1), (True, 2), (False, 2)):
        Kept(tmp_path, anew=anew).each(pool, "", doubled, ["a"])
        assert asked == ["a"] * times


def test_results_of_other_code_are_counted(tmp_path: Path, pool: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    Kept(tmp_path).each(pool, "", doubled, ["a", "b"])
    monkeypatch.setattr(kept, "code", lambda: "another")
    later = Kept(tmp_path)
    later.each(pool, "", doubled, ["a", "a", "c"])
    assert later.others == 1


def test_a_run_trained_anew_and_a_run_more_are_other_runs(
    tmp_path: Path, pool: Executor, make_run: Callable[..., Run], lifelike_bank: Callable[..., Bank]
) -> None:
    banks = {split: lifelike_bank(50) for split in ("heldout", "test")}
    for seed in range(2):
        make_run(tmp_path / f"run-{seed}", banks, "average", seed)

    def collected() -> list[str]:
        asked.clear()
        runs = [Packed.open(path) for path in sorted(tmp_path.glob("run-*"))]
        studies = [Study([run]) for run in runs]
        Kept(tmp_path).each(pool, "", seeds, studies, [run.path.name for run in runs])
        return list(asked)

    assert collected() == ["run-0", "run-1"]
    assert collected() == []
    manifest = tmp_path / "run-1" / "run.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "seconds": 77.0}))
    assert collected() == ["run-1"]
    make_run(tmp_path / "run-2", banks, "average", 2)
    assert collected() == ["run-2"]


def test_what_has_no_identity_is_refused(tmp_path: Path, pool: Executor) -> None:
    with pytest.raises(TypeError, match="no identity for set"):
        Kept(tmp_path).each(pool, "", doubled, [{"a"}])
