"""Networks as graphs of torch.fx that do just what the networks do: hooks and writing in place are not lost."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from torch import fx, nn

_AUGMENTED: dict[str, Callable[..., Any]] = {
    "__iadd__": operator.iadd,
    "__isub__": operator.isub,
    "__imul__": operator.imul,
    "__itruediv__": operator.itruediv,
    "__ipow__": operator.ipow,
}


class _Value(fx.Proxy):
    """A value in a trace, on which `x += y` stays what it is: by itself fx takes it for `x = x + y`."""


def _writing(operation: Callable[..., Any]) -> Callable[[_Value, object], fx.Proxy]:
    return lambda value, other: value.tracer.create_proxy("call_function", operation, (value, other), {})


for _name, _operation in _AUGMENTED.items():
    setattr(_Value, _name, _writing(_operation))


class _Tracer(fx.Tracer):
    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Value(node, self)


def trace(module: nn.Module) -> fx.GraphModule | None:
    """The module as a graph, its weights shared; None where it cannot be traced."""
    if any(part._forward_hooks or part._forward_pre_hooks for part in module.modules()):
        return None  # a graph would have none of them, and some, such as those of weight norms, make the weights
    try:
        return fx.GraphModule(module, _Tracer().trace(module), type(module).__name__)
    except Exception:  # forward code may do what it likes, and a trace of it fail as it likes
        return None


def called(parts: dict[str, nn.Module], node: object) -> nn.Module | None:
    """The submodule that a node calls."""
    return parts.get(str(node.target)) if isinstance(node, fx.Node) and node.op == "call_module" else None


def writes(parts: dict[str, nn.Module], node: fx.Node) -> bool:
    """Whether a node may write into what it reads."""
    if node.op == "call_module":
        return bool(getattr(called(parts, node), "inplace", False))
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if name.endswith("_") or node.target in _AUGMENTED.values() or "out" in node.kwargs:
        return True
    return any(value is True for value in (*node.args, node.kwargs.get("inplace")))  # F.relu(x, True)


def read_once(node: object) -> bool:
    """Whether only one other node reads it, and its module is called nowhere else."""
    if not isinstance(node, fx.Node) or len(node.users) != 1:
        return False
    calls = [other for other in node.graph.nodes if (other.op, other.target) == ("call_module", node.target)]
    return len(calls) <= 1
