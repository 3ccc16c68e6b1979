"""Every training method by name. A new method is one file here and one line below."""

from __future__ import annotations

from importlib import import_module

from irene.errors import OptionError, near
from irene.training.method import Method

FILES = (  # in the order they are listed and compared
    "single",
    "average",
    "snapshot",
    "fge",
    "moe",
    "sparse_moe",
    "woc",
    "dive2",
    "mimo",
    "batch_ensemble",
    "distil",
    "irene",
)
METHODS: dict[str, Method] = {
    method.name: method for method in (import_module(f"{__name__}.{file}").METHOD for file in FILES)
}


def find_method(name: str) -> Method:
    """The method of this name, or an error that says which there are."""
    if name not in METHODS:
        raise OptionError(f"no method is called {name!r}{near(name, METHODS)} (there are {', '.join(METHODS)})")
    return METHODS[name]
