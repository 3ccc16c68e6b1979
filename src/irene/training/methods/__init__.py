"""Every training method by name. A new method is one file here and one line below."""

from __future__ import annotations

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
