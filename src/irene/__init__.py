"""Deep ensembles that stop early."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "Aggregation",
    "Bank",
    "Cascade",
    "Cost",
    "Engine",
    "EngineOptions",
    "IreneClassifier",
    "IreneError",
    "IreneRegressor",
    "LoopOptions",
    "Margin",
    "Mixture",
    "OperatingPoint",
    "Prediction",
    "Run",
    "Selector",
    "Stream",
    "StreamOptions",
    "TrainOptions",
    "fit_policy",
    "load_data",
    "train",
]

if TYPE_CHECKING:
    from irene.bank import Bank
    from irene.calibration.fit import fit_policy
    from irene.cascade import Cascade
    from irene.data.sources import load as load_data
    from irene.errors import IreneError
    from irene.estimators import IreneClassifier, IreneRegressor
    from irene.halting.policies import Margin
    from irene.halting.rule import Aggregation
    from irene.halting.selector import Selector
    from irene.mixture import Mixture
    from irene.point import OperatingPoint
    from irene.run import Run
    from irene.runtime.engine import Engine, EngineOptions
    from irene.runtime.stream import Stream, StreamOptions
    from irene.training.options import LoopOptions
    from irene.training.train import TrainOptions, train
    from irene.types import Cost, Prediction

# Where each public name lives. It is imported when it is first asked for, so that `import irene` costs nothing
# and only those who use the estimators wait for scikit-learn.
_HOMES = {
    "Aggregation": "irene.halting.rule",
    "Bank": "irene.bank",
    "Cascade": "irene.cascade",
    "Cost": "irene.types",
    "Engine": "irene.runtime.engine",
    "EngineOptions": "irene.runtime.engine",
    "IreneClassifier": "irene.estimators",
    "IreneError": "irene.errors",
    "IreneRegressor": "irene.estimators",
    "LoopOptions": "irene.training.options",
    "Margin": "irene.halting.policies",
    "Mixture": "irene.mixture",
    "OperatingPoint": "irene.point",
    "Prediction": "irene.types",
    "Run": "irene.run",
    "Selector": "irene.halting.selector",
    "Stream": "irene.runtime.stream",
    "StreamOptions": "irene.runtime.stream",
    "TrainOptions": "irene.training.train",
    "fit_policy": "irene.calibration.fit",
    "load_data": "irene.data.sources",
    "train": "irene.training.train",
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
