"""Who learns from which term: no ensemble or cost gradient reaches a member, none an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from irene.bank import Bank
from irene.data.loader import Batch
from irene.halting import maths
from irene.halting.features import feature_table
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.training import losses
from irene.training.evidence import Evidence
from irene.training.joint import JointObjective, LossWeights, MemberObjective, PaperObjective
from irene.training.objective import Objective, Supervised
from irene.training.options import OptimizerOptions
from irene.training.selecting import PRICE_DAMPING, PRICE_STEP, Price
from irene.types import Task

CPU = torch.device("cpu")
TASKS: tuple[Task, ...] = ("classification", "regression")
WEIGHTS = LossWeights(ensemble=0.7, cost=0.3, rank=0.5, discrepancy=0.2)


class TwoHeads(nn.Module):
    """A linear member with two heads."""

    def __init__(self, outputs: int = 4) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 2 * outputs)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x)
        return output.unflatten(1, (2, -1))


@dataclass
class Scene:
    """Two members that are trained already, the one in training, the selector, and a batch."""

    task: Task
    earlier: list[TwoHeads]
    member: TwoHeads
    selector: Selector
    batch: Batch
    evidence: Evidence
    base: Supervised

    def outputs_before(self, batch: Batch) -> Tensor:
        # Deliberately with gradients: the objectives must not need the caller's care.
        return torch.stack([member(batch.inputs) for member in self.earlier], 1)

    def member_objective(self, *, selector: bool = True) -> MemberObjective:
        chosen = self.selector if selector else None
        return MemberObjective(self.base, self.outputs_before, rank=WEIGHTS.rank, selector=chosen)

    def joint(self, asked: float | None = 1.5) -> JointObjective:
        return JointObjective(
            self.member_objective(),
            self.selector,
            OptimizerOptions(kind="adam"),
            WEIGHTS,
            evidence=self.evidence,
            price=Price(torch.ones(3), asked=asked, start=0.1, device=CPU),
            answer=None,
        )

    def paper(self) -> PaperObjective:
        costs = torch.tensor([1.0, 2.0, 3.0])
        return PaperObjective(
            self.base, self.outputs_before, self.selector, OptimizerOptions(kind="adam"), WEIGHTS, costs
        )

    def learners(self, objective: Objective) -> dict[str, set[str]]:
        """Term by term, the parts that receive a gradient that is not all zero."""
        parts = {"member": self.member, "selector": self.selector, "earlier": nn.ModuleList(self.earlier)}
        terms = objective.terms(self.batch, self.member(self.batch.inputs))
        found = {}
        for name, term in terms.items():
            found[name] = set()
            for part, module in parts.items():
                if not term.requires_grad:
                    continue
                gradients = torch.autograd.grad(term, list(module.parameters()), allow_unused=True, retain_graph=True)
                if any(gradient is not None and bool(gradient.any()) for gradient in gradients):
                    found[name].add(part)
        return found


@pytest.fixture(params=TASKS)
def scene(request: pytest.FixtureRequest, make_bank: Callable[..., Bank]) -> Scene:
    task: Task = request.param
    targets = torch.randint(4, (64,)) if task == "classification" else torch.randn(64, 4)
    bank = make_bank(100, task=task, accuracy=0.5)
    selector = Selector(task=task)
    nn.init.normal_(selector.out.weight)
    scale = None if task == "classification" else torch.full((4,), 2.0)
    evidence = Evidence(bank.outputs, bank.targets, names=selector.features, task=task, device=CPU, scale_K=scale)
    selector.standardise(evidence.features)
    return Scene(
        task=task,
        earlier=[TwoHeads(), TwoHeads()],
        member=TwoHeads(),
        selector=selector,
        batch=Batch(torch.randn(64, 5), targets, torch.arange(64), torch.arange(64)),
        evidence=evidence,
        base=Supervised(task, scale_K=scale, discrepancy=WEIGHTS.discrepancy),
    )


def test_supervised_terms_train_the_member(scene: Scene) -> None:
    assert scene.learners(scene.base) == {"base": {"member"}, "discrepancy": {"member"}}
    output = scene.member(scene.batch.inputs)
    terms = scene.base.terms(scene.batch, output)
    scale = scene.base.scale_K
    torch.testing.assert_close(terms["base"], losses.base_loss(output, scene.batch.targets, scene.task, scale))
    apart = losses.head_discrepancy(output, scene.task, scale)
    torch.testing.assert_close(terms["discrepancy"], -WEIGHTS.discrepancy * apart)


def test_one_head_has_no_discrepancy(scene: Scene) -> None:
    assert list(scene.base.terms(scene.batch, scene.member(scene.batch.inputs)[:, :1])) == ["base"]


def test_a_later_member_learns_from_its_rank_and_nobody_else_does(scene: Scene) -> None:
    for selector in (True, False):
        found = scene.learners(scene.member_objective(selector=selector))
        assert found == {"base": {"member"}, "discrepancy": {"member"}, "rank": {"member"}}


def reference_rank(scene: Scene, reached_B: np.ndarray) -> float:
    """L_rank by numpy: the member's own loss against that of the mean of the two before it, on half the batch."""
    rows = np.arange(64)
    with torch.no_grad():
        before = scene.outputs_before(scene.batch)[:, :, 0].double()
        own = scene.member(scene.batch.inputs)[:, 0].double()
    targets = scene.batch.targets.numpy()
    if scene.task == "classification":
        own_loss = -np.log(own.softmax(1).numpy()[rows, targets])
        before_loss = -np.log(before.softmax(2).mean(1).numpy()[rows, targets])
    else:
        own_loss = (((own.numpy() - targets) / 2) ** 2).mean(1)
        before_loss = (((before.mean(1).numpy() - targets) / 2) ** 2).mean(1)
    return float(np.maximum(0, reached_B * (own_loss - before_loss))[:32].mean())


def test_a_members_rank_weighs_samples_by_their_chance_to_reach_it(scene: Scene) -> None:
    with torch.no_grad():
        before = scene.outputs_before(scene.batch)
        features, _ = feature_table(scene.selector.features, before, Aggregation.equal(2), scene.task)
        h_B2 = scene.selector.halting_logits(features).sigmoid().double().numpy()
        output = scene.member(scene.batch.inputs)
        terms = scene.member_objective().terms(scene.batch, output)
        always = scene.member_objective(selector=False).terms(scene.batch, output)
    reached_B = (1 - h_B2[:, 0]) * (1 - h_B2[:, 1])
    assert terms["rank"].item() == pytest.approx(WEIGHTS.rank * reference_rank(scene, reached_B), rel=1e-4)
    assert always["rank"].item() == pytest.approx(WEIGHTS.rank * reference_rank(scene, np.ones(64)), rel=1e-4)


def test_a_rank_weight_of_zero_switches_it_off(scene: Scene) -> None:
    def never(_: Batch) -> Tensor:
        raise AssertionError("the members before are not needed")

    objective = MemberObjective(scene.base, never, rank=0.0, selector=scene.selector)
    assert list(objective.terms(scene.batch, scene.member(scene.batch.inputs))) == ["base", "discrepancy"]


def test_joint_terms_reach_either_the_member_or_the_selector(scene: Scene) -> None:
    assert scene.learners(scene.joint()) == {
        "base": {"member"},
        "discrepancy": {"member"},
        "rank": {"member"},
        "ensemble": {"selector"},
        "cost": {"selector"},
        "selector_rank": {"selector"},
    }


def test_joint_terms_are_expectations_over_the_evidence(scene: Scene) -> None:
    objective = scene.joint()
    torch.manual_seed(3)
    terms = objective.terms(scene.batch, scene.member(scene.batch.inputs))
    torch.manual_seed(3)
    rows = torch.randint(100, (100,))
    h = scene.selector.halting_logits(scene.evidence.features[rows]).sigmoid().detach().double().numpy()
    p = np.stack([h[:, 0], (1 - h[:, 0]) * h[:, 1], (1 - h[:, 0]) * (1 - h[:, 1])], 1)
    regret = scene.evidence.regret[rows].double().numpy()
    assert terms["ensemble"].item() == pytest.approx(0.7 * (p * regret).sum(1).mean(), rel=1e-4)
    cost = (p @ [1, 2, 3]).mean()
    excess = cost - 1.5  # the wish of scene.joint
    price = 0.1 + PRICE_STEP * excess + PRICE_DAMPING * excess
    assert terms["cost"].item() == pytest.approx(0.3 * price * cost, rel=1e-4)
    gap = (scene.evidence.member_loss - scene.evidence.reference_loss)[rows].double().numpy()
    expected = 0.5 * np.maximum(0, p[:, 2] * gap).mean()
    assert terms["selector_rank"].item() == pytest.approx(expected, rel=1e-4)


def test_joint_figures_show_who_reaches_which_member(scene: Scene) -> None:
    figures = scene.joint().figures()
    with torch.no_grad():
        S = maths.survival(scene.selector.halting_logits(scene.evidence.features).sigmoid())
    assert figures["S1"] == 1
    assert figures["S3"] == pytest.approx(S[:, 2].mean().item(), rel=1e-5)
    assert figures["expected_members"] == pytest.approx(sum(figures[f"S{t}"] for t in (1, 2, 3)), rel=1e-5)
    assert figures["price"] == pytest.approx(0.1)


def test_an_epoch_begins_with_the_member_as_it_is(scene: Scene) -> None:
    newest = scene.evidence.outputs[:, -1].flip(0).clone()
    asked = []
    objective = scene.joint()
    objective.answer = lambda model: (asked.append(model), newest)[1]
    objective.begin_epoch(scene.member, 0)
    assert asked == [scene.member]
    assert torch.equal(scene.evidence.outputs[:, -1], newest)
    scaled = ((scene.evidence.features - scene.selector.mean_F) / scene.selector.std_F).flatten(0, 1)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(scaled.shape[1]), rtol=0, atol=1e-3)


def test_paper_rank_reaches_both_and_the_rest_either(scene: Scene) -> None:
    assert scene.learners(scene.paper()) == {
        "base": {"member"},
        "discrepancy": {"member"},
        "ensemble": {"selector"},
        "cost": {"selector"},
        "rank": {"member", "selector"},
    }


def test_paper_terms_are_the_equations_of_one_draw(scene: Scene) -> None:
    objective = scene.paper()
    output = scene.member(scene.batch.inputs)
    torch.manual_seed(7)
    terms = objective.terms(scene.batch, output)
    with torch.no_grad():
        outputs = torch.cat([scene.outputs_before(scene.batch), output[:, None]], 1)
        features, _ = feature_table(scene.selector.features, outputs, Aggregation.equal(3), scene.task)
        torch.manual_seed(7)
        h = losses.sample_halting(scene.selector.halting_logits(features)).numpy()
    S = np.stack([np.ones(64), 1 - h[:, 0], (1 - h[:, 0]) * (1 - h[:, 1])], 1)
    step = np.where(h[:, 0] == 1, 1, np.where(h[:, 1] == 1, 2, 3))
    cost = np.array([0, 1, 3, 6])[step].mean()  # members of cost 1, 2 and 3
    assert terms["cost"].item() == pytest.approx(WEIGHTS.cost * cost, rel=1e-5)
    assert objective.figures() == {"S3": pytest.approx(S[:, 2].mean())}

    answers = outputs[:, :, 0].double()
    answers = (answers.softmax(2) if scene.task == "classification" else answers).numpy()
    targets = scene.batch.targets.numpy()

    def loss_of(answer: np.ndarray) -> np.ndarray:
        if scene.task == "classification":
            return -np.log(answer[np.arange(64), targets])
        return (((answer - targets) / 2) ** 2).mean(1)

    mean_of_run = (S[:, :, None] * answers).sum(1) / S.sum(1)[:, None]
    assert terms["ensemble"].item() == pytest.approx(WEIGHTS.ensemble * loss_of(mean_of_run).mean(), rel=1e-4)
    before = (S[:, :2, None] * answers[:, :2]).sum(1) / S[:, :2].sum(1)[:, None]
    rank = np.maximum(0, S[:, 2] * (loss_of(answers[:, 2]) - loss_of(before))).mean()
    assert terms["rank"].item() == pytest.approx(WEIGHTS.rank * rank, rel=1e-4)


def test_no_gradient_needs_an_answer_from_the_device(scene: Scene) -> None:
    """On CUDA a step is one graph, and the gradients of these operations stop to look at their input."""
    asking = {"CumprodBackward0", "ProdBackward0", "ProdBackward1", "MaskedSelectBackward0", "IndexPutBackward0"}
    for objective in (scene.member_objective(), scene.joint(), scene.paper()):
        terms = objective.terms(scene.batch, scene.member(scene.batch.inputs))
        waiting = [term.grad_fn for term in terms.values() if term.grad_fn is not None]
        seen = set()
        while waiting:
            node = waiting.pop()
            if node not in seen:
                seen.add(node)
                waiting += [following for following, _ in node.next_functions if following is not None]
        assert asking.isdisjoint(node.name() for node in seen)
