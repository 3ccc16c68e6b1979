"""A fixed feature extractor: a model trained beforehand, whose features others look at."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from irene.models import Member
from irene.models.external import FeaturesOf
from irene.training.method import Training
from irene.training.options import LoopOptions


def fit_extractor(training: Training, options: LoopOptions | None = None) -> Member:
    """A single model with the first member's backbone, trained for the task as a stage of its own.

    It stands in for the pretrained networks that the published methods take their features from.
    """
    extractor = training.new_member(0, name="extractor")
    training.fit("extractor", extractor, options=options)
    return extractor


def features_of(training: Training, extractor: Member) -> Callable[[Tensor], Tensor]:
    """The extractor as a function from raw inputs to (B, F) features that takes no gradient."""
    forward = training.frozen(FeaturesOf(extractor))
    return lambda inputs: forward(inputs)[:, 0]
