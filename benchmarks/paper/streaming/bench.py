"""One cascade on one backend: policies set on what its members answer there, then streamed and timed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from multiprocessing import get_context
from typing import Any, NamedTuple

import torch
from torch import Tensor

from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.calibration.weights import fit_aggregation
from irene.cascade import Cascade
from irene.devices import seconds_of
from irene.halting.policies import Margin
from irene.halting.policy import Policy
from irene.halting.rule import Aggregation
from irene.metrics import paired_bootstrap
from irene.models import Member
from irene.runtime.backend import Backend, backend_class, parse_backend
from irene.runtime.bench import hardware
from irene.runtime.bench_loops import Alone
from irene.runtime.buckets import usual_bucket
from irene.runtime.stream import Stream, StreamOptions
from irene.training.afterwards import selector_fitter
from irene.types import Cost, CostUnit, cost_vector
from streaming.subjects import Subject, inputs_of
from streaming.timing import Movable, answers, cycled, each, interleaved, quartiles

OWN, SELECTOR, MARGIN = "own selector", "selector", "margin"
POLICIES = (OWN, SELECTOR, MARGIN)
FLOAT = "eager"  # the backend that int8 is compared with
FEWEST_BUCKETS = 8  # of a timed pass: streams must fill and drain


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is measured, and for how long."""

    device: str = "cpu"
    costs: tuple[float, ...] = (0.2, 0.25, 0.3, 0.4, 0.5)  # FLOPs of one large network
    times: tuple[float, ...] = (0.3, 0.4, 0.5, 0.6, 0.8)  # time of one large network
    bucket: int | None = None  # 1024 on a GPU and 64 on a CPU
    seconds: float = 0.3  # of one pass of the network alone
    rounds: int = 7  # passes of each kind
    workers: int = 1  # processes that fit selectors


class Wish(NamedTuple):
    """A mean cost in units of one large network."""

    unit: CostUnit
    asked: float


class Loaded:
    """Networks on a backend, each ready to run alone in buckets."""

    def __init__(self, networks: Iterable[Member], name: str, heldout: Tensor, bucket: int) -> None:
        kind, precision = parse_backend(name)
        load = partial(backend_class(kind).load, inputs=heldout, precision=precision)
        self.backends: dict[Member, Backend] = {network: load(network) for network in dict.fromkeys(networks)}
        example = cycled(heldout, bucket)
        self.alone = {network: Alone(backend, example) for network, backend in self.backends.items()}
        self.bucket = bucket

    def outputs(self, networks: Iterable[Member], inputs: Tensor) -> dict[Member, Tensor]:
        """(N, H, K) what each network answers."""
        return {network: answers(self.alone[network], inputs, self.bucket) for network in dict.fromkeys(networks)}


@cache
def float_outputs(subject: Subject, device: torch.device, bucket: int) -> tuple[Tensor, Tensor]:
    """(N, T, H, K) what the members answer in float32 on held-out and on test images, once for all backends."""
    heldout, test = (inputs_of(samples).to(device) for samples in (subject.heldout, subject.test))
    loaded = Loaded(subject.members, FLOAT, heldout, bucket)
    first, second = (torch.stack([*loaded.outputs(subject.members, images).values()], 1) for images in (heldout, test))
    return first, second


class Bench:
    """A cascade on a backend."""

    def __init__(self, subject: Subject, name: str, asked: Asked, say: Callable[[str], None] = print) -> None:
        self.subject, self.name, self.asked, self.say = subject, name, asked, say
        self.device = torch.device(asked.device)
        self.heldout_images, self.images = (
            inputs_of(samples).to(self.device) for samples in (subject.heldout, subject.test)
        )
        self.bucket: int = asked.bucket or usual_bucket(self.images.shape[1:], self.device)
        self.network = subject.networks[0]
        self.loaded = Loaded((*subject.members, *subject.networks), name, self.heldout_images, self.bucket)
        say(f"{name}: members loaded")
        self.costs, self.network_ms = self.measured()
        known = self.loaded.outputs(subject.members, self.heldout_images)
        seen = self.loaded.outputs((*subject.members, *subject.networks), self.images)
        self.heldout, self.test = self.banks(
            *(torch.stack([one[m] for m in subject.members], 1) for one in (known, seen))
        )
        logits_NTK = torch.stack([seen[network][:, 0] for network in subject.networks], 1)
        self.single_N = (logits_NTK.argmax(2) == self.test.targets[:, None]).double().mean(1)
        self.ensemble_N = (logits_NTK.softmax(2).mean(1).argmax(1) == self.test.targets).double()
        self.order = torch.randperm(len(self.test), generator=torch.Generator().manual_seed(0))
        say(f"{name}: members have answered {len(self.heldout)} held-out and {len(self.test)} test images")

    def measured(self) -> tuple[tuple[Cost, ...], float]:
        """The members' costs with the ms that an image takes in a bucket on this backend, and those of the network."""
        networks = (*self.subject.members, self.network)
        passes = {number: each(self.loaded.alone[one], self.timed) for number, one in enumerate(networks)}
        taken = interleaved(passes, self.device, self.asked.rounds)
        *members, network = [1000 * quartiles(seconds)["median"] / self.count for seconds in taken.values()]
        return tuple(replace(cost, ms=ms) for cost, ms in zip(self.subject.costs, members, strict=True)), network

    @cached_property
    def timed(self) -> tuple[Tensor, ...]:
        """Batches for a pass in which the network alone takes about as long as was asked for."""
        batches = cycled(self.images, 4 * self.bucket).split(self.bucket)
        alone = each(self.loaded.alone[self.network], batches)
        alone()
        wanted = int(4 * self.asked.seconds / seconds_of(alone, self.device))
        return cycled(self.images, max(FEWEST_BUCKETS, wanted) * self.bucket).split(self.bucket)

    @property
    def count(self) -> int:
        return len(self.timed) * self.bucket

    @cached_property
    def float_banks(self) -> tuple[Bank, Bank]:
        """What the members answer in float32."""
        return self.banks(*float_outputs(self.subject, self.device, self.bucket))

    def banks(self, *outputs: Tensor) -> tuple[Bank, Bank]:
        """Banks of outputs on held-out and on test images."""
        heldout, test = (
            Bank(
                task="classification", outputs=outputs_NTHK, targets=samples.targets, ids=samples.ids, costs=self.costs
            )
            for samples, outputs_NTHK in zip((self.subject.heldout, self.subject.test), outputs, strict=True)
        )
        return heldout, test

    @property
    def reduced(self) -> bool:
        return parse_backend(self.name)[1] == "int8"

    def about(self) -> dict[str, Any]:
        """The members and single networks on this backend, without stopping."""
        unit = self.subject.network_cost.flops
        right_NT = rights(self.test)
        members = [
            {
                "backbone": member.spec.backbone,
                "flops": cost.flops / unit,
                "time": cost.ms / self.network_ms,
                "accuracy": float(right_NT[:, t].mean()),
            }
            for t, (member, cost) in enumerate(zip(self.subject.members, self.costs, strict=True))
        ]
        found = {
            "members": members,
            "single": float(self.single_N.mean()),
            "ensemble": float(self.ensemble_N.mean()),
            "networks": len(self.subject.networks),
            "networks_of": self.subject.networks_of,
            "network_ms": self.network_ms,
            "whole": accuracy(self.test, fit_mean(self.heldout)),
        }
        if self.reduced:
            floats, test = self.float_banks
            now, was = (bank.outputs[:, :, 0].argmax(2) for bank in (self.test, test))
            for t, member in enumerate(members):
                member["accuracy_fp32"] = float(rights(test)[:, t].mean())
                member["same_labels"] = float((now[:, t] == was[:, t]).double().mean())
            found["whole_fp32"] = accuracy(test, fit_mean(floats))
        return {**found, "hardware": hardware(self.device)}

    def rows(self, policy: str) -> Iterator[dict[str, Any]]:
        """A row for every cost that these members can be run at."""
        wishes = self.wishes()
        if not wishes or (policy == OWN and self.subject.own is None):
            return
        mean, fitted = self.fit(policy, wishes, self.heldout)
        floats = self.fit(policy, wishes, self.float_banks[0]) if self.reduced else None
        self.say(f"{self.name}, {policy}: fitted for {len(wishes)} costs")
        movable = Movable(copy.deepcopy(fitted[0]))
        cascade = Cascade(self.subject.members, movable, aggregation=mean, costs=self.costs)
        stream = Stream(
            cascade,
            self.images[:1],
            backends=[self.loaded.backends[one] for one in self.subject.members],
            options=StreamOptions(bucket=self.bucket),
        )
        self.say(f"{self.name}, {policy}: stream recorded")
        streamed = []
        for one in fitted:
            movable.move(one)
            answer = list(stream.predict(self.images[self.order.to(self.device)].split(self.bucket)))
            streamed.append(
                [torch.cat([getattr(part, key).cpu() for part in answer]) for key in ("labels", "members_used")]
            )

        def pass_of(one: Policy) -> None:
            movable.move(one)
            for _ in stream.predict(self.timed):
                pass

        passes = {number: partial(pass_of, one) for number, one in enumerate(fitted)}
        taken = interleaved(
            {"alone": each(self.loaded.alone[self.network], self.timed), **passes}, self.device, self.asked.rounds
        )
        for number, (wish, one) in enumerate(zip(wishes, fitted, strict=True)):
            row = {
                "policy": policy,
                **wish._asdict(),
                **self.seen(*streamed[number], self.test.replay(one, mean).members_used),
                **self.speed(taken[number], taken["alone"]),
            }
            if floats is not None:
                ran = self.float_banks[1].replay(floats[1][number], floats[0])
                row["accuracy_fp32"] = float((ran.labels == self.test.targets).double().mean())
                row["flops_fp32"] = float(ran.cost_in(self.costs, "flops").mean()) / self.subject.network_cost.flops
            yield row

    def wishes(self) -> list[Wish]:
        """Those of the asked costs that lie between the first member and all of them."""
        found = []
        for unit, costs in (("flops", self.asked.costs), ("ms", self.asked.times)):
            own_T = cost_vector(self.costs, unit) / self.size(unit)
            for cost in costs:
                if float(own_T[0]) <= cost <= float(own_T.sum()):
                    found.append(Wish(unit, cost))
                else:
                    self.say(f"{self.name}: {cost:g} {unit} left out: members cost {own_T[0]:.3f} to {own_T.sum():.3f}")
        return found

    def size(self, unit: CostUnit) -> float:
        """What one large network costs."""
        return self.network_ms if unit == "ms" else self.subject.network_cost.flops

    def fit(self, policy: str, wishes: Sequence[Wish], heldout: Bank) -> tuple[Aggregation, list[Policy]]:
        """The mean of the members, and the policy with a threshold for each wish, by held-out images alone."""
        asked = [wish.asked * self.size(wish.unit) for wish in wishes]
        mean = fit_mean(heldout)
        found: list[Policy]
        if policy == OWN:
            assert self.subject.own is not None  # else it is not asked for
            own, mean = self.subject.own
            found = [own] * len(wishes)
        elif policy == SELECTOR:
            jobs = [
                (heldout, mean, wish.unit, cost, self.subject.seed) for wish, cost in zip(wishes, asked, strict=True)
            ]
            found = selectors(jobs, self.asked.workers)
        else:
            found = [Margin()] * len(wishes)
        lines = [frontier(heldout, one, mean, wish.unit) for one, wish in zip(found, wishes, strict=True)]
        cuts = [line.threshold_for(cost) for line, cost in zip(lines, asked, strict=True)]
        return mean, [one.at(cut) for one, cut in zip(found, cuts, strict=True)]

    def seen(self, labels_N: Tensor, used_N: Tensor, replayed_N: Tensor) -> dict[str, Any]:
        """What streaming the test images gave; they came in another order than they lie in the bank."""
        right_N = (labels_N == self.test.targets[self.order]).double()
        spent = {unit: cost_vector(self.costs, unit).cumsum(0)[used_N - 1].mean() for unit in ("flops", "ms")}
        return {
            "accuracy": float(right_N.mean()),
            "over_single": list(paired_bootstrap(right_N, self.single_N[self.order])),
            "over_ensemble": list(paired_bootstrap(right_N, self.ensemble_N[self.order])),
            "members": float(used_N.double().mean()),
            "used": [float((used_N == t + 1).double().mean()) for t in range(len(self.costs))],
            "flops": float(spent["flops"]) / self.size("flops"),
            "members_time": float(spent["ms"]) / self.size("ms"),  # if streaming cost nothing
            "as_replayed": float((used_N == replayed_N[self.order]).double().mean()),
        }

    def speed(self, taken: list[float], alone: list[float]) -> dict[str, Any]:
        return {
            "images": self.count,
            "images_per_s": quartiles([self.count / seconds for seconds in taken]),
            "alone_images_per_s": quartiles([self.count / seconds for seconds in alone]),
            "time": quartiles([mine / other for mine, other in zip(taken, alone, strict=True)]),
        }


def fit_mean(heldout: Bank) -> Aggregation:
    """Temperatures and, where members are unequal, weights."""
    return fit_aggregation(heldout, weights=len({cost.flops for cost in heldout.costs}) > 1)


def rights(bank: Bank) -> Tensor:
    """(N, T) whether each member by itself is right."""
    return (bank.outputs[:, :, 0].argmax(2) == bank.targets[:, None]).double()


def accuracy(bank: Bank, mean: Aggregation) -> float:
    """Of all members together."""
    return float((bank.replay(None, mean).labels == bank.targets).double().mean())


SelectorJob = tuple[Bank, Aggregation, CostUnit, float, int]


def fit_selector(job: SelectorJob) -> Policy:
    heldout, mean, unit, cost, seed = job
    return selector_fitter(cost=cost, seed=seed)(heldout, mean, unit)


def selectors(jobs: Sequence[SelectorJob], workers: int) -> list[Policy]:
    """A selector for each cost; fitting one takes some seconds of one core."""
    if workers <= 1:
        return [fit_selector(job) for job in jobs]
    context = get_context("spawn")
    with ProcessPoolExecutor(workers, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return list(pool.map(fit_selector, jobs))
