"""A trial of IRENE's hyper-parameters, and the study that remembers what was tried.

The space is the paper's Table 3. A trial is judged on samples that no member, selector or threshold was fitted on: they
are cut off the training samples, and the test samples of the data are never looked at.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from irene.bank import Bank, collect
from irene.calibration.frontier import frontier
from irene.calibration.selection import quality_at_cost, quality_at_costs
from irene.data import Data, Loader
from irene.data.splits import split
from irene.errors import OptionError, TrainingError
from irene.files import as_json
from irene.halting.quality import quality
from irene.run import Run
from irene.training.loop import TakenStage, derive_seed
from irene.training.methods.irene import IreneOptions
from irene.training.options import LoopOptions
from irene.training.search.trials import DIVERGED, keep_best, load_optuna, trial_folder
from irene.training.train import TrainOptions, train

if TYPE_CHECKING:
    import optuna

DECAYS = (0.1, 0.2, 0.5, 0.8)
# The paper's Table 3, by the names of IRENE's options: learning rates and weights are drawn on a log scale.
RANGES = {
    "selector_lr": (1e-5, 1e-1),
    "loss_weights.ensemble": (1e-4, 0.1),
    "loss_weights.cost": (1e-5, 0.1),
    "loss_weights.rank": (1e-4, 0.1),
}
SEARCHED = (*RANGES, "selector_decay")
_STUDY = "irene"


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """How the search goes: how many trials, side by side in how many processes, judged on how many samples."""

    trials: int = 24
    workers: int = 1
    validation: float | int | None = None  # share or number of training samples to judge by; None as for held-out
    startup: int = 5  # trials that are never pruned

    def __post_init__(self) -> None:
        if self.trials < 1 or self.workers < 1 or self.startup < 1:
            raise OptionError(
                f"trials, workers and startup must be at least 1, got {self.trials}, {self.workers} and {self.startup}"
            )


@dataclass(frozen=True, kw_only=True)
class Search:
    """All that a process needs to take part in a search; it is sent to worker processes."""

    data: Data
    out: Path
    options: TuneOptions
    train: TrainOptions
    loop: LoopOptions
    own: IreneOptions
    first: dict[str, TakenStage] = field(default_factory=dict)  # member 1, which no trial changes, once it is trained

    def study(self, worker: int = 0) -> optuna.Study:
        """The study in OUT, begun if there is none."""
        package = load_optuna()
        from optuna.storages.journal import JournalFileBackend

        self.out.mkdir(parents=True, exist_ok=True)
        storage = package.storages.JournalStorage(JournalFileBackend(str(self.out / "study.log")))
        study: optuna.Study = package.create_study(
            storage=storage,
            study_name=_STUDY,
            direction="maximize",
            pruner=package.pruners.MedianPruner(n_startup_trials=self.options.startup, n_warmup_steps=1),
            load_if_exists=True,
        )
        # What a search that goes on draws must not repeat what it has drawn.
        seed = derive_seed(self.train.seed, worker, len(study.trials))
        study.sampler = package.samplers.TPESampler(seed=seed)
        return study

    def about(self) -> dict[str, Any]:
        """What decides the value of a trial: it must stay the same as long as the search goes on."""
        about: dict[str, Any] = as_json(
            {
                "data": self.data.fingerprint,
                "samples": [len(self.data.train), len(self.data.test)],
                "members": self.train.members,
                "backbones": self.train.backbones,
                "heldout": self.train.heldout,
                "seed": self.train.seed,
                "loop": asdict(self.loop),
                "method": asdict(self.own),
            }
        )
        return about

    def objective(self, trial: optuna.Trial) -> float:
        """Train a run with the trial's hyper-parameters; its quality at the cost asked for on unseen samples."""
        folder = trial_folder(self.out, trial)
        own = with_parameters(self.own, suggest(trial))
        try:
            run = train(
                "irene",
                self.data,
                folder,
                options=self.train,
                loop=self.loop,
                method_options=own,
                resume=folder.exists(),
                taken=self.first,
                watch=_Watch(self, trial),
            )
        except TrainingError as error:
            trial.set_user_attr(DIVERGED, str(error))
            raise
        value_N = judge(run.bank("test"), run, own)
        trial.set_user_attr("run", str(folder.relative_to(self.out)))
        trial.set_user_attr("standard_error", float(value_N.std(correction=0)) / len(value_N) ** 0.5)
        return float(value_N.mean())

    def work(self, trials: int, worker: int = 0) -> None:
        """Do some trials; runs that are not the best are removed."""

        def after(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
            keep_best(study, self.out, trial)

        self.study(worker).optimize(self.objective, n_trials=trials, callbacks=[after], catch=(TrainingError,))


class _Watch:
    """Tells a trial how good the ensemble is after each member, on unseen samples, and ends it if others do better."""

    def __init__(self, search: Search, trial: optuna.Trial) -> None:
        self.search = search
        self.trial = trial
        self.columns: list[Tensor] = []

    def __call__(self, stage: str, model: nn.Module) -> None:
        if re.fullmatch(r"member-1(-fold-\d+)?", stage) and stage not in self.search.first:
            self.search.first[stage] = TakenStage(model=copy.deepcopy(model).cpu(), epochs=[])
        if not re.fullmatch(r"member-\d+", stage):
            return
        samples = self.search.data.test
        device = next(model.parameters()).device
        loader = Loader(samples, batch_size=1024, device=device, shuffle=False, readers=self.search.train.readers)
        self.columns.append(collect(model, loader.epoch(0))[:, 0])
        answers_NTK = torch.stack(self.columns, 1)
        if self.search.data.task == "classification":
            answers_NTK = answers_NTK.softmax(2)
        good = quality(answers_NTK.mean(1, keepdim=True), samples.targets, self.search.data.task)
        self.trial.report(float(good.mean()), step=len(self.columns))
        if self.trial.should_prune():
            raise load_optuna().TrialPruned


def search_for(
    data: Data,
    out: str | Path,
    *,
    options: TuneOptions | None = None,
    train: TrainOptions | None = None,
    loop: LoopOptions | None = None,
    own: IreneOptions | None = None,
) -> Search:
    """A search on the training samples of the data: a part of them is for judging, the test samples stay unseen."""
    options, train = options or TuneOptions(), train or TrainOptions()
    cut = split(data, heldout=options.validation, seed=derive_seed(train.seed, "tune"))
    if not len(cut.heldout):
        raise OptionError("the search needs samples to evaluate trials on: give --validation above 0")
    return Search(
        data=replace(data, train=cut.train, test=cut.heldout),
        out=Path(out),
        options=options,
        train=train,
        loop=loop or LoopOptions(),
        own=own or IreneOptions(),
    )


def suggest(trial: optuna.Trial) -> dict[str, float]:
    """The trial's point in the space of Table 3."""
    found = {name: trial.suggest_float(name, low, high, log=True) for name, (low, high) in RANGES.items()}
    found["selector_decay"] = float(trial.suggest_categorical("selector_decay", DECAYS))
    return found


def with_parameters(own: IreneOptions, found: Mapping[str, float]) -> IreneOptions:
    """IRENE's options with hyper-parameters by their dotted names."""
    weights = {name.partition(".")[2]: value for name, value in found.items() if "." in name}
    plain: dict[str, Any] = {name: value for name, value in found.items() if "." not in name}
    return replace(own, loss_weights=replace(own.loss_weights, **weights), **plain)


def judge(bank: Bank, run: Run, own: IreneOptions) -> Tensor:
    """(N,) right or wrong (or minus the squared error) at the mean cost asked for, else over the whole frontier."""
    curve = frontier(bank, run.policy(), run.aggregation, own.cost_unit)
    return quality_at_costs([curve], None)[0] if own.cost is None else quality_at_cost(curve, own.cost)
