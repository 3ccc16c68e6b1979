"""Every training method by name. A new method is one file here and one line below."""

from __future__ import annotations

from irene.training.method import Method
from irene.training.methods import average, single

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        single.METHOD,
        average.METHOD,
    )
}
