"""A member: normalise, extract features, answer with one or more heads."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from irene.errors import DataError, OptionError
from irene.models.normalise import Normalise
from irene.models.packed import Pack
from irene.models.registry import make_backbone
from irene.models.spec import MemberSpec


@final
class Member(nn.Module):
    """One model of an ensemble: raw inputs in, logits or values (B, H, K) out.

    With two heads it is the two-head member of the paper's Appendix A.1.2: the heads share all features and
    differ in their last layer only, so the second one is nearly free. With a packed backbone (`mimo3/cnn`) it holds
    several sub-models: in training it has one head for each of them, in evaluation one head with their mean.
    """

    def __init__(self, spec: MemberSpec, *, mean: Tensor | None = None, std: Tensor | None = None) -> None:
        super().__init__()
        self.spec = spec
        self.normalise: nn.Module = Normalise(spec.shape, mean, std)
        self.backbone: nn.Module
        self.head: nn.Module
        if (pack := Pack.parse(spec.backbone)) is not None:
            self.backbone, self.head = pack.build(spec)
        else:
            self.backbone, width = make_backbone(spec.backbone, spec.shape)
            self.head = nn.Linear(width, spec.heads * spec.outputs)
        self.output_shift: Tensor
        self.output_scale: Tensor
        self.register_buffer("output_shift", torch.zeros(spec.outputs))
        self.register_buffer("output_scale", torch.ones(spec.outputs))

    def scale_outputs(self, mean_K: Tensor, std_K: Tensor) -> None:
        """Answer in the units of regression targets with this mean and spread; heads then learn unit-sized values."""
        self.output_shift.copy_(mean_K)
        self.output_scale.copy_(std_K)

    def features(self, x: Tensor) -> Tensor:
        """(B, F) what the heads see; (B, M, F) of M packed sub-models."""
        if x.shape[1:] != self.spec.shape:  # some backbones would answer all the same, and wrongly
            expected = ", ".join(map(str, ("batch", *self.spec.shape)))
            raise DataError(
                f"expected inputs of shape ({expected}), got {tuple(x.shape)}: resize or reshape them as the training "
                "data were, and give a single sample as a batch of one"
            )
        features: Tensor = self.backbone(self.normalise(x))
        return features

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.features(x))
        if outputs.ndim == 2:
            outputs = outputs.reshape(-1, self.spec.heads, self.spec.outputs)
        return outputs * self.output_scale + self.output_shift


def build(spec: MemberSpec, *, seed: int, mean: Tensor | None = None, std: Tensor | None = None) -> Member:
    """A fresh member on the CPU, whose weights depend on the spec and the seed only.

    `mean` and `std` come from `statistics(training_inputs)`; without them inputs pass as they are.
    """
    # torch.manual_seed would reseed the accelerators too, which fork_rng without devices does not put back.
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)
        return Member(spec, mean=mean, std=std)


def as_logits(answer: Any) -> Tensor:
    """A member's answer as a tensor; it may come as an array, or as an object with `logits`."""
    if isinstance(answer, Tensor):
        return answer
    answer = getattr(answer, "logits", answer)
    if isinstance(answer, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(answer))
    if not isinstance(answer, Tensor):
        raise OptionError(
            "a member must answer with a tensor, an array or an object with logits, got "
            f"{type(answer).__name__}: wrap it in a function that returns its logits or values alone"
        )
    return answer


def are_probabilities(outputs: Tensor) -> bool:
    """Whether every row of some outputs, over the last axis, is a distribution over two classes or more."""
    if outputs.numel() == 0 or outputs.shape[-1] < 2 or bool((outputs < 0).any()):
        return False
    return bool(((outputs.sum(-1) - 1).abs() <= 5e-3).all())  # as far as rounding to bfloat16 takes them


def refuse_probabilities(number: int, outputs_NHK: Tensor) -> None:
    """Refuse a member's answers that a softmax would make nearly equal: members answer with logits."""
    if are_probabilities(outputs_NHK):
        raise OptionError(
            f"expected logits, and member {number} gave probabilities, as every row sums to 1: return logits, or the "
            "logarithm of the probabilities (of an .onnx file: call its output probabilities)"
        )


def as_heads(answer: Any) -> Tensor:
    """A member's answer as (B, H, K); it may come as (B, K) when it has one head."""
    output = as_logits(answer)
    if output.ndim == 2:
        return output.unsqueeze(1)
    if output.ndim == 3:
        return output
    raise OptionError(
        f"a member must return (batch, outputs) or (batch, heads, outputs), got shape {tuple(output.shape)}"
    )
