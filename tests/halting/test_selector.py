"""The selector: small, deterministic, the same in training and in use."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from irene.bank import Bank
from irene.errors import OptionError
from irene.halting.features import FEATURES, feature_table
from irene.halting.policies import Margin, Spread
from irene.halting.rule import Aggregation
from irene.halting.selector import Selector
from irene.models import MemberSpec, build
from irene.types import Task


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_scores_in_use_are_the_logits_of_training(make_bank: Callable[..., Bank], task: Task) -> None:
    bank = make_bank(30, task=task)
    selector = Selector(task=task)
    features, _ = feature_table(selector.features, bank.outputs, Aggregation.equal(3), task)
    selector.standardise(features)
    torch.testing.assert_close(bank.trajectory(selector).scores_NT, selector.halting_logits(features))


def test_a_threshold_of_zero_is_an_even_chance(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(50)
    selector = Selector()
    path = bank.trajectory(selector)
    halts = path.scores_NT.sigmoid()[:, :-1] >= 0.5
    expected = [next((t + 1 for t, halt in enumerate(row) if halt), 3) for row in halts.tolist()]
    assert path.halting_steps(selector.threshold).tolist() == expected


def test_the_first_step_starts_from_a_zero_state() -> None:
    selector = Selector()
    state = selector.start(4, 3, torch.device("cpu"))
    assert not state["hidden"].any()
    assert not state["memory"].any()


def test_standardised_features_have_mean_zero_and_spread_one(make_bank: Callable[..., Bank]) -> None:
    selector = Selector()
    features, _ = feature_table(selector.features, make_bank(200).outputs, Aggregation.equal(3), "classification")
    selector.standardise(features)
    scaled = ((features - selector.mean_F) / selector.std_F).flatten(0, 1)
    torch.testing.assert_close(scaled.mean(0), torch.zeros(5), rtol=0, atol=1e-4)
    torch.testing.assert_close(scaled.std(0, correction=0), torch.ones(5), rtol=0, atol=1e-4)


def test_it_may_start_as_one_logistic_regression_for_all_steps(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(300)
    selector = Selector()
    features, means = feature_table(selector.features, bank.outputs, Aggregation.equal(3), "classification")
    stays = means.argmax(2) == means[:, -1:].argmax(2)
    selector.standardise(features)
    selector.start_as_change_predictor(features, stays)
    rows = features[:, :2].flatten(0, 1).double().numpy()
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    expected = model.fit(rows, stays[:, :2].flatten().numpy()).decision_function(rows)
    found = selector.halting_logits(features)[:, :2].flatten().detach().double()
    torch.testing.assert_close(found, torch.from_numpy(expected), rtol=1e-2, atol=1e-2)


def test_where_no_answer_changes_it_stays_a_threshold_on_the_margin(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(30)
    selector = Selector()
    features, _ = feature_table(selector.features, bank.outputs, Aggregation.equal(3), "classification")
    before = selector.halting_logits(features)
    selector.start_as_change_predictor(features, torch.ones(30, 3, dtype=torch.bool))
    torch.testing.assert_close(selector.halting_logits(features), before)


def test_features_are_scaled_before_they_are_looked_at() -> None:
    features = 5 + 3 * torch.randn(40, 3, 5)
    selector = Selector()
    torch.nn.init.normal_(selector.out.weight)
    plain = selector.halting_logits((features - features.mean((0, 1))) / features.std((0, 1), correction=0))
    selector.standardise(features)
    torch.testing.assert_close(selector.halting_logits(features), plain, rtol=1e-4, atol=1e-5)


def test_a_feature_without_spread_is_not_blown_up_later() -> None:
    """Members that always agreed on held-out samples will disagree one day: by as much as they do, not by 10^6."""
    selector = Selector(features=["kl", "agreement"])
    features = torch.rand(50, 3, 2)
    features[:, :, 1] = 1.0
    selector.standardise(features)
    assert selector.std_F[1] == 1
    one_disagrees = features.clone()
    one_disagrees[:, :, 1] = 0.5
    scaled = (one_disagrees - selector.mean_F) / selector.std_F
    assert scaled.abs().max() < 10


def test_a_feature_of_tiny_units_is_still_scaled() -> None:
    selector = Selector(task="regression", features=["shift"])
    selector.standardise(1e-9 * torch.rand(100, 2, 1))
    assert selector.std_F.item() == pytest.approx(2.9e-10, rel=0.2)


def test_it_begins_as_a_threshold_on_the_margin_or_the_spread(make_bank: Callable[..., Bank]) -> None:
    bank = make_bank(50)
    path, margin = bank.trajectory(Selector()), bank.trajectory(Margin())
    assert torch.equal(path.scores_NT.flatten().argsort(stable=True), margin.scores_NT.flatten().argsort(stable=True))
    bank = make_bank(50, task="regression")
    path, spread = bank.trajectory(Selector(task="regression")), bank.trajectory(Spread())
    torch.testing.assert_close(path.scores_NT, spread.scores_NT)
    assert not bank.trajectory(Selector(task="regression", features=["shift"])).scores_NT.any()


def test_gradients_reach_every_weight() -> None:
    selector = Selector()
    with torch.no_grad():
        for parameter in selector.parameters():  # away from its start, where the output layer is still zero
            parameter.normal_()
    selector.halting_logits(torch.randn(6, 3, 5)).sigmoid().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in selector.parameters())


def test_it_is_a_vanishing_share_of_a_member() -> None:
    member = build(MemberSpec(backbone="resnet18", shape=(3, 32, 32), outputs=10, heads=2), seed=0)
    ours, papers = Selector(), Selector(features=["kl"], hidden=1)
    size, own, least = (sum(value.numel() for value in one.parameters()) for one in (member, ours, papers))
    assert own < 1e-4 * size
    assert least < 4e-6 * size


def test_options_that_cannot_work_are_refused() -> None:
    with pytest.raises(OptionError, match="at least one hidden unit, got 0"):
        Selector(hidden=0)
    with pytest.raises(OptionError, match="features for regression"):
        Selector(features=["kl"], task="regression")
    assert Selector(task="regression").features == FEATURES["regression"]


@pytest.mark.parametrize(("made", "used"), [("classification", "regression"), ("regression", "classification")])
def test_a_selector_for_another_task_is_refused(make_bank: Callable[..., Bank], made: Task, used: Task) -> None:
    with pytest.raises(OptionError, match=f"made for {made} and the cascade is for {used}"):
        make_bank(4, task=used).replay(Selector(task=made))


def test_the_compiled_selector_answers_alike_and_leaves_no_matrix_products() -> None:
    selector = Selector(hidden=6).eval()
    nn.init.normal_(selector.out.weight)
    features_BTF = torch.randn(50, 4, len(selector.features))
    seen: list[str] = []

    def look(graph: torch.fx.GraphModule, _: object) -> Callable[..., object]:
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    with torch.no_grad():
        compiled = torch.compile(selector.halting_logits, backend=look, fullgraph=True)
        torch.testing.assert_close(compiled(features_BTF), selector.halting_logits(features_BTF))
    assert seen
    assert not any("linear" in name or "lstm" in name or "mm" in name for name in seen)
