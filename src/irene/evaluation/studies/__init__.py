"""The studies by name: each a question about ensembles, with data and a picture."""

from __future__ import annotations

from irene.errors import OptionError, near
from irene.evaluation.studies import ablation, curves, members, pareto, size
from irene.evaluation.studies.study import Study

STUDIES: dict[str, Study] = {
    study.name: study for study in (members.STUDY, pareto.STUDY, size.STUDY, ablation.STUDY, curves.STUDY)
}


def find_study(name: str) -> Study:
    """The study of this name, or an error that says which there are."""
    if name not in STUDIES:
        raise OptionError(f"no study is called {name!r}{near(name, STUDIES)} (there are {', '.join(STUDIES)})")
    return STUDIES[name]
