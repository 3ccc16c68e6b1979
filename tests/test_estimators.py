from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from irene.cascade import Cascade
from irene.errors import DataError, OptionError
from irene.estimators import LEAST_HELDOUT, IreneClassifier, IreneRegressor
from irene.halting.policies import Never
from irene.halting.selector import Selector
from irene.mixture import Mixture
from irene.run import Run

FEW = "held-out samples are too few to learn when to stop"
NAMES = np.array(["ant", "bee", "cat"])


def points(samples: int = 400, seed: int = 0) -> tuple[Any, Any]:
    """Three classes that overlap, so that some samples are harder than others."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=samples)
    centres = np.array([[0.0, 0, 0, 0], [1.8, 0, 1, 0], [0, 1.8, 0, 1]])
    return centres[labels] + rng.normal(size=(samples, 4)), NAMES[labels]


def curve(samples: int = 400, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, 3))
    return x, 100 + 20 * np.sin(2 * x[:, 0]) + 5 * x[:, 1]


def quick(**options: Any) -> IreneClassifier:
    return IreneClassifier(**{"members": 3, "epochs": 4, "device": "cpu", "random_state": 0, **options})


@pytest.fixture(scope="module")
def fitted() -> IreneClassifier:
    return quick().fit(*points())


def test_a_fit_that_fails_leaves_the_model_as_it_was() -> None:
    X, y = points()
    model = quick(epochs=1).fit(X, y)
    wanted = model.predict(X)
    model.set_params(cost=9)
    with pytest.raises(OptionError, match="cost"):
        model.fit(X[:, :3], np.where(y == "ant", "x", "y"))
    assert np.array_equal(model.predict(X), wanted)
    assert model.cost == 9
    fresh = quick(cost=9)
    with pytest.raises(OptionError, match="cost"):
        fresh.fit(X, y)
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_parameters_may_be_numpys_as_a_search_draws_them() -> None:
    plain = {"epochs": 2, "members": 2, "batch_size": 64, "lr": 0.0078125, "cost": 1.25, "heldout": 0.25}
    kinds = {int: np.int64, float: np.float32}
    drawn = quick(**{name: kinds[type(value)](value) for name, value in plain.items()}).fit(*points())
    assert np.array_equal(drawn.predict_proba(points()[0]), quick(**plain).fit(*points()).predict_proba(points()[0]))
    assert quick(epochs=2, method="average", heldout=np.int64(60)).fit(*points()).figures_["heldout"]["accuracy"] > 0


# scikit-learn skips one check of its own accord, check_array_api_input, unless SCIPY_ARRAY_API is set: it is for
# estimators that compute on other arrays than numpy's. None is skipped by us, and none is expected to fail.
@pytest.mark.filterwarnings(f"ignore:.*{FEW}:UserWarning")
@parametrize_with_checks(
    [
        IreneClassifier(members=2, epochs=15, lr=0.01, device="cpu"),
        IreneRegressor(members=2, epochs=15, lr=0.01, device="cpu"),
    ]
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_a_fitted_classifier_has_a_cascade_that_meets_its_cost(fitted: IreneClassifier) -> None:
    assert isinstance(fitted.cascade_, Cascade)
    assert isinstance(fitted.cascade_.policy, Selector)
    assert fitted.classes_.tolist() == NAMES.tolist()
    assert fitted.n_features_in_ == 4
    assert fitted.input_shape_ == (4,)
    assert fitted.figures_["heldout"]["cost"] == pytest.approx(1.3, abs=2 / LEAST_HELDOUT)
    assert set(fitted.figures_) == {"heldout"}
    x, y = points(seed=1)
    assert fitted.score(x, y) > 0.7
    used = fitted.members_used(x)
    assert used.shape == (400,)
    assert set(used) <= {1, 2, 3}
    assert 1 < used.mean() < 2


def test_predictions_are_those_of_the_cascade(fitted: IreneClassifier) -> None:
    x, _ = points(1500, seed=1)  # more than go through at once
    with torch.no_grad():
        expected = fitted.cascade_.predict(torch.from_numpy(x.astype(np.float32)))
    np.testing.assert_allclose(fitted.predict_proba(x), expected.probs, atol=1e-6)
    assert fitted.predict(x).tolist() == NAMES[expected.labels].tolist()
    assert fitted.members_used(x).tolist() == expected.members_used.tolist()


def test_the_same_random_state_gives_the_same_model(fitted: IreneClassifier) -> None:
    x, _ = points(seed=1)
    again = clone(fitted).fit(*points())
    np.testing.assert_array_equal(again.predict_proba(x), fitted.predict_proba(x))


def test_another_random_state_gives_another_model() -> None:
    x, _ = points(seed=1)
    states = (1, 2, np.random.RandomState(5), np.random.RandomState(5))
    one, two, *drawn = (quick(random_state=state, method="single").fit(*points()).predict_proba(x) for state in states)
    assert not np.array_equal(one, two)
    np.testing.assert_array_equal(*drawn)


def test_a_copy_made_of_the_pickled_state_answers_the_same(fitted: IreneClassifier) -> None:
    x, _ = points(seed=1)
    again = copy.deepcopy(fitted)
    np.testing.assert_array_equal(again.predict_proba(x), fitted.predict_proba(x))
    assert again.device_ == torch.device("cpu")


def test_the_run_can_be_kept(tmp_path: Path) -> None:
    x, y = points()
    model = quick(method="average", random_state=7, out=tmp_path / "run").fit(x, y)
    run = Run.open(tmp_path / "run")
    assert run.method == "average"
    assert run.manifest["seed"] == 7
    assert run.manifest["data"]["classes"] == NAMES.tolist()
    expected = run.cascade().predict(torch.from_numpy(x.astype(np.float32)))
    np.testing.assert_array_equal(model.predict_proba(x), expected.probs)


def test_no_files_are_left_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    quick(method="single").fit(*points())
    assert list(tmp_path.iterdir()) == []


def test_few_samples_are_all_used_for_members_that_never_stop() -> None:
    x, y = points(5 * LEAST_HELDOUT - 5)
    with pytest.warns(UserWarning, match=f"{LEAST_HELDOUT - 1} {FEW}") as caught:
        model = quick().fit(x, y)
    assert caught[0].filename == __file__
    assert isinstance(model.cascade_.policy, Never)
    assert model.members_used(x).tolist() == [3] * len(x)
    assert model.figures_ == {}
    assert isinstance(quick(heldout=LEAST_HELDOUT).fit(x, y).cascade_.policy, Selector)


def test_a_class_with_one_sample_is_learned_too() -> None:
    x, y = points(20)
    x, y = np.concatenate([x, x[:1] + 30]), np.append(y, "dog")
    with pytest.warns(UserWarning, match=FEW):
        model = quick(epochs=40).fit(x, y)
    assert model.predict(x[-1:]).tolist() == ["dog"]


def test_a_method_that_does_not_learn_when_to_stop_needs_no_held_out_slice(tmp_path: Path) -> None:
    x, y = points(30)
    sizes = {}
    for name, heldout in {"default": None, "asked": 0.2}.items():
        quick(method="average", heldout=heldout, out=tmp_path / name).fit(x, y)
        sizes[name] = Run.open(tmp_path / name).manifest["data"]["sizes"]["train"]
    assert sizes == {"default": 30, "asked": 24}


@pytest.mark.parametrize("method", ["irene", "woc"])
def test_every_method_that_needs_held_out_samples_gives_way_without_them(method: str) -> None:
    x, y = points(120)
    with pytest.warns(UserWarning, match=f"24 {FEW}"):
        model = quick(method=method).fit(x, y)
    assert isinstance(model.cascade_.policy, Never)
    assert quick(method=method, heldout=LEAST_HELDOUT).fit(x, y).figures_["heldout"]["accuracy"] > 0.6


def test_a_mixture_of_experts_is_an_estimator_too() -> None:
    x, y = points()
    model = quick(method="moe").fit(x, y)
    assert isinstance(model.cascade_, Mixture)
    assert model.score(x, y) > 0.6
    again = copy.deepcopy(model)
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("last", [True, False])
def test_images(dtype: Any, last: bool) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 30)
    images = rng.integers(100, size=(60, 3, 8, 8)) + 120 * labels[:, None, None, None] * (np.arange(8) < 4)
    images = (np.moveaxis(images, 1, -1) if last else images).astype(dtype)
    model = quick(method="single", epochs=6).fit(images, labels)
    assert model.input_shape_ == (3, 8, 8)
    assert model.score(images, labels) > 0.9


def test_samples_of_another_shape_are_refused() -> None:
    images = np.zeros((40, 1, 8, 8), np.uint8)
    model = quick(method="single", epochs=1).fit(images, np.arange(40) % 2)
    with pytest.raises(ValueError, match=r"fitted on samples of shape \(1, 8, 8\), got \(1, 6, 6\)"):
        model.predict(images[:, :, :6, :6])


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 classes, got 1 class: ant"):
        quick().fit(np.zeros((10, 2)), ["ant"] * 10)


def test_mistaken_options_are_told_at_fit() -> None:
    x, y = points(20)
    for options, message in (
        ({"method": "irine"}, "no method is called 'irine': did you mean irene"),
        ({"method": "average", "backbones": "mpl"}, "no backbone is called 'mpl'"),
        ({"method": "average", "optimizer": "adamw"}, "optimizer must be sgd or adam"),
        ({"heldout": 2.0}, "heldout must be a share"),
    ):
        with pytest.raises(ValueError, match=message):
            quick(**options).fit(x, y)


def test_backbones_may_be_one_or_one_a_member() -> None:
    x, y = points(20)
    for backbones in ("mlp", ("mlp", "mlp"), ["mlp", "mlp"]):
        model = quick(method="average", members=2, backbones=backbones, epochs=1).fit(x, y)
        assert [member.spec.backbone for member in model.cascade_.members] == ["mlp", "mlp"]


def test_progress_goes_to_stderr_when_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    quick(method="single", verbose=True, epochs=1).fit(*points(20))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "member-1" in shown.err


def test_a_regressor_stops_early_and_answers_in_the_units_of_its_targets() -> None:
    model = IreneRegressor(cost=1.5, epochs=10, device="cpu", random_state=0).fit(*curve())
    x, y = curve(seed=1)
    assert model.score(x, y) > 0.7
    assert model.predict(x).shape == (400,)
    assert model.figures_["heldout"]["cost"] == pytest.approx(1.5, abs=2 / LEAST_HELDOUT)
    assert 1 < model.members_used(x).mean() < 2.5
    assert model.n_outputs_ == 1


@pytest.mark.parametrize("method", ["average", "irene"])
def test_the_units_of_targets_do_not_matter(method: str) -> None:
    """One of the two targets is the same everywhere: it is answered as it is, and takes nothing from the other."""
    x, y = curve()
    targets = np.stack([y, np.full_like(y, 0.1)], 1)
    found = []
    for unit in (1.0, 1e-6, 1e-10, 1e6):
        model = IreneRegressor(method, members=2, cost=1.5, epochs=5, device="cpu", random_state=0)
        values = model.fit(x, unit * targets).predict(x) / unit
        np.testing.assert_allclose(values[:, 1], 0.1, rtol=1e-6)
        found.append((r2_score(y, values[:, 0]), model.members_used(x).mean()))
    assert found[0][0] > 0.5
    for score, members in found[1:]:
        assert score == pytest.approx(found[0][0], abs=0.01)
        assert members == pytest.approx(found[0][1], abs=0.05)


def test_values_too_large_to_learn_are_refused() -> None:
    x, y = curve()
    with pytest.raises(DataError, match=r"y must fit float32, got values up to .*e\+\d+: scale them down"):
        IreneRegressor("average", epochs=1, device="cpu").fit(x, y * 1e200)


def test_a_regressor_of_several_values() -> None:
    x, y = curve()
    both = np.stack([y, -y / 1000], 1)
    model = IreneRegressor("average", epochs=10, device="cpu", random_state=0).fit(x, both)
    assert model.predict(x).shape == (400, 2)
    assert model.score(x, both) > 0.7


def test_it_works_inside_pipelines_and_searches() -> None:
    pipeline = make_pipeline(StandardScaler(), quick(method="average", epochs=2, members=2))
    search = GridSearchCV(pipeline, {"ireneclassifier__lr": [1e-5, 0.01]}, cv=2)
    search.fit(*points(120))
    assert search.best_params_ == {"ireneclassifier__lr": 0.01}


def test_models_fitted_in_threads_are_those_fitted_alone() -> None:
    x, y = points()
    models = [quick(epochs=4) for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(lambda model: model.fit(x, y), models))
    for model in models:
        assert np.array_equal(model.predict_proba(x), models[0].predict_proba(x))
    assert np.array_equal(models[0].predict_proba(x), quick(epochs=4).fit(x, y).predict_proba(x))


def test_a_search_over_the_number_of_members_begins_with_one() -> None:
    search = GridSearchCV(quick(epochs=1), {"members": [1, 2]}, cv=2, error_score="raise")
    search.fit(*points(600))
    assert search.best_params_["members"] in (1, 2)


def test_samples_without_an_answer_have_no_class(fitted: IreneClassifier) -> None:
    X = points(20)[0].astype(np.float32)
    broken = copy.deepcopy(fitted)
    broken.cascade_.members[0].register_forward_hook(
        lambda module, inputs, output: torch.where(torch.arange(len(output))[:, None, None] == 3, torch.nan, output)
    )
    assert np.isnan(broken.predict_proba(X)).any(1).tolist() == [row == 3 for row in range(20)]
    with pytest.raises(DataError, match="1 of 20 samples have no class, as a member gave NaN or infinity"):
        broken.predict(X)
