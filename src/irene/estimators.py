"""irene's ensembles as scikit-learn estimators: fit, predict, predict_proba, score."""

from __future__ import annotations

import copy
import dataclasses
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from numbers import Integral
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from irene.cascade import Cascade
from irene.data.arrays import as_inputs, in_memory
from irene.data.samples import Data, Samples
from irene.data.splits import split
from irene.devices import pick_device
from irene.errors import DataError, OptionError
from irene.mixture import Mixture
from irene.training.methods import METHODS
from irene.training.options import LoopOptions, OptimizerKind, OptimizerOptions
from irene.training.train import TrainOptions, train
from irene.types import Prediction, Task

Array = NDArray[Any]

LEAST_HELDOUT = 50  # with fewer held-out samples there is nothing to learn a selector or a threshold from
_ALONE = threading.Lock()  # trainings of a process draw from the same generator: in threads, one after the other
_CHUNK = 1024  # samples that go through the cascade at once


class _Ensemble(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What the classifier and the regressor share: parameters, training, and the way through the cascade."""

    def __init__(
        self,
        method: str = "irene",
        *,
        members: int = 3,
        backbones: str | tuple[str, ...] | None = None,
        cost: float = 1.3,
        epochs: int = 20,
        batch_size: int = 32,
        optimizer: OptimizerKind = "adam",
        lr: float = 0.003,
        heldout: float | int | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: str = "auto",
        out: str | Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.members = members
        self.backbones = backbones
        self.cost = cost
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.lr = lr
        self.heldout = heldout
        self.random_state = random_state
        self.device = device
        self.out = out
        self.verbose = verbose

    def members_used(self, X: Any) -> Array:
        """(N,) how many members each sample ran through."""
        used: Array = self._answer(X).members_used.numpy()
        return used

    def _train(self, X: Array, targets: Tensor, task: Task, classes: tuple[str, ...]) -> None:
        inputs = as_inputs(X)
        everything = Samples(inputs, targets, torch.arange(len(inputs)))
        nothing = everything.subset(torch.arange(0))  # scikit-learn's users split off their test set themselves
        data = in_memory(name="arrays", task=task, train=everything, test=nothing, classes=classes)
        seed = self._seed()
        method, heldout = self._choose(data, seed)
        backbones = (self.backbones,) if isinstance(self.backbones, str) else tuple(self.backbones or ())
        with TemporaryDirectory() if self.out is None else nullcontext(self.out) as folder, _ALONE:
            run = train(
                method,
                data,
                folder,
                options=TrainOptions(
                    members=self.members, backbones=backbones, heldout=heldout, seed=seed, device=self.device
                ),
                loop=LoopOptions(
                    epochs=self.epochs,
                    batch_size=self.batch_size,
                    optimizer=OptimizerOptions(kind=self.optimizer, lr=self.lr),
                ),
                method_options=self._method_options(method),
                console=Console(stderr=True) if self.verbose else None,
            )
            self.device_ = pick_device(self.device)
            self.cascade_ = run.predictor(self.device_)
        self.figures_ = run.figures
        self.notes_: list[str] = run.manifest["notes"]
        self.input_shape_ = data.shape

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Fitted anew or, if that fails, as before: what one fit has learned goes with nothing of another."""
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _seed(self) -> int:
        random = check_random_state(self.random_state)
        # A whole number is the seed itself, so that the same one gives `irene train`'s members.
        return int(self.random_state if isinstance(self.random_state, Integral) else random.randint(2**31 - 1))

    def _choose(self, data: Data, seed: int) -> tuple[str, float | int | None]:
        """The method and the held-out slice; for too few samples, a plain average trained on all of them."""
        try:
            samples = len(split(data, heldout=self.heldout, seed=seed).heldout)
        except DataError:  # the classes are too small to give any sample away
            samples = 0
        if samples >= LEAST_HELDOUT:
            return self.method, self.heldout
        if self.method not in METHODS or not METHODS[self.method].needs_heldout:
            return self.method, 0 if self.heldout is None else self.heldout
        warnings.warn(
            f"{samples} held-out samples are too few to learn when to stop, at least {LEAST_HELDOUT} are needed: "
            "the members are averaged, all of them run on every sample",
            stacklevel=4,
        )
        return "average", 0

    def _method_options(self, name: str) -> Any:
        """The options of a method that stops early, at the cost asked for; None for one that does not."""
        options: Any = METHODS[name].options() if name in METHODS else None
        stops = options is not None and any(field.name == "cost" for field in dataclasses.fields(options))
        return dataclasses.replace(options, cost=self.cost) if stops else None

    def _answer(self, X: Any) -> Prediction:
        check_is_fitted(self)
        inputs = as_inputs(validate_data(self, X, reset=False, allow_nd=True))
        if tuple(inputs.shape[1:]) != self.input_shape_:
            raise OptionError(f"fitted on samples of shape {self.input_shape_}, got {tuple(inputs.shape[1:])}")
        return Prediction.cat([self.cascade_.predict(chunk.to(self.device_)) for chunk in inputs.split(_CHUNK)]).cpu()

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "cascade_" in state:
            # Pickled on a GPU, it must open on a machine without one.
            state = {**state, "cascade_": _on_cpu(state["cascade_"]), "device_": torch.device("cpu")}
        return state


class IreneClassifier(ClassifierMixin, _Ensemble):  # type: ignore[misc]  # scikit-learn has no types
    """A neural ensemble that stops early, as a scikit-learn classifier.

        model = IreneClassifier(cost=1.3).fit(X_train, y_train)
        model.score(X_test, y_test), model.members_used(X_test).mean()

    X is a table (samples, features), or images (samples, channels, height, width) as uint8 or floats. A slice
    of the training samples is held out to learn when to stop. Where it would have fewer than 50 samples, a
    method that learns when to stop gives way to `average`: the members are trained on all samples and all of
    them run on every sample; a warning says so.

    Parameters
    ----------
    method : name of the training method, as in `irene train`.
    members : how many members are trained.
    backbones : one name for all members or one a member; None chooses by the shape of X.
    cost : mean number of members a sample may run through, for `irene`; `woc` chooses its own on the held-out samples.
    epochs, batch_size, optimizer, lr : how each member is trained; the optimizer is adam or sgd.
    heldout : share or number of training samples held out; None is a fifth, or a tenth of 10,000 or more, up to 5,000.
    random_state : seed; with a number, fitting again gives the same model.
    device : auto, cpu or cuda.
    out : directory to keep the run in (it must not exist); None keeps no files.
    verbose : whether to show progress.

    Attributes
    ----------
    classes_ : the classes, in the order of the columns of `predict_proba`.
    cascade_ : the trained `Cascade`, or a `Mixture` where the method trains one.
    figures_ : what was measured on the held-out slice.
    notes_ : what the training had to say, such as a selector that treats all samples alike.
    n_features_in_ : columns of X; of images, the second axis.
    feature_names_in_ : names of the columns, if X had them.
    input_shape_ : shape of one sample.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train the ensemble on samples X with classes y."""
        with self._whole():
            X, y = validate_data(self, X, y, allow_nd=True, ensure_min_samples=2)
            check_classification_targets(y)
            self.classes_, index = np.unique(y, return_inverse=True)
            if len(self.classes_) < 2:
                raise OptionError(f"a classifier needs samples of at least 2 classes, got 1 class: {self.classes_[0]}")
            names = tuple(str(name) for name in self.classes_)
            self._train(X, torch.from_numpy(index.astype(np.int64)), "classification", names)
        return self

    def predict(self, X: Any) -> Array:
        """(N,) the most probable class of each sample."""
        answer = self._answer(X)
        failed = int(answer.failed.sum())
        if failed:
            raise DataError(
                f"{failed} of {len(answer)} samples have no class, as a member gave NaN or infinity for them: look at "
                "predict_proba, which is NaN there, and leave them out"
            )
        labels: Array = answer.labels.numpy()
        classes: Array = self.classes_[labels]
        return classes

    def predict_proba(self, X: Any) -> Array:
        """(N, K) the probability of each class."""
        probs: Array = self._answer(X).probs.numpy()
        return probs


class IreneRegressor(RegressorMixin, _Ensemble):  # type: ignore[misc]  # scikit-learn has no types
    """A neural ensemble that stops early, as a scikit-learn regressor of one value or several.

        model = IreneRegressor(cost=1.3).fit(X_train, y_train)
        model.score(X_test, y_test), model.members_used(X_test).mean()

    Parameters, attributes and what happens with few samples are those of `IreneClassifier`; in place of
    `classes_` there is `n_outputs_`, the number of values predicted for each sample.
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Train the ensemble on samples X with values y, (N,) or (N, K)."""
        with self._whole():
            X, y = validate_data(self, X, y, allow_nd=True, multi_output=True, y_numeric=True, ensure_min_samples=2)
            with np.errstate(over="ignore"):  # what does not fit becomes infinite and is refused below
                values = torch.from_numpy(np.asarray(y, dtype=np.float32).reshape(len(y), -1))
            if not bool(values.isfinite().all()):
                raise DataError(f"y must fit float32, got values up to {np.abs(y).max():.3g}: scale them down")
            self.n_outputs_ = values.shape[1]
            self._train(X, values, "regression", tuple(f"target{i}" for i in range(self.n_outputs_)))
        return self

    def predict(self, X: Any) -> Array:
        """(N,) the value of each sample, or (N, K) its values."""
        values: Array = self._answer(X).values.double().numpy()
        return values[:, 0] if self.n_outputs_ == 1 else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _on_cpu(predictor: Cascade | Mixture) -> Cascade | Mixture:
    """A copy of the predictor with everything on the CPU."""
    other = copy.deepcopy(predictor)
    decides = other.policy if isinstance(other, Cascade) else other.gate
    for module in (*other.members, decides):
        if isinstance(module, nn.Module):
            module.cpu()
    return other
