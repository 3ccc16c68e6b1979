"""Deep ensembles that stop early."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
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

if TYPE_CHECKING:
    from irene.bank import Bank
    from irene.cascade import Cascade
    from irene.data.sources import load as load_data
    from irene.errors import (
        CalibrationError,
        DataError,
        IreneError,
        MissingExtraError,
        OptionError,
        RunError,
        TrainingError,
    )
    from irene.estimators import IreneClassifier, IreneRegressor
    from irene.fitting import fit_policy
    from irene.halting.change import ChangePredictor
    from irene.halting.cost_to_go import CostToGo
    from irene.halting.policies import Agreement, Confidence, Entropy, Margin, Never, Patience, Spread, Window
    from irene.halting.policy import Policy
    from irene.halting.rule import Aggregation
    from irene.halting.selector import Selector
    from irene.halting.skipping import Router
    from irene.mixture import Mixture
    from irene.point import OperatingPoint
    from irene.run import Run
    from irene.runtime.engine import Engine, EngineOptions
    from irene.runtime.latency import measure_latency
    from irene.runtime.stream import Stream, StreamOptions
    from irene.training.options import LoopOptions
    from irene.training.train import TrainOptions, train
    from irene.types import Cost, Prediction

# Where each public name lives. It is imported when it is first asked for, so that `import irene` costs nothing
# and only those who use the estimators wait for scikit-learn.
_HOMES = {
    name: home
    for home, names in {
        "irene.bank": "Bank",
        "irene.cascade": "Cascade",
        "irene.data.sources": "load_data",
        "irene.errors": "CalibrationError DataError IreneError MissingExtraError OptionError RunError TrainingError",
        "irene.estimators": "IreneClassifier IreneRegressor",
        "irene.fitting": "fit_policy",
        "irene.halting.change": "ChangePredictor",
        "irene.halting.cost_to_go": "CostToGo",
        "irene.halting.policies": "Agreement Confidence Entropy Margin Never Patience Spread Window",
        "irene.halting.policy": "Policy",
        "irene.halting.rule": "Aggregation",
        "irene.halting.selector": "Selector",
        "irene.halting.skipping": "Router",
        "irene.mixture": "Mixture",
        "irene.point": "OperatingPoint",
        "irene.run": "Run",
        "irene.runtime.engine": "Engine EngineOptions",
        "irene.runtime.latency": "measure_latency",
        "irene.runtime.stream": "Stream StreamOptions",
        "irene.training.options": "LoopOptions",
        "irene.training.train": "TrainOptions train",
        "irene.types": "Cost Prediction",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'irene' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    value = getattr(home, "load" if name == "load_data" else name)
    globals()[name] = value  # the next time it is simply there
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
