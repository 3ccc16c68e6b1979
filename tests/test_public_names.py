"""The public names, pinned: whoever adds or removes one changes this file too."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import irene

NAMES = [
    "Aggregation",
    "Agreement",
    "Bank",
    "CalibrationError",
    "Cascade",
    "ChangePredictor",
    "Confidence",
    "Cost",
    "CostToGo",
    "DataError",
    "Engine",
    "EngineOptions",
    "Entropy",
    "IreneClassifier",
    "IreneError",
    "IreneRegressor",
    "LoopOptions",
    "Margin",
    "MissingExtraError",
    "Mixture",
    "Never",
    "OperatingPoint",
    "OptionError",
    "Patience",
    "Policy",
    "Prediction",
    "Router",
    "Run",
    "RunError",
    "Selector",
    "Spread",
    "Stream",
    "StreamOptions",
    "TrainOptions",
    "TrainingError",
    "Window",
    "fit_policy",
    "load_data",
    "measure_latency",
    "train",
]


def imported_after(statement: str) -> set[str]:
    """The top-level modules a fresh interpreter has loaded after a statement."""
    script = f"{statement}\nimport sys\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


def test_the_names_are_these() -> None:
    assert irene.__all__ == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_known_under_its_name(name: str) -> None:
    value = getattr(irene, name)
    assert value.__module__.startswith("irene.")
    assert value.__name__ == ("load" if name == "load_data" else name)
    assert getattr(irene, name) is value


def test_every_policy_but_the_one_of_studies_and_every_error_has_a_public_name() -> None:
    from irene import errors
    from irene.halting.registry import POLICIES

    policies = {policy.__name__ for policy in POLICIES.values()} - {"Random"}
    tree = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert policies | tree <= set(irene.__all__)


def test_names_are_offered_for_completion() -> None:
    assert set(NAMES) <= set(dir(irene))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'irene' has no attribute 'cascades'"):
        _ = irene.cascades  # type: ignore[attr-defined]
    assert not hasattr(irene, "__path_of_nothing__")


def test_type_checkers_find_the_same_names_in_the_same_places() -> None:
    tree = ast.parse(Path(irene.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        alias.asname or alias.name: statement.module
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen == irene._HOMES


def test_importing_irene_imports_nothing_heavy() -> None:
    assert not {"torch", "numpy", "scipy", "sklearn", "matplotlib", "rich", "pandas"} & imported_after("import irene")


def test_scikit_learn_and_matplotlib_wait_until_they_are_needed() -> None:
    loaded = imported_after("from irene import Bank, Cascade, Margin, Run, TrainOptions, load_data, train")
    assert "torch" in loaded
    assert not {"sklearn", "matplotlib", "pandas", "onnxruntime", "pyarrow"} & loaded
