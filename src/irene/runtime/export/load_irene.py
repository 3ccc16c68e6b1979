"""Answers of an exported irene cascade, each sample stopping as early as it would in irene.

    from load_irene import load

    cascade = load()                    # of the folder this file lies in
    answer = cascade.predict(batch)     # raw inputs as a numpy array, one row a sample
    answer.labels, answer.outputs, answer.members_used

Needs numpy and what runs the members: onnxruntime, openvino or torch, by the folder's format. Neither irene nor the
code that trained the members is needed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = Any  # numpy.ndarray
Memory = dict[str, Array]  # what a policy remembers of each sample between steps; every array is (B, ...)
FORMAT = 1


@dataclass(frozen=True)
class Answer:
    """What a cascade answered for a batch, and what it took."""

    outputs: Array  # (B, K) class probabilities, or values
    members_used: Array  # (B,)
    trace: Array  # (B, T) the halting score after each member, NaN where it was not run

    @property
    def failed(self) -> Array:
        """(B,) which samples have no answer, as a member gave NaN or infinity for them."""
        return ~np.isfinite(self.outputs).all(1)

    @property
    def labels(self) -> Array:
        """(B,) number of the most probable class, -1 for those that failed; `classes` of the cascade has its name."""
        return np.where(self.failed, -1, self.outputs.argmax(1))


@dataclass(frozen=True)
class Step:
    """What a policy sees after one more member has run."""

    index: int  # counted from 0
    task: str
    heads: Array  # (B, H, K) this member's answer by each of its heads: probabilities or values
    mean: Array  # (B, K) the ensemble's answer so far


@dataclass(frozen=True)
class Policy:
    """What says when a sample stops: its score reaches the threshold."""

    name: str
    threshold: np.float32
    options: dict[str, Any]
    learned: dict[str, Array]


class Cascade:
    """The members of a folder at one of its operating points."""

    def __init__(self, manifest: dict[str, Any], members: list[Callable[[Array], Array]], folder: Path, point: str):
        self.manifest = manifest
        self.folder = folder
        self.point = point
        self.classes: list[str] = manifest["classes"]
        self._members = members
        if "gate" not in manifest:
            entry = manifest["points"][point]
            policy, learned = entry["policy"], {}
            if entry["learned"] is not None:
                with np.load(folder / entry["learned"], allow_pickle=False) as file:
                    learned = dict(file)
            self._policy = Policy(policy["name"], np.float32(policy["threshold"]), policy["options"], learned)
            self._weights: list[float] = entry["aggregation"]["weights"]
            self._temperatures: list[float] = entry["aggregation"]["temperatures"]
            self._order: list[int] = entry["members"]

    @property
    def points(self) -> list[str]:
        """The operating points to choose from."""
        return list(self.manifest["points"])

    def at(self, point: str) -> Cascade:
        """The same cascade at another operating point."""
        if point not in self.manifest["points"]:
            raise ValueError(f"no operating point is called {point!r}, there are: {', '.join(self.points) or 'none'}")
        return Cascade(self.manifest, self._members, self.folder, point)

    @np.errstate(invalid="ignore", over="ignore")  # what is not a number is told by `failed`
    def predict(self, inputs: Array) -> Answer:
        """Answer a batch of raw inputs; each sample runs through as few members as its operating point allows."""
        rows, shape = np.asarray(inputs), tuple(self.manifest["input"]["shape"])
        if rows.shape[1:] != shape or rows.dtype.kind not in "biuf":
            wanted = f"(samples, {', '.join(map(str, shape))})"
            raise ValueError(f"expected numbers of shape {wanted}, got {rows.dtype} of shape {rows.shape}")
        if "gate" in self.manifest:
            return self._mix(rows)
        return self._route(rows) if self._policy.name == "skipping" else self._in_order(rows)

    def _in_order(self, inputs: Array) -> Answer:
        answer = self._blank(len(inputs), len(self._order))
        running = np.arange(len(inputs))  # rows that have not stopped
        total: Array = np.zeros_like(answer.outputs)
        memory: Memory = {}
        for t, member in enumerate(self._order):
            if len(running) == 0:
                break
            heads = self._answers(member, inputs[running], self._temperatures[t])
            total = total + np.float32(self._weights[t]) * heads[:, 0]
            step = Step(t, self.manifest["task"], heads, total / np.float32(sum(self._weights[: t + 1])))
            score = sound(SCORES[self._policy.name](self._policy, step, memory), step.mean)
            answer.outputs[running] = step.mean
            answer.members_used[running] = t + 1
            answer.trace[running, t] = score
            going = ~(score >= self._policy.threshold)
            running, total = running[going], total[going]
            memory = {key: value[going] for key, value in memory.items()}
        return answer

    def _route(self, inputs: Array) -> Answer:
        """Each sample by the member that promises most, until none promises enough."""
        policy, steps = self._policy, len(self._order)
        answer = self._blank(len(inputs), steps)
        running, chosen = np.arange(len(inputs)), np.full(len(inputs), policy.options["first"])
        votes, total = np.full((len(inputs), steps), -1), np.zeros_like(answer.outputs)
        for step in range(steps):
            if len(running) == 0:
                break
            for t in np.unique(chosen):
                group = chosen == t
                probs = self._answers(self._order[t], inputs[running[group]], self._temperatures[t])[:, 0]
                votes[group, t] = probs.argmax(1)
                total[group] += np.float32(self._weights[t]) * probs
            mean = total / ((votes >= 0) @ np.array(self._weights, np.float32))[:, None]
            score, following = promise(policy, mean, votes)
            answer.outputs[running] = mean
            answer.members_used[running] = step + 1
            answer.trace[running, chosen] = score
            going = score < policy.threshold
            running, chosen = running[going], following[going]
            votes, total = votes[going], total[going]
        return answer

    def _mix(self, inputs: Array) -> Answer:
        """A gate looks at each sample and says which members run, and with what weight."""
        members, top = len(self.manifest["members"]), self.manifest["gate"]["top"]
        answer = self._blank(len(inputs), members)
        if len(inputs):
            logits = self._members[members](inputs)[:, 0]
            kept = np.argsort(-np.where(np.isnan(logits), np.inf, logits), 1, kind="stable")[:, :top]
            gates = np.zeros_like(logits)
            np.put_along_axis(gates, kept, softmax(np.take_along_axis(logits, kept, 1)), 1)
            answer.outputs[np.isnan(gates).any(1)] = np.nan  # no member runs on these
            for t in range(members):
                rows = np.flatnonzero(gates[:, t] > 0)
                if len(rows):
                    answer.outputs[rows] += gates[rows, t, None] * self._answers(t, inputs[rows], 1.0)[:, 0]
                    answer.members_used[rows] += 1
                    answer.trace[rows, t] = gates[rows, t]
        return answer

    def _answers(self, member: int, inputs: Array, temperature: float) -> Array:
        """(B, H, K) probabilities or values of one member."""
        heads = self._members[member](inputs)
        return softmax(heads / np.float32(temperature)) if self.manifest["task"] == "classification" else heads

    def _blank(self, samples: int, steps: int) -> Answer:
        outputs = np.zeros((samples, len(self.classes)), np.float32)
        return Answer(outputs, np.zeros(samples, np.int64), np.full((samples, steps), np.nan, np.float32))


def load(folder: str | Path | None = None, point: str | None = None, *, threads: int = 0) -> Cascade:
    """The cascade of a folder at an operating point, by default its first; 0 threads leave it to the runtime."""
    folder = Path(__file__).parent if folder is None else Path(folder)
    if not (folder / "manifest.json").exists():
        raise ValueError(f"{folder}: has no manifest.json; expected a folder that irene export wrote")
    manifest = json.loads((folder / "manifest.json").read_text())
    if manifest["format"] != FORMAT:
        raise ValueError(f"{folder}: expected format {FORMAT}, got {manifest['format']}: use the loader in there")
    for file, sha256 in manifest["files"].items():
        if not (folder / file).exists() or hashlib.sha256((folder / file).read_bytes()).hexdigest() != sha256:
            raise ValueError(f"{folder / file}: missing or damaged, by its SHA-256 in manifest.json; export it again")
    entries = [*manifest["members"], *([manifest["gate"]] if "gate" in manifest else [])]
    run = {"onnx": _onnx, "openvino": _openvino, "pt2": _pt2}[manifest["runtime"]]
    members = [_member(run(folder / entry["file"], entry["output"], threads), entry) for entry in entries]
    cascade = Cascade(manifest, members, folder, next(iter(manifest["points"]), ""))
    return cascade if point is None else cascade.at(point)


def _member(run: Callable[[Array], Any], entry: dict[str, Any]) -> Callable[[Array], Array]:
    """Raw inputs to logits or values (B, H, K) in float32."""

    def call(inputs: Array) -> Array:
        rows = np.ascontiguousarray(inputs, entry["dtype"])
        if rows.dtype != inputs.dtype and rows.dtype.kind in "iu" and not np.array_equal(rows, inputs):
            raise ValueError(f"expected whole numbers that fit {rows.dtype}, got others: scale and round them")
        answer = np.asarray(run(rows), np.float32)
        if entry["log"]:  # it answers with probabilities
            answer = np.log(np.maximum(answer, np.finfo(np.float32).eps))
        return answer[:, None] if answer.ndim == 2 else answer

    return call


def _onnx(path: Path, output: str, threads: int) -> Callable[[Array], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # members take turns on the same cores
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda inputs: session.run([output], {name: inputs})[0]


def _openvino(path: Path, output: str, threads: int) -> Callable[[Array], Any]:
    modules: dict[str, Any] = sys.modules
    hidden = modules.setdefault("openvino_telemetry", None) is None  # or importing it would report its use
    try:
        import openvino
    finally:
        if hidden:
            del modules["openvino_telemetry"]
    options = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads}
    compiled = openvino.Core().compile_model(str(path), "CPU", options)
    return lambda inputs: compiled(inputs)[output]


def _pt2(path: Path, output: str, threads: int) -> Callable[[Array], Any]:
    import torch

    if threads:
        torch.set_num_threads(threads)
    module = torch.export.load(path).module()
    return torch.no_grad()(lambda inputs: module(torch.from_numpy(inputs)).numpy())


def sound(score: Array, mean: Array) -> Array:
    """The scores, minus infinity where the answer so far is not a finite number: there nobody stops early."""
    return np.where(np.isfinite(mean).all(1) & ~np.isnan(score), score, np.float32(-np.inf))


def softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(np.float32(0), -x))


def margin(probs: Array) -> Array:
    """The largest probability minus the second largest."""
    top = np.partition(np.pad(probs, ((0, 0), (1, 0))), -2, 1)  # of a single class, the second is 0
    return top[:, -1] - top[:, -2]


def certainty(probs: Array) -> Array:
    """One minus the entropy over its largest possible value."""
    entropy = -(probs * np.log(np.where(probs > 0, probs, 1))).sum(1)
    return 1 - entropy / np.float32(np.log(max(probs.shape[1], 2)))


def count_votes(step: Step, memory: Memory) -> Array:
    """(B,) how many members so far, the newest among them, gave the ensemble's answer."""
    newest = step.heads[:, 0].argmax(1)[:, None]
    memory["votes"] = np.concatenate([memory["votes"], newest], 1) if "votes" in memory else newest
    return (memory["votes"] == step.mean.argmax(1)[:, None]).sum(1)


def add_spread(step: Step, memory: Memory) -> Array:
    """Root mean square distance of every head so far from the ensemble's answer at its step."""
    square = ((step.heads - step.mean[:, None]) ** 2).mean((1, 2))
    memory["square"] = memory["square"] + square if "square" in memory else square
    return np.sqrt(memory["square"] / np.float32(step.index + 1))


def features(names: list[str], step: Step, memory: Memory) -> Array:
    """(B, F) what a learned policy looks at."""
    values: dict[str, Array] = {}
    if step.task == "classification":
        first, second = (np.log(np.maximum(step.heads[:, i], np.finfo(np.float32).tiny)) for i in (0, -1))
        values["kl"] = (step.heads[:, 0] * (first - second)).sum(1)
        values["top1"] = step.mean.max(1)
        values["margin"] = margin(step.mean)
        values["entropy"] = certainty(step.mean)
        values["agreement"] = count_votes(step, memory) / (step.index + 1)
    else:
        level = step.mean.mean(1)
        values["head_spread"] = np.abs(step.heads[:, 0] - step.heads[:, -1]).mean(1)
        values["running_spread"] = add_spread(step, memory)
        values["shift"] = np.abs(level - memory.get("level", level))
        memory["level"] = level
    return np.stack([values[name] for name in names], 1).astype(np.float32)


def agreement(policy: Policy, step: Step, memory: Memory) -> Array:
    return count_votes(step, memory).astype(np.float32) + step.mean.max(1) * np.float32(1 - 1e-5)


def patience(policy: Policy, step: Step, memory: Memory) -> Array:
    answer = step.mean.argmax(1)
    same = answer == memory.get("answer", np.full_like(answer, -1))
    memory["unchanged"] = np.where(same, memory.get("unchanged", np.zeros_like(answer)) + 1, 0)
    memory["answer"] = answer
    return memory["unchanged"].astype(np.float32) + step.mean.max(1) * np.float32(1 - 1e-5)


def window(policy: Policy, step: Step, memory: Memory) -> Array:
    newest, width = step.mean.max(1)[:, None], policy.options["width"]
    memory["recent"] = np.concatenate([memory["recent"], newest], 1)[:, -width:] if "recent" in memory else newest
    return memory["recent"].sum(1) / np.float32(min(step.index + 1, width))


def spread(policy: Policy, step: Step, memory: Memory) -> Array:
    distance = add_spread(step, memory)
    alone = step.index == 0 and step.heads.shape[1] == 1  # nothing to compare with yet
    return np.full_like(distance, -np.inf) if alone else -distance


def selector(policy: Policy, step: Step, memory: Memory) -> Array:
    """A small LSTM, and a linear path beside it."""
    learned = policy.learned
    x = (features(policy.options["features"], step, memory) - learned["mean_F"]) / learned["std_F"]
    zeros = np.zeros((len(x), policy.options["hidden"]), np.float32)
    gates = x @ learned["cell.weight_ih"].T + learned["cell.bias_ih"]
    gates = gates + memory.get("hidden", zeros) @ learned["cell.weight_hh"].T + learned["cell.bias_hh"]
    enter, forget, content, leave = np.split(gates, 4, 1)
    memory["cell"] = sigmoid(forget) * memory.get("cell", zeros) + sigmoid(enter) * np.tanh(content)
    memory["hidden"] = sigmoid(leave) * np.tanh(memory["cell"])
    logit = memory["hidden"] @ learned["out.weight"].T + learned["out.bias"]
    if "skip.weight" in learned:
        logit = logit + x @ learned["skip.weight"].T
    return logit[:, 0]


def change(policy: Policy, step: Step, memory: Memory) -> Array:
    """The probability that the answer stays as it is."""
    x = features(policy.options["features"], step, memory)
    if step.index + 1 == policy.options["steps"]:
        return np.ones(len(x), np.float32)
    return sigmoid((x * policy.learned["weight_TF"][step.index]).sum(1) + policy.learned["bias_T"][step.index])


def cost_to_go(policy: Policy, step: Step, memory: Memory) -> Array:
    """Minus the price at which going on just pays."""
    x, prices = features(policy.options["features"], step, memory), policy.learned["prices_L"]
    if step.index + 1 == policy.options["steps"]:
        return np.zeros(len(x), np.float32)
    weight, bias = policy.learned["weight_TLF"][step.index], policy.learned["bias_TL"][step.index]
    gain = (x[:, None] * weight).sum(2) + bias
    above, size = np.maximum(gain, 0), np.abs(gain)
    share = (above[:, :-1] + above[:, 1:]) / np.maximum(size[:, :-1] + size[:, 1:], np.float32(1e-30))
    return -((share - (prices[:-1] < 0)) * np.diff(prices)).sum(1)


def promise(policy: Policy, mean: Array, votes: Array) -> tuple[Array, Array]:
    """Skipping: minus the best gain per cost that is still to be had, and the member to run for it."""
    costs = np.array(policy.options["costs"])  # in the number of a set of members, bit i stands for member i
    bits, sets = 2 ** np.arange(len(costs)), np.arange(2 ** len(costs))
    cost = ((sets[:, None] & bits) > 0) @ costs
    ran = ((votes >= 0) * bits).sum(1)
    larger = ((ran[:, None] & sets) == ran[:, None]) & (ran[:, None] != sets)
    extra = np.where(larger, cost - cost[ran][:, None], np.inf).astype(np.float32)
    agree = (votes == mean.argmax(1)[:, None]).sum(1) / (votes >= 0).sum(1)
    x = np.stack([mean.max(1), margin(mean), certainty(mean), agree], 1).astype(np.float32)
    gain = (x[:, None] * policy.learned["weight_SSF"][ran]).sum(2) + policy.learned["bias_SS"][ran]
    rate = np.where(larger, gain / extra, -np.inf)
    alone = np.take_along_axis(rate, ran[:, None] | bits, 1)  # by each member as the only next one
    following = np.where((rate.argmax(1)[:, None] & bits) == 0, -np.inf, alone).argmax(1)
    score = -rate.max(1)
    return sound(np.where(np.isinf(score), np.float32(0), score), mean), following


# Every policy gives a score a sample: how ready it is to stop. It changes `memory` in place.
SCORES: dict[str, Callable[[Policy, Step, Memory], Array]] = {
    "never": lambda policy, step, memory: np.full(len(step.mean), -np.inf, np.float32),
    "confidence": lambda policy, step, memory: step.mean.max(1),
    "margin": lambda policy, step, memory: margin(step.mean),
    "entropy": lambda policy, step, memory: certainty(step.mean),
    "agreement": agreement,
    "patience": patience,
    "window": window,
    "spread": spread,
    "selector": selector,
    "change": change,
    "cost-to-go": cost_to_go,
}
