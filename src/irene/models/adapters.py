"""Models that are trained already, from whatever library, as members of a cascade."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from irene.errors import OptionError, some_of
from irene.models.member import as_logits
from irene.models.onnx_file import OnnxFile, log_probabilities
from irene.types import Task


def as_members(models: Sequence[Any], task: Task | None = None) -> tuple[list[Callable[[Tensor], Tensor]], Task]:
    """The models as members, and their task: the one given, or classification unless they are regressors."""
    check_several(models)
    members = [as_member(model) for model in models]
    tasks = {member.task for member in members if isinstance(member, Estimator)}
    if len(tasks) > 1:
        raise OptionError("the members of a cascade must be all classifiers or all regressors, got both")
    if task and tasks - {task}:
        raise OptionError(f"the task is {task} and the scikit-learn members are for {tasks.pop()}: give only one kind")
    _check_classes([member for member in members if isinstance(member, Estimator)])
    _warn_of_numbers([member for member, model in zip(members, models, strict=True) if member is not model])
    found = task or (tasks.pop() if tasks else "classification")
    for member in members:
        if isinstance(member, OnnxFile) and found == "regression":
            member.log = False  # a value may be called a probability, and is one all the same
    return members, found


def check_several(models: object) -> None:
    """Refuse a single model where a list of them is expected, also one that could be taken apart like a list."""
    alone = (
        callable(models) or hasattr(models, "predict") or not isinstance(models, Iterable) or isinstance(models, str)
    )
    if alone and not isinstance(models, nn.ModuleList):
        raise OptionError(f"expected a list of members, got {type(models).__name__}: put it into a list, [model]")


def as_member(model: Any) -> Callable[[Tensor], Tensor]:
    """One model as a function from a batch of raw inputs to logits or values; what is one already stays as it is.

    A torch module (timm's among them) stays as it is. A Hugging Face model gets the batch under the name of
    its main input and answers with its `logits`. The probabilities of a fitted scikit-learn classifier, and of
    anything else with a `predict_proba` that cannot be called, become log-probabilities; a regressor's values stay
    values. A path to a .onnx file becomes a session of ONNX Runtime. A module or any other callable may answer with
    a tensor, an array or an object that has `logits`.
    """
    if isinstance(model, Estimator | Function | OnnxFile):
        return model
    if isinstance(model, str | Path):
        return OnnxFile(Path(model))
    if isinstance(model, type):
        raise OptionError(f"a member is a trained model, got the class {model.__name__}: make one of it and train it")
    if isinstance(model, nn.Module):
        return HuggingFace(model) if hasattr(model, "main_input_name") and hasattr(model, "config") else model
    if hasattr(model, "predict") and hasattr(model, "get_params"):
        return Estimator(model)
    if callable(model):
        return Function(model)
    if hasattr(model, "predict_proba"):
        return Estimator(model)
    raise OptionError(
        "a member is a torch module, a callable, a scikit-learn estimator, a Hugging Face model or the path of "
        f"a .onnx file, got {type(model).__name__}"
    )


def float_type_for(members: Sequence[Callable[[Tensor], Tensor]]) -> torch.dtype:
    """What float64 becomes on its way to these members: it is left alone for scikit-learn's, float32 for all others."""
    return torch.float64 if all(isinstance(member, Estimator) for member in members) else torch.float32


def as_batch(inputs: Tensor | NDArray[Any], float_type: torch.dtype = torch.float32) -> Tensor:
    """Inputs as a tensor: a tensor as it is, an array with its float64 as `float_type`."""
    if isinstance(inputs, Tensor):
        return inputs
    if isinstance(inputs, list | tuple) and any(isinstance(one, Tensor | np.ndarray) for one in inputs):
        raise OptionError(
            f"expected one tensor or array, got a {type(inputs).__name__} of {len(inputs)}: give the inputs alone, "
            "such as batch[0] of a DataLoader's batch, or stack samples into one array"
        )
    array = np.ascontiguousarray(inputs)
    if array.dtype.kind not in "fiub":
        raise OptionError(
            f"expected an array of numbers, got {type(inputs).__name__} of {array.dtype}: turn names into numbers "
            "first, or give row numbers to members that look the rows up"
        )
    array = array.astype(array.dtype.newbyteorder("="), copy=False)  # torch knows the byte order of this machine alone
    return torch.tensor(array, dtype=float_type if array.dtype == np.float64 else None)


_ROUNDING = 1e-3  # of probabilities in float32


@final
class HuggingFace(nn.Module):
    """A Hugging Face classifier that takes one batch, such as `pixel_values`, and returns its logits."""

    model: Any

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor) -> Tensor:
        return as_logits(self.model(**{self.model.main_input_name: inputs})).to(inputs.device)


@final
class Estimator:
    """A fitted scikit-learn classifier or regressor, or what has a `predict_proba` like theirs.

    Inputs with more than two axes are flattened.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.task: Task = "classification" if hasattr(estimator, "predict_proba") else "regression"
        self.classes: NDArray[Any] | None = getattr(estimator, "classes_", None)
        if (self.classes is None) == (self.task == "classification") and hasattr(estimator, "get_params"):
            name = type(estimator).__name__
            wrong = (
                "is not fitted yet: fit it first"
                if self.classes is None
                else ("has no predict_proba: wrap it in sklearn.calibration.CalibratedClassifierCV")
            )
            raise OptionError(f"the scikit-learn member {name} {wrong}")

    def __call__(self, inputs: Tensor) -> Tensor:
        rows = inputs.detach().cpu().numpy().reshape(len(inputs), math.prod(inputs.shape[1:]))
        if len(rows) == 0:  # which scikit-learn refuses: one row tells how many outputs there are
            return self(inputs.new_zeros(1, *inputs.shape[1:]))[:0]
        if self.task == "classification":
            answer = log_probabilities(self._probabilities(rows))
        else:
            values = _float32(self.estimator.predict(rows))
            answer = values[:, None] if values.ndim == 1 else values
        return answer.to(inputs.device)

    def _probabilities(self, rows: NDArray[Any]) -> Tensor:
        answer = self.estimator.predict_proba(rows)
        if not isinstance(answer, list):
            probs = _float32(answer)
            if not bool(((probs.sum(-1) - 1).abs() > _ROUNDING).any()):  # NaN is a sample that fails
                return probs
        raise OptionError(
            f"the scikit-learn member {type(self.estimator).__name__} tells every label's own probability: members "
            "give one class a sample, with probabilities that sum to 1; make a cascade for each label"
        )


def _float32(answer: Any) -> Tensor:
    return torch.from_numpy(np.array(answer, dtype=np.float32, order="C"))  # a copy: not all memory is for torch


@final
class Function:
    """Any callable, whatever it answers with."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        self.function = function

    def __call__(self, inputs: Tensor) -> Tensor:
        return as_logits(self.function(inputs)).to(inputs.device)


def _check_classes(members: Sequence[Estimator]) -> None:
    """Member outputs are averaged class by class, so they must mean the same classes in the same order."""
    known = [member.classes for member in members if member.classes is not None]
    for number, classes in enumerate(known[1:], start=2):
        if not np.array_equal(classes, known[0]):
            raise OptionError(
                f"every member must know the same classes in the same order: scikit-learn member 1 has "
                f"{known[0].tolist()} and member {number} has {classes.tolist()}"
            )


def _warn_of_numbers(members: Sequence[Callable[[Tensor], Tensor]]) -> None:
    """Warn of classes that are not numbered 0, 1, ...: 1 and 2 of the classes 1, 2 and 3 would be read as 2 and 3.

    Nothing can tell later which of the two targets are.
    """
    for member in members:
        classes = np.asarray(member.classes) if isinstance(member, Estimator) and member.classes is not None else None
        if classes is None or classes.ndim != 1 or classes.dtype.kind not in "iuf":
            continue
        if not np.array_equal(classes, np.arange(len(classes))):
            warnings.warn(
                f"the scikit-learn members know the classes {some_of([str(one) for one in classes.tolist()])}, and "
                "irene counts places: labels and targets are from 0 on; give np.searchsorted(model.classes_, y) as "
                "targets, and read labels by model.classes_[prediction.labels]",
                stacklevel=4,
            )
            return
