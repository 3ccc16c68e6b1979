"""`irene methods`: the ways to train an ensemble."""

from __future__ import annotations

from irene.cli.options import known
from irene.cli.output import speaking
from irene.cli.params import Json


def methods(json: Json = False) -> None:
    """List the ways to train an ensemble, with one line about each."""
    from irene.cli.tables import pairs
    from irene.training.methods import METHODS

    found = []
    for method in METHODS.values():
        own = known(method.options())
        found.append({"name": method.name, "description": method.description, "options": own})
    with speaking(json) as output:
        table = pairs([(method.name, method.description) for method in METHODS.values()])
        output.result({"methods": found}, lambda screen: screen.print(table))
