from __future__ import annotations

import pickle
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC
from torch import Tensor, nn

from irene.bank import Bank
from irene.cascade import Cascade
from irene.errors import DataError, MissingExtraError, OptionError
from irene.halting.policies import Margin
from irene.models.adapters import as_batch, as_member
from irene.runtime.engine import Engine
from irene.runtime.stream import Stream
from irene.types import Cost

X = np.random.default_rng(0).normal(size=(80, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] > 1)


class Classifier(nn.Module):
    """Stands in for a Hugging Face image classifier: batch by keyword, answer in an object."""

    main_input_name = "pixel_values"

    def __init__(self) -> None:
        super().__init__()
        self.config = SimpleNamespace(num_labels=3)
        self.layer = nn.Linear(4, 3)

    def forward(self, *, pixel_values: Tensor) -> Any:
        return SimpleNamespace(logits=self.layer(pixel_values), hidden_states=None)


def write_onnx(
    path: Path,
    weight: Any,
    *,
    batch: int | str = "batch",
    output: str = "scores",
    before: str = "MatMul",
    dtype: int = TensorProto.FLOAT,
) -> Path:
    """A file that multiplies rows by a matrix; its first output, a label, is there to be passed over."""
    weight = np.asarray(weight, np.float32)
    rows, columns = weight.shape
    nodes = [
        helper.make_node("Cast", ["x"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["floats", "w"], [output if before == "MatMul" else "product"]),
        helper.make_node("ArgMax", [output], ["label"], axis=1, keepdims=0),
    ]
    if before != "MatMul":
        nodes.insert(2, helper.make_node(before, ["product"], [output], axis=1))
    graph = helper.make_graph(
        nodes,
        "rows by a matrix",
        [helper.make_tensor_value_info("x", dtype, [batch, rows])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [batch]),
            helper.make_tensor_value_info(output, TensorProto.FLOAT, [batch, columns]),
        ],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def test_a_torch_module_stays_itself_and_is_put_in_evaluation_mode() -> None:
    module = nn.Sequential(nn.Linear(4, 3), nn.Dropout())
    cascade = Cascade.from_members([module.train()])
    assert cascade.members == (module,)
    assert not module.training


def test_a_classifier_answers_with_its_own_probabilities() -> None:
    model = LogisticRegression().fit(X, Y)
    prediction = Cascade.from_members([model]).predict(X)
    np.testing.assert_allclose(prediction.probs, model.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize("model", [RandomForestClassifier(5, random_state=0), MLPClassifier((4,), max_iter=5)])
def test_a_classifier_of_several_labels_at_once_is_refused(model: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # so few steps do not converge
        model.fit(X, X > 0)
    with pytest.raises(OptionError, match=r"Classifier tells every label's own probability: members give one class"):
        Cascade.from_members([model]).predict(X[:2])


def test_probabilities_of_zero_become_finite_logits() -> None:
    model = RandomForestClassifier(5, random_state=0).fit(X, Y)
    assert (model.predict_proba(X) == 0).any()
    logits = as_member(model)(torch.from_numpy(X))
    assert bool(logits.isfinite().all())
    np.testing.assert_allclose(logits.softmax(1), model.predict_proba(X), atol=1e-6)


def test_a_cascade_of_classifiers_is_their_average_over_the_members_used() -> None:
    models = [GaussianNB().fit(X, Y), RandomForestClassifier(5, random_state=0).fit(X, Y)]
    prediction = Cascade.from_members(models, Margin(0.9)).predict(X)
    first, second = (model.predict_proba(X.astype(np.float32)) for model in models)
    top = np.sort(first, axis=1)
    stops = top[:, -1] - top[:, -2] >= 0.9
    assert 0 < stops.mean() < 1
    assert prediction.members_used.tolist() == np.where(stops, 1, 2).tolist()
    np.testing.assert_allclose(prediction.probs, np.where(stops[:, None], first, (first + second) / 2), atol=1e-5)


def test_regressors_make_a_cascade_for_regression() -> None:
    one, two = LinearRegression().fit(X, X[:, 0]), LinearRegression().fit(X, X[:, 1])
    cascade = Cascade.from_members([one, two])
    assert cascade.task == "regression"
    np.testing.assert_allclose(cascade.predict(X).values[:, 0], (X[:, 0] + X[:, 1]) / 2, atol=1e-5)
    several = LinearRegression().fit(X, X[:, :2])
    np.testing.assert_allclose(Cascade.from_members([several]).predict(X).values, X[:, :2], atol=1e-5)


def test_images_are_flattened_for_scikit_learn() -> None:
    model = LogisticRegression().fit(X, Y)
    images = X.reshape(80, 1, 2, 2)
    np.testing.assert_allclose(Cascade.from_members([model]).predict(images).probs, model.predict_proba(X), atol=1e-6)


def test_no_samples_get_no_answers_from_scikit_learn() -> None:
    images = as_batch(X.reshape(80, 1, 2, 2))
    cascade = Cascade.from_members([LogisticRegression().fit(X, Y), GaussianNB().fit(X, Y)], Margin(0.9))
    prediction = cascade.predict(images[:0])
    assert prediction.probs.shape == (0, 3)
    assert prediction.trace.shape == (0, 2)
    values = Cascade.from_members([LinearRegression().fit(X, X[:, :2])])
    assert values.predict(X[:0]).values.shape == (0, 2)


def test_scikit_learn_gets_the_numbers_that_it_was_given() -> None:
    """Nine digits, such as those of an identifier, are one too many for float32."""
    numbers = 123_456_000.0 + np.arange(60.0)
    rows, labels = np.column_stack([numbers, np.zeros(60)]), np.arange(60) % 3
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(C=100.0)).fit(rows, labels)
    whole = Cascade.from_members([model, model], Margin(2.0), example=rows)
    expected = model.predict_proba(rows)
    assert np.array_equal(expected.argmax(1), labels)
    np.testing.assert_allclose(whole.predict(rows).probs, expected, atol=1e-6)
    for bank in (Bank.of(whole, rows, labels), Bank.of(whole, [(rows[:30], labels[:30]), (rows[30:], labels[30:])])):
        np.testing.assert_allclose(bank.replay().probs, expected, atol=1e-6)
    np.testing.assert_allclose(Engine(whole, rows[:1]).predict(rows).probs, expected, atol=1e-6)
    (streamed,) = Stream(whole, rows[:1]).predict([rows])
    np.testing.assert_allclose(streamed.probs, expected, atol=1e-6)
    beside = Cascade.from_members([model, nn.Linear(2, 3)])  # which takes float32, and all members get the same
    assert beside.predict(rows).probs.isfinite().all()


@pytest.mark.parametrize("kind", [">f4", ">f8", ">i2", "<f4"])
def test_arrays_may_have_the_byte_order_of_another_machine(kind: str) -> None:
    array = (10 * X).astype(kind)
    np.testing.assert_array_equal(as_batch(array).numpy(), array.astype(np.float32))


def test_classes_in_another_order_are_refused() -> None:
    names = np.array(["cat", "dog", "eel"])
    models = [GaussianNB().fit(X, names[Y]), GaussianNB().fit(X, names[2 - Y]), GaussianNB().fit(X, Y)]
    Cascade.from_members(models[:2])  # the same names, so sorted alike
    with pytest.raises(OptionError, match=r"\['cat', 'dog', 'eel'\] and member 3 has \[0, 1, 2\]"):
        Cascade.from_members(models)


@pytest.mark.parametrize("shift", [lambda y: y + 1, lambda y: 2 * y, lambda y: y - 1.0])
def test_classes_with_other_numbers_than_their_places_are_told_once(shift: Any) -> None:
    models = [GaussianNB().fit(X, shift(Y)), LogisticRegression().fit(X, shift(Y))]
    with pytest.warns(UserWarning, match=r"know the classes .*, and irene counts places: .*searchsorted") as told:
        cascade = Cascade.from_members(models)
    assert len(told) == 1
    assert told[0].filename == __file__
    classes = models[0].classes_
    bank = Bank.of(cascade, X, np.searchsorted(classes, shift(Y)))
    right = classes[cascade.predict(X).labels] == shift(Y)
    assert right.mean() > 0.8
    assert float((bank.replay().labels == bank.targets).double().mean()) == right.mean()
    Cascade.from_members(cascade.members)  # which are wrapped, and told of, already


def test_classes_that_are_places_or_cannot_be_taken_for_them_need_no_word() -> None:
    for targets in (Y, Y > 0, Y.astype(float), np.array(["cat", "dog", "eel"])[Y]):
        Cascade.from_members([GaussianNB().fit(X, targets)])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LogisticRegression(), "LogisticRegression is not fitted yet"),
        (LinearSVC().fit(X, Y), "LinearSVC has no predict_proba: wrap it in .*CalibratedClassifierCV"),
        (3, "got int"),
        (LogisticRegression, "a member is a trained model, got the class LogisticRegression: make one of it"),
        ("model.pt", r"must be a \.onnx file"),
    ],
)
def test_what_cannot_be_a_member_is_refused(model: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Cascade.from_members([model])


def test_classifiers_and_regressors_do_not_mix() -> None:
    classifier, regressor = GaussianNB().fit(X, Y), LinearRegression().fit(X, Y)
    with pytest.raises(OptionError, match="got both"):
        Cascade.from_members([classifier, regressor])
    with pytest.raises(OptionError, match="task is regression and the scikit-learn members are for classification"):
        Cascade.from_members([classifier], task="regression")


@pytest.mark.parametrize("wrap", [lambda answer: answer, np.asarray, lambda answer: SimpleNamespace(logits=answer)])
def test_callables_may_answer_with_a_tensor_an_array_or_logits(wrap: Any) -> None:
    weight = torch.randn(4, 3)
    prediction = Cascade.from_members([lambda inputs: wrap(inputs @ weight)]).predict(X)
    np.testing.assert_allclose(prediction.probs, (as_batch(X) @ weight).softmax(1))


def test_a_callable_that_answers_with_something_else_is_refused() -> None:
    cascade = Cascade.from_members([lambda inputs: (inputs, inputs)])
    with pytest.raises(OptionError, match="got tuple"):
        cascade.predict(X)


class Odd(nn.Module):
    """A module of one's own whose answer is wrapped in something."""

    def __init__(self, wrap: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.wrap = wrap

    def forward(self, inputs: Tensor) -> Any:
        return self.wrap(self.layer(inputs))


@pytest.mark.parametrize("wrap", [lambda answer: answer.numpy(), lambda answer: SimpleNamespace(logits=answer)])
def test_modules_may_answer_as_callables_may(wrap: Any) -> None:
    member = Odd(wrap)
    expected = member.layer(as_batch(X)).softmax(1).detach()
    for cascade in (Cascade([member]), Cascade.from_members([member], example=X)):
        np.testing.assert_allclose(cascade.predict(X).probs, expected, atol=1e-6)
        assert Bank.of(cascade, X, Y).outputs.shape == (80, 1, 1, 3)


@pytest.mark.parametrize("wrap", [lambda answer: (answer, None), lambda answer: {"logits": answer}])
def test_a_module_that_answers_with_something_else_is_refused(wrap: Any) -> None:
    with pytest.raises(OptionError, match=r"got (tuple|dict): wrap it in a function"):
        Cascade.from_members([Odd(wrap)]).predict(X)


class Classes:
    """Not of scikit-learn, with a `predict_proba` like its own."""

    def predict_proba(self, rows: Any) -> Any:
        return np.stack([rows[:, 0] > 0, rows[:, 0] <= 0], 1) * 0.8 + 0.1


def test_whatever_has_predict_proba_is_a_classifier() -> None:
    prediction = Cascade.from_members([Classes()]).predict(X)
    np.testing.assert_allclose(prediction.probs, Classes().predict_proba(X), atol=1e-6)


def test_a_hugging_face_model_gets_its_input_by_name() -> None:
    model = Classifier()
    cascade = Cascade.from_members([model], example=X)
    expected = model.layer(as_batch(X)).softmax(1).detach()
    np.testing.assert_allclose(cascade.predict(X).probs, expected, atol=1e-6)
    assert not model.training
    assert cascade.costs[0].parameters == 15
    assert cascade.costs[0].flops == 2 * 4 * 3


@pytest.mark.parametrize("as_path", [str, Path])
def test_an_onnx_file_gives_its_first_floating_point_output(tmp_path: Path, as_path: Any) -> None:
    weight = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
    path = write_onnx(tmp_path / "model.onnx", weight)
    logits = as_member(as_path(path))(as_batch(X))
    np.testing.assert_allclose(logits, X.astype(np.float32) @ weight, atol=1e-5)


@pytest.mark.parametrize("samples", [1, 6, 8, 20])
def test_an_onnx_file_with_a_fixed_batch_takes_any_number_of_samples(tmp_path: Path, samples: int) -> None:
    path = write_onnx(tmp_path / "model.onnx", np.eye(4), batch=8)
    rows = as_batch(np.random.default_rng(1).normal(size=(samples, 4)))
    np.testing.assert_allclose(as_member(path)(rows), rows)


def test_an_onnx_file_gets_its_own_dtype(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "model.onnx", np.eye(4), dtype=TensorProto.UINT8)
    np.testing.assert_allclose(as_member(path)(torch.full((2, 4), 7.0)), np.full((2, 4), 7.0))


@pytest.mark.parametrize("wrong", [0.5, -1.0, 256.0, float("nan")])
def test_an_onnx_file_of_whole_numbers_refuses_others(tmp_path: Path, wrong: float) -> None:
    path = write_onnx(tmp_path / "model.onnx", np.eye(4), dtype=TensorProto.UINT8)
    with pytest.raises(
        DataError, match=r"model.onnx: takes whole numbers \(uint8\), got inputs .* scale and round them"
    ):
        as_member(path)(torch.tensor([[0.0, 1.0, 2.0, wrong]]))


def test_values_of_an_onnx_file_stay_values_whatever_they_are_called(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "model.onnx", np.eye(4), output="probability_of_rain")
    cascade = Cascade.from_members([path], task="regression")
    np.testing.assert_allclose(cascade.predict(X).values, X, atol=1e-6)


def test_probabilities_of_an_onnx_file_become_logits(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "model.onnx", np.eye(4) * 100, output="output_probability", before="Softmax")
    logits = as_member(path)(as_batch(X))
    assert bool(logits.isfinite().all())
    np.testing.assert_allclose(logits.softmax(1), (as_batch(X) * 100).softmax(1), atol=1e-6)


def test_a_name_that_only_begins_like_probabilities_means_logits(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "model.onnx", np.eye(4), output="probe")
    np.testing.assert_allclose(as_member(path)(as_batch(X)), as_batch(X))


def test_what_is_called_probabilities_and_is_none_is_refused(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "model.onnx", np.eye(4), output="probs")
    with pytest.raises(
        OptionError, match=r"'probs' is taken for probabilities, and gave values from -.* call an output"
    ):
        as_member(path)(as_batch(X))


def test_an_onnx_file_can_be_copied(tmp_path: Path) -> None:
    member = as_member(write_onnx(tmp_path / "model.onnx", np.eye(4), output="probs", before="Softmax"))
    again = pickle.loads(pickle.dumps(member))
    assert torch.equal(again(as_batch(X)), member(as_batch(X)))


def test_log_probabilities_of_an_onnx_file_are_logits_already(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "model.onnx", np.eye(4), output="log_probs", before="LogSoftmax")
    np.testing.assert_allclose(as_member(path)(as_batch(X)), as_batch(X).log_softmax(1), atol=1e-6)


def test_onnx_files_and_others_mix_in_one_cascade(tmp_path: Path) -> None:
    path = write_onnx(tmp_path / "model.onnx", np.ones((4, 3)))
    cascade = Cascade.from_members([GaussianNB().fit(X, Y), nn.Linear(4, 3), path, Classifier()], example=X[:16])
    assert cascade.predict(X).members_used.tolist() == [4] * 80
    assert [cost.parameters for cost in cascade.costs] == [0, 15, 0, 15]
    assert all(cost.ms > 0 for cost in cascade.costs)


def test_an_onnx_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    pair = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["sum"])],
        "two inputs",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in "ab"],
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, ["n", 2])],
    )
    label = helper.make_graph(
        [helper.make_node("ArgMax", ["a"], ["label"], axis=1)],
        "a label alone",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("label", TensorProto.INT64, ["n", 1])],
    )
    for graph, message in ((pair, "takes one batch of numbers"), (label, "as a tensor, this model gives label")):
        path = tmp_path / "model.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
        with pytest.raises(OptionError, match=message):
            as_member(path)


def test_a_missing_or_damaged_onnx_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.onnx: no such file"):
        as_member(tmp_path / "gone.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with pytest.raises(DataError, match=r"bad\.onnx: ONNX Runtime cannot open it") as caught:
        as_member(tmp_path / "bad.onnx")
    assert "\n" not in str(caught.value)


def test_without_onnxruntime_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_onnx(tmp_path / "model.onnx", np.eye(4))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"irene-ensemble\[onnx\]"):
        as_member(path)


def test_costs_are_measured_only_with_an_example() -> None:
    models = [GaussianNB().fit(X, Y), RandomForestClassifier(5, random_state=0).fit(X, Y)]
    assert Cascade.from_members(models).costs == (Cost(), Cost())
    assert all(cost.ms > 0 for cost in Cascade.from_members(models, example=X).costs)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.zeros((2, 3)), torch.float32),
        (np.zeros((2, 3), np.float32)[::-1], torch.float32),
        (np.zeros((2, 3), np.uint8), torch.uint8),
        (torch.zeros(2, 3, dtype=torch.float64), torch.float64),
    ],
)
def test_arrays_become_tensors(array: Any, dtype: torch.dtype) -> None:
    assert as_batch(array).dtype == dtype
    assert as_batch(array).shape == (2, 3)


@pytest.mark.parametrize("batch", [[torch.zeros(5, 4)], (np.zeros((5, 4)), np.zeros(5)), [torch.zeros(4)] * 2])
def test_a_list_of_tensors_is_no_batch(batch: Any) -> None:
    with pytest.raises(OptionError, match=r"expected one tensor or array, got a (list|tuple) of \d: .* batch\[0\]"):
        as_batch(batch)


@pytest.mark.parametrize(
    ("inputs", "got"), [(np.array(["a", "b"]), "ndarray of <U1"), ({"words": torch.zeros(2, 3)}, "dict of object")]
)
def test_names_are_no_inputs(inputs: Any, got: str) -> None:
    with pytest.raises(OptionError, match=f"array of numbers, got {got}: turn names .* or give row numbers"):
        as_batch(inputs)
