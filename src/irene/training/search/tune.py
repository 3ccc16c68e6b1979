"""The search for IRENE's hyper-parameters, which can be interrupted, goes on where it was, and runs side by side.

OUT/study.log        Optuna's journal: what was tried and what came of it
OUT/trials/7         the run of a trial while it trains; in the end only the best one's is left
OUT/importance.png   how much each hyper-parameter decides
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from irene.data import Data
from irene.errors import RunError, TrainingError
from irene.files import locked, write_atomically
from irene.pictures import rendered
from irene.processes import Workers, cores
from irene.run_manifest import first_difference
from irene.training.methods.irene import IreneOptions
from irene.training.options import LoopOptions
from irene.training.search.importance import importance
from irene.training.search.progress import watched
from irene.training.search.trial import Search, TuneOptions, search_for
from irene.training.search.trials import completed, load_optuna, trial_folder
from irene.training.train import TrainOptions

_FEWEST = 4  # trials with which something can be said of what decides


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """What a search has found."""

    trials: dict[str, int]  # how many ended how
    parameters: dict[str, float]  # of the best trial, by the names of IRENE's options
    value: float  # quality of the best trial at the cost asked for
    standard_error: float  # of that value: a lead smaller than this is chance
    run: Path  # of the best trial
    importances: dict[str, float]  # shares of what decides, the largest first; empty with few trials
    picture: Path | None


def tune(
    data: Data,
    out: str | Path,
    *,
    options: TuneOptions | None = None,
    train: TrainOptions | None = None,
    loop: LoopOptions | None = None,
    own: IreneOptions | None = None,
    console: Console | None = None,
) -> Tuned:
    """Search the paper's Table 3 for the hyper-parameters of IRENE, or go on with a search that was interrupted.

    The value of a trial is the accuracy (for regression minus the squared error) on samples that nothing was fitted on,
    at exactly the mean cost that `own` asks for; where it asks for none, averaged over the frontier. Trials that are
    behind the median after a member are ended.
    """
    load_optuna()  # without it nothing is begun
    search = search_for(data, out, options=options, train=train, loop=loop, own=own)
    search.out.mkdir(parents=True, exist_ok=True)
    with _alone(search.out):
        left = take_up(search)
        if left and console is not None:
            with watched(search.study(), search.out, left, console):
                _work_off(search, left)
        elif left:
            _work_off(search, left)
        return _result(search)


def take_up(search: Search) -> int:
    """Put the interrupted trials of a study in the queue again; returns how many trials are left to do."""
    states = load_optuna().trial.TrialState
    study = search.study()
    about = study.user_attrs.get("about")
    begun = any((search.out / "trials").glob("*"))  # nothing is left of trials that could not be
    if about is None or not begun:
        study.set_user_attr("about", search.about())
    elif about != search.about():
        name, begun_with, asked = first_difference("search", about, search.about())
        raise RunError(
            f"{search.out}: was started with {name.removeprefix('search.')} {begun_with}, and {asked} was asked for; "
            "continue with the same, or give another --out"
        )
    for trial in study.get_trials(deepcopy=False, states=(states.RUNNING,)):  # by a process that is no more
        study.tell(trial.number, state=states.FAIL)
    others = study.get_trials(deepcopy=False, states=(states.WAITING, states.COMPLETE, states.PRUNED))
    taken = {trial_folder(search.out, trial) for trial in others}  # by trials that go on with it, or have done so
    for trial in study.get_trials(deepcopy=False, states=(states.FAIL,)):
        folder = trial_folder(search.out, trial)
        if folder.exists() and folder not in taken:  # of a trial that failed by itself nothing is left
            study.enqueue_trial(trial.params, user_attrs={"continues": folder.name})
            taken.add(folder)
    done = study.get_trials(deepcopy=False, states=(states.COMPLETE, states.PRUNED))
    return max(0, search.options.trials - len(done))


def _result(search: Search) -> Tuned:
    optuna = load_optuna()
    study = search.study()
    complete = completed(study)
    if not complete:
        raise TrainingError(f"{search.out}: no trial was trained to its end; try lower learning rates or more trials")
    best = complete[0]
    importances: dict[str, float] = {}
    picture = None
    if len(complete) >= _FEWEST and complete[-1].value != best.value:
        evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
        found = optuna.importance.get_param_importances(study, evaluator=evaluator)
        importances = {name: float(share) for name, share in found.items()}
        picture = search.out / "importance.png"
        write_atomically(picture, rendered(importance(importances), "png"))
    states = [trial.state.name.lower() for trial in study.get_trials(deepcopy=False)]
    return Tuned(
        trials={state: states.count(state) for state in sorted(set(states))},
        parameters=dict(best.params),
        value=float(best.value or 0.0),
        standard_error=best.user_attrs["standard_error"],
        run=search.out / best.user_attrs["run"],
        importances=importances,
        picture=picture,
    )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder: two searches in it would take each other's trials for interrupted ones."""
    with locked(folder / "lock") as ours:
        if not ours:
            raise RunError(f"{folder}: is being searched already; use --workers for parallel processes")
        yield


def _work_off(search: Search, trials: int) -> None:
    """Do the trials, here or in processes side by side."""
    workers = min(search.options.workers, trials)
    if workers > 1:
        _side_by_side(search, trials, workers)
    else:
        search.work(trials)


def _side_by_side(search: Search, trials: int, workers: int) -> None:
    """Share the trials among processes that write to one study."""
    with closing(Workers(_work, workers, lost=_lost, threads=max(1, cores() // workers))) as pool:
        for worker in range(workers):
            pool.start((search, trials // workers + (worker < trials % workers), worker))
        ended = 0
        while ended < workers:
            for _, error in pool.wait():
                if error is not None:
                    raise error
                ended += 1


def _work(share: tuple[Search, int, int]) -> Exception | None:
    """Do some trials as the worker of this number; the error that ended them, if one did."""
    search, trials, worker = share
    try:
        search.work(trials, worker)
    except Exception as error:
        return error
    return None


def _lost(how: str) -> Exception:
    return TrainingError(f"{how}; repeat the command to continue the search")
