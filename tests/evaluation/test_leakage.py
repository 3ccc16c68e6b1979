"""No choice is made on test data: with other test labels, every choice is the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from irene.data import Data
from irene.data.samples import Samples
from irene.evaluation.compare import Comparison, compare
from irene.evaluation.experiment import Experiment
from irene.evaluation.studies import STUDIES
from irene.run import Run
from irene.training.methods import METHODS
from irene.training.options import LoopOptions


def shuffled(data: Data) -> Data:
    """The data with its test labels in another order."""
    order = torch.randperm(len(data.test), generator=torch.Generator().manual_seed(1))
    test = Samples(inputs=data.test.inputs, targets=data.test.targets[order], ids=data.test.ids)
    return replace(data, test=test, fingerprint="shuffled")


UNEQUAL = ("mlpx0.5", "mlp", "mlp")  # for methods where one member teaches another


@pytest.fixture(scope="module")
def both(blobs: Data, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Comparison, Comparison]]:
    """Compares methods on the data and on those with shuffled test labels."""

    def run(methods: Sequence[str], backbones: tuple[str, ...] = ()) -> tuple[Comparison, Comparison]:
        about = {"seeds": 1, "device": "cpu", "loop": LoopOptions(epochs=4, batch_size=32), "workers": 2}
        true, other = (
            compare(Experiment(data=data, out=tmp_path_factory.mktemp("runs"), backbones=backbones, **about), methods)
            for data in (blobs, shuffled(blobs))
        )
        return true, other

    return run


@pytest.fixture(scope="module")
def comparisons(both: Callable[..., tuple[Comparison, Comparison]]) -> tuple[Comparison, Comparison]:
    found: tuple[Comparison, Comparison] = both(["all"])
    return found


def choices(run: Run) -> dict[str, Any]:
    """Everything that training decides: weights, thresholds, temperatures, and when it stopped."""
    manifest = run.manifest
    return {
        "members": [entry["sha256"] for entry in manifest["members"]],
        "gate": manifest.get("gate", {}).get("sha256"),
        "policy": manifest["policy"],  # with its threshold, and the digest of what it has learned
        "aggregation": manifest["aggregation"],  # weights and temperatures
        "points": manifest["points"],
        "heldout": {key: value for key, value in manifest["figures"]["heldout"].items() if key != "ms"},
        "epochs": {stage: [record["loss"] for record in records] for stage, records in run.epochs().items()},
        "notes": manifest["notes"],
    }


def test_every_choice_is_the_same_with_other_test_labels(
    comparisons: tuple[Comparison, Comparison], both: Callable[..., tuple[Comparison, Comparison]]
) -> None:
    unequal = both(["distil"], UNEQUAL)
    compared = [row.name for one in (comparisons, unequal) for row in one[0].table.rows]
    assert sorted(compared) == sorted(METHODS)
    runs, others = ([*first.done.runs, *second.done.runs] for first, second in zip(comparisons, unequal, strict=True))
    for one, two in zip(runs, others, strict=True):
        assert one.method == two.method
        assert choices(one) == choices(two)
        assert torch.equal(one.bank("test").outputs, two.bank("test").outputs)
        assert one.figures["test"]["accuracy"] > two.figures["test"]["accuracy"] + 0.1, "the labels were shuffled"


def test_costs_in_the_table_and_in_studies_need_no_test_labels(comparisons: tuple[Comparison, Comparison]) -> None:
    true, other = ({row.name: row.figures["cost"] for row in one.table.rows} for one in comparisons)
    assert true == other
    pareto, shuffled_pareto = (STUDIES["pareto"].measure(one.done.runs)["curves"] for one in comparisons)
    for name, points in pareto.items():
        assert [point["cost"] for point in points] == [point["cost"] for point in shuffled_pareto[name]]
    size, shuffled_size = (STUDIES["size"].measure(one.done.runs)["methods"]["woc"] for one in comparisons)
    assert [point["cost"] for point in size] == [point["cost"] for point in shuffled_size]
