"""IRENE: members and selector trained together, one member after the other (Algorithm 1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from irene.bank import Bank
from irene.calibration.frontier import frontier
from irene.calibration.weights import fit_aggregation
from irene.data.stratify import fold_indices
from irene.errors import OptionError
from irene.halting.features import FEATURES, check_features
from irene.halting.policies import Never
from irene.halting.rule import Aggregation, Rule
from irene.halting.selector import Selector
from irene.models import Member
from irene.point_words import possible, wanted
from irene.training.earlier import earlier_answers, look_up
from irene.training.evidence import Evidence
from irene.training.footprint import Footprint, measure_footprint
from irene.training.joint import Earlier, JointObjective, LossWeights, MemberObjective, PaperObjective
from irene.training.loop import derive_seed
from irene.training.method import COST_BATCH, Method, Trained, Training
from irene.training.objective import Objective, Supervised
from irene.training.options import OptimizerOptions
from irene.training.schedules import Schedule
from irene.training.selecting import Price, fit_selector
from irene.training.warmstart import Later, check_alike, check_later, go_on, rise_and_fall
from irene.types import COST_UNITS, Cost, CostUnit, cost_vector

Recipe = Literal["irene", "paper"]
SelectorData = Literal["slice", "folds"]
Part = Literal["ensemble", "cost", "rank", "discrepancy", "joint", "selector"]
FOLDS = 2
COLLAPSED = 0.98  # a larger share of samples that stop at one and the same step is a collapse


@dataclass(frozen=True, kw_only=True)
class IreneOptions:
    """The options of IRENE.

    `cost` is the mean cost to reach, in `cost_unit` (mean members, or FLOPs or ms a sample). `selector_data` says
    where the selector's evidence comes from: the held-out slice, or out-of-fold predictions of `folds` further
    models a member. `later` says what members after the first begin with: new weights, or those of the one before,
    from which they go on in a cycle of fast geometric ensembling; the member trained longest then runs first.
    `weights` fits aggregation weights on the evidence; None fits them when members differ in size. `without`
    switches parts off, for ablations: a loss by its name, `joint` for members trained independently with the
    selector fitted after, `selector` for sequential training that never halts. `selector_lr` is the selector's
    learning rate while members train, and `selector_decay` what it is multiplied by at the milestones of the
    schedule.
    In the paper's recipe nothing but the loss weights decides the cost: it uses neither `cost` nor `selector_data`.
    """

    cost: float | None = 1.3
    cost_unit: CostUnit = "members"
    recipe: Recipe = "irene"
    selector_data: SelectorData = "slice"
    folds: int = FOLDS
    later: Later = "anew"
    features: tuple[str, ...] | None = None
    hidden: int = 8
    selector_lr: float = 0.01
    selector_decay: float = 0.5
    loss_weights: LossWeights = dataclasses.field(default_factory=LossWeights)
    weights: bool | None = None
    without: tuple[Part, ...] = ()

    def __post_init__(self) -> None:
        if self.recipe not in get_args(Recipe):
            raise OptionError(f"recipe must be irene or paper, got {self.recipe!r}")
        if self.selector_data not in get_args(SelectorData) or self.folds < 2:
            raise OptionError(
                f"selector data is slice or folds (at least 2), got {self.selector_data!r} and {self.folds} folds"
            )
        if self.selector_data == "slice" and self.folds != FOLDS:
            raise OptionError(
                f"the number of folds is for selector data folds, got {self.folds} of them with selector data slice: "
                "use folds (selector_data, --selector-data folds), or leave their number out"
            )
        check_later(self.later)
        if self.later == "go-on" and (self.recipe == "paper" or self.selector_data == "folds"):
            raise OptionError(
                "members that go on run in another order than they were trained in, so their selector is fitted "
                "afterwards and on the held-out slice: use the recipe irene and selector data slice"
            )
        unknown = set(self.without) - set(get_args(Part))
        if unknown:
            raise OptionError(f"parts to leave out are {', '.join(get_args(Part))}; got {', '.join(sorted(unknown))}")
        if self.cost_unit not in COST_UNITS:
            raise OptionError(f"cost unit must be one of {', '.join(COST_UNITS)}, got {self.cost_unit!r}")
        if self.cost is not None and not (isinstance(self.cost, Real) and self.cost > 0):
            raise OptionError(f"the cost asked for must be a number above 0, got {self.cost!r}")
        if self.selector_lr <= 0 or self.selector_decay <= 0:
            raise OptionError(
                f"the selector's learning rate and its decay must be above 0, got {self.selector_lr:g} and "
                f"{self.selector_decay:g}"
            )
        if self.recipe == "paper" and (self.selector_data == "folds" or "joint" in self.without):
            raise OptionError(
                "in the paper's recipe the selector learns with the members, on their own batches: "
                "use the recipe irene for folds or for a selector fitted after training"
            )

    @property
    def asked(self) -> float | None:
        """The mean cost to reach, if any: the paper's recipe reaches for none."""
        return self.cost if self.recipe == "irene" else None

    def active_weights(self) -> LossWeights:
        """The loss weights with the switched-off parts at zero."""
        off = {part: 0.0 for part in self.without if part in vars(self.loss_weights)}
        return dataclasses.replace(self.loss_weights, **off)


def train(training: Training) -> Trained:
    """Algorithm 1: train member t with the selector of the members so far, then freeze it and go on."""
    session = _Sequence(training)
    for index in range(len(training.backbones)):
        session.add_member(index)
    return session.finish()


class _Sequence:
    """The members trained so far, their outputs where the selector learns, and the selector."""

    def __init__(self, training: Training) -> None:
        self.training = training
        self.options: IreneOptions = training.options
        splits, paper = training.splits, self.options.recipe == "paper"
        self.by_folds = self.options.selector_data == "folds"
        self.halts = len(training.backbones) > 1 and "selector" not in self.options.without
        # The paper's selector learns nothing from held-out samples: without any, training samples show a collapse too.
        on_train = self.by_folds or (paper and not len(splits.heldout))
        self.samples = splits.train if on_train else splits.heldout
        if self.halts and len(self.samples) < training.loop.world.size:
            raise OptionError(
                "the selector needs samples no member trains on, at least one for each process: hold some out (heldout "
                "above 0, --heldout), or learn by folds (selector_data, --selector-data folds)"
            )
        self.weights = self.options.active_weights()
        self.base = Supervised(training.task, scale_K=training.scale_K, discrepancy=self.weights.discrepancy)
        self.selector = self._new_selector()
        self.members: list[Member] = []
        if self.options.later == "go-on":
            check_alike(training.backbones, "irene with members that go on")
        self.costs = self._measure_costs()
        self.columns: list[Tensor] = []  # (M, H, K) a member: its outputs on the evidence
        self.answered: list[Tensor] = []  # (N, H, K) a member: its outputs on training samples that stay the same
        self.price = 0.1

    def _new_selector(self) -> Selector:
        """A fresh selector, whose weights depend on the seed alone."""
        training, paper = self.training, self.options.recipe == "paper"
        usual = FEATURES[training.task]
        names = self.options.features or (usual[:1] if paper else usual)  # the first is how far the two heads differ
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(derive_seed(training.loop.seed, "selector"))
            return Selector(
                features=check_features(names, training.task),
                hidden=self.options.hidden,
                skip=not paper,
                task=training.task,
            )

    def add_member(self, index: int) -> None:
        """Train member `index` jointly with the selector; the first one has only its base loss."""
        training, stage = self.training, f"member-{index + 1}"
        if self.by_folds:
            self.columns.append(self._out_of_fold(index))
        objective = self._objective()
        if self.members and self.options.later == "go-on":
            loop = training.loop_options
            member = go_on(training, stage, self.members[-1], rise_and_fall(loop, loop.epochs), objective)
        else:
            member = training.new_member(index, heads=2)
            training.fit(stage, member, objective)
        if isinstance(objective, JointObjective):
            self.price = float(objective.price.value)
        self.members.append(member.requires_grad_(False))
        if self.halts and not self.by_folds:
            self.columns.append(self._answer(member))

    def finish(self) -> Trained:
        """Fit what is fitted on frozen members: weights, temperatures, the selector, its threshold."""
        options, training = self.options, self.training
        if options.later == "go-on":  # the best first
            self.members.reverse()
            self.columns.reverse()
        if not self.halts:
            return Trained(members=self.members, policy=Never())
        aggregation = Aggregation.equal(len(self.members))
        self._take_heldout()
        if options.recipe == "irene":
            aggregation = fit_aggregation(self._bank(), weights=options.weights)
            evidence = self._evidence(self.columns, aggregation)
            self.selector = self._new_selector()  # a fresh one: the joint one followed members that still changed
            fit_selector(
                training.loop,
                self.selector,
                evidence,
                self._price(),
                ensemble=self.weights.ensemble,
                cost=self.weights.cost,
            )
        footprint = self._footprint(aggregation)
        self.selector.cpu().eval()
        policy = self.selector.at(self._threshold(aggregation))
        facts = {"selector": dataclasses.asdict(footprint)}
        return Trained(members=self.members, policy=policy, aggregation=aggregation, facts=facts)

    def _objective(self, rows: Tensor | None = None, *, fold: bool = False) -> Objective:
        """What the next member is trained for, on the training samples or those `rows` of them."""
        options, training = self.options, self.training
        if not self.members or "joint" in options.without:
            return self.base
        earlier = self._earlier(rows)
        if options.recipe == "paper":
            costs_T = self._costs()
            costs_T = (costs_T / costs_T.max())[: len(self.members) + 1].to(training.device, torch.float32)
            optimizer = self._selector_optimizer()
            return PaperObjective(self.base, earlier, self.selector, optimizer, self.weights, costs_T)
        self.selector.to(training.device)
        selector = self.selector if self.halts else None
        member = MemberObjective(self.base, earlier, rank=self.weights.rank, selector=selector)
        if fold or not self.halts:
            return member
        # Until the newest member has outputs of its own on the evidence, those of the one before stand in.
        columns = self.columns if self.by_folds else [*self.columns, self.columns[-1]]
        return JointObjective(
            member,
            self.selector,
            self._selector_optimizer(),
            self.weights,
            evidence=self._evidence(columns),
            price=self._price(len(columns)),
            answer=None if self.by_folds else self._answer,
        )

    def _answer(self, model: nn.Module) -> Tensor:
        return self.training.outputs(model, self.samples)

    def _measure_costs(self) -> tuple[Cost, ...]:
        """The cost of each member, measured before training; a cost that no threshold can meet is refused here."""
        training, options = self.training, self.options
        costs = training.loop.world.told(training.costs(heads=2))  # all processes use the times of one
        vector = cost_vector(costs, options.cost_unit)
        least, most = float(vector[0]), float(vector.sum())
        met = options.asked is None or 0.999 * least <= options.asked <= 1.001 * most  # ends as they are written
        if not met and len(costs) == 1:
            training.note("the only member runs on every sample, whatever cost is asked for")
        elif not met and options.asked is not None:
            first, whole = (possible(cost, options.cost_unit) for cost in (least, most))
            raise OptionError(
                f"a mean cost of {wanted(options.asked, options.cost_unit)} cannot be reached: these members cost "
                f"{first} (the first alone) to {whole} (all of them); ask for a cost between these, or in another unit "
                "(cost_unit)"
            )
        return costs

    def _costs(self, steps: int | None = None) -> Tensor:
        return cost_vector(self.costs[:steps], self.options.cost_unit)

    def _price(self, steps: int | None = None) -> Price:
        loop = self.training.loop
        asked = self.options.asked
        return Price(self._costs(steps), asked=asked, start=self.price, device=loop.device, world=loop.world)

    def _bank(self) -> Bank:
        return Bank(
            task=self.training.task,
            outputs=torch.stack(self.columns, 1),
            targets=self.samples.targets,
            ids=self.samples.ids,
            costs=self.costs,
        )

    def _evidence(self, columns: Sequence[Tensor], aggregation: Aggregation | None = None) -> Evidence:
        return Evidence(
            torch.stack(list(columns), 1),
            self.samples.targets,
            names=self.selector.features,
            task=self.training.task,
            device=self.training.device,
            aggregation=aggregation,
            scale_K=self.training.scale_K,
        )

    def _selector_optimizer(self) -> OptimizerOptions:
        """Adam, which steps down where the backbone's schedule has its milestones, by a decay of its own (A.1.1)."""
        milestones = self.training.loop_options.optimizer.schedule.milestones
        schedule = Schedule(kind="multistep", milestones=milestones, decay=self.options.selector_decay)
        return OptimizerOptions(kind="adam", lr=self.options.selector_lr, weight_decay=1e-4, schedule=schedule)

    def _earlier(self, rows: Tensor | None) -> Earlier:
        """What the members so far answer on a batch: out of fold, else once for all where samples stay the same."""
        training = self.training
        if self.by_folds:
            return look_up(self.columns[: len(self.members)], training.device, rows)
        return earlier_answers(training, self.members, self.answered)

    def _out_of_fold(self, index: int) -> Tensor:
        """(N, H, K) outputs of member `index` on the training set, each by a model that did not train on it."""
        training = self.training
        column: Tensor | None = None
        parts = fold_indices(self.samples.targets, self.options.folds, training.loop.seed)
        for number, (inside, outside) in enumerate(parts):
            model = training.new_member(index, heads=2, name=f"fold-{number}")
            stage = f"member-{index + 1}-fold-{number + 1}"
            objective = self._objective(inside, fold=True)
            training.fit(stage, model, objective, samples=self.samples.subset(inside))
            outputs = training.outputs(model, self.samples.subset(outside))
            column = torch.zeros(len(self.samples), *outputs.shape[1:]) if column is None else column
            column[outside] = outputs
        assert column is not None
        return column

    def _take_heldout(self) -> None:
        """Use a held-out slice, if there is one, for the last fits: models of folds saw less data than the members."""
        heldout = self.training.splits.heldout
        if self.by_folds and len(heldout):
            self.samples = heldout
            self.columns = [self.training.outputs(member, heldout) for member in self.members]
        elif self.by_folds:
            self.training.note(folds_note(self.options.folds))

    def _footprint(self, aggregation: Aggregation) -> Footprint:
        """What the selector costs beside a member, on this device."""
        training = self.training
        rule = Rule(self.selector.to(training.device).eval(), aggregation, training.task)
        rows = torch.arange(min(COST_BATCH, len(training.splits.train))) % len(self.samples)
        footprint = measure_footprint(rule, self.columns[0][rows].to(training.device), self.costs)
        training.loop.recorder.console.print(f"selector: {footprint}", highlight=False, soft_wrap=True)
        return footprint

    def _threshold(self, aggregation: Aggregation) -> float:
        """The threshold that gives the cost asked for, on samples that no member trained on."""
        options, training = self.options, self.training
        line = frontier(self._bank(), self.selector, aggregation, options.cost_unit)
        threshold = self.selector.threshold
        if options.asked is not None:
            threshold = line.threshold_for(options.asked)
        steps_N = line.trajectory.halting_steps(threshold)
        commonest = int(steps_N.mode().values)
        alike = float((steps_N == commonest).double().mean())
        if alike > COLLAPSED and not self._asked_for(commonest):
            training.note(collapse_note(alike, commonest, options.recipe))
        return threshold

    def _asked_for(self, step: int) -> bool:
        """Whether the cost asked for means that nearly every sample stops at this step."""
        totals_T = self._costs().cumsum(0)
        asked = self.options.asked
        return asked is not None and abs(asked - float(totals_T[step - 1])) <= (1 - COLLAPSED) * float(totals_T[-1])


def collapse_note(alike: float, step: int, recipe: Recipe) -> str:
    """What to tell a user whose selector treats all samples alike."""
    remedy = "ask for another cost, or give the selector more samples to learn from (--heldout)"
    if recipe == "paper":
        remedy = "use the recipe irene, whose selector learns from samples that no member has seen"
    return f"the selector has collapsed: {alike:.1%} of samples stop after member {step}; {remedy}"


def folds_note(folds: int) -> str:
    """What to tell a user who keeps nothing aside: no sample is left that the members themselves have not seen."""
    return (
        f"with nothing held out the threshold was set on models that saw {folds - 1} of {folds} folds: the members saw "
        "all, are surer, and will cost less than was asked; keep some samples aside (--heldout), use more folds, or "
        "set the threshold on other data with `irene calibrate RUN --data SPEC --cost COST`"
    )


METHOD = Method(
    name="irene",
    description="members and a learned selector trained together; stops each sample at the cost you ask for",
    train=train,
    options=IreneOptions,
    needs_heldout=True,
)
