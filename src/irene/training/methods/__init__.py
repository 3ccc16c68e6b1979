"""Every training method by name. A new method is one file here and one line below."""

from __future__ import annotations

from irene.errors import OptionError
from irene.models.names import near
from irene.training.method import Method
from irene.training.methods import (
    average,
    batch_ensemble,
    dive2,
    fge,
    irene,
    mimo,
    moe,
    single,
    snapshot,
    sparse_moe,
    woc,
)

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        single.METHOD,
        average.METHOD,
        snapshot.METHOD,
        fge.METHOD,
        moe.METHOD,
        sparse_moe.METHOD,
        woc.METHOD,
        dive2.METHOD,
        mimo.METHOD,
        batch_ensemble.METHOD,
        irene.METHOD,
    )
}


def find_method(name: str) -> Method:
    """The method of this name, or an error that says which there are."""
    if name not in METHODS:
        raise OptionError(f"no method is called {name!r}{near(name, METHODS)} (there are {', '.join(METHODS)})")
    return METHODS[name]
