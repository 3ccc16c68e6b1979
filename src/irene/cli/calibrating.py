"""What `irene calibrate` does with its flags."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from irene.bank import Bank
from irene.calibration.selection import Fitted, Learner
from irene.calibration.wishes import Wish
from irene.cli.loading import Reading, load_for
from irene.devices import pick_device
from irene.errors import DataError, OptionError, RunError
from irene.evaluation.banks import bank_of
from irene.fitting import fit_policy
from irene.halting.selector import Selector
from irene.imported import IMPORTED, OUTPUTS
from irene.point import OperatingPoint
from irene.run import Run
from irene.runtime.bench import noise_for
from irene.runtime.latency import measure_latency
from irene.training.afterwards import selector_fitter


def bank_for(run: Run, spec: str | None, how: Reading, *, device: str, warn: Callable[[str], None]) -> Bank:
    """The outputs to calibrate on: the run's held-out ones, or those of its members on other data."""
    if spec is None:
        how.refuse_alone()
        if "heldout" not in run.manifest["banks"]:
            raise RunError(f"{run.path}: has no held-out samples to calibrate on: give other samples with --data")
        return run.bank("heldout")
    where = pick_device(device)
    cascade = run.cascade(where)
    data = load_for(run, spec, how, warn=warn)
    trained_on = run.method not in IMPORTED or run.manifest["data"].get("unseen") == "test"
    if trained_on and data.fingerprint == run.manifest["data"]["fingerprint"]:
        raise DataError(f"the members were trained on {spec}: leave --data out to calibrate on its held-out samples")
    about = {"split": "train", "fingerprint": data.fingerprint}
    return bank_of(cascade, data.train, where, about=about, readers=how.readers)


def timed(run: Run, bank: Bank, device: str) -> Bank:
    """The bank with what its members take for one sample at a time, measured now on the device.

    Members of which there are outputs only keep the times they were given.
    """
    if run.method == OUTPUTS:
        return bank
    where = pick_device(device)
    cascade = run.cascade(where)
    sample = noise_for(cascade, tuple(run.manifest["data"]["shape"]), 1, where)
    return replace(bank, costs=measure_latency(cascade, sample))


def fit_point(
    run: Run, bank: Bank, wish: Wish, *, policy: str, weights: bool | None, name: str, seed: int, fresh: bool
) -> OperatingPoint:
    """Fit a policy for the wish; a selector takes part where the run has one.

    On samples that are not `fresh` the run's own was fitted: to promise anything with them, or to be compared on them
    with other policies, takes one that is fitted anew on a part of them.
    """
    asked: dict[str, Any] = {**asdict(wish), "name": name, "seed": seed}
    trained = run.policy()
    own = Fitted(trained, run.aggregation) if isinstance(trained, Selector) else None
    if policy == Selector.name and own is not None and (fresh or not wish.promises):
        if weights:
            raise OptionError("the run's selector was trained with the weights it has: leave --weights out")
        return fit_policy(bank, own.policy, aggregation=own.aggregation, **asked)
    also = own if own is None or fresh else Learner(Selector.name, selector_fitter(cost=wish.cost, seed=seed))
    return fit_policy(bank, policy, weights=weights, also=also, **asked)
