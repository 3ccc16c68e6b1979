"""Write docs/results*.md, docs/calibrate.md and the README's headline from the committed JSON files.

    python benchmarks/paper/write.py [--check]

`--check` writes nothing and fails if the documents do not say what the JSON files say.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from documents import RESULTS, ROOT, asked_to_check, filled, write_or_check
from names import DATASETS, setting_title, title
from pages import beyond_text, latency_text, policies_text, searched_text, short_tables, tables, taught_text
from pages.facts import facts
from pages.pictures import CAPTIONS, SMALL_FIRST, headline_data, picture_name
from pages.rows import best_cascades, in_lines

HERE = Path(__file__).resolve().parent
IRENE_RUN = re.compile(r"cifar\d+-resnet\d+-irene-s\d+-e\d+")
HEADLINE = re.compile(r"(<!-- headline -->\n).*?(<!-- /headline -->)", re.DOTALL)
KEPT = ("policies", "promises", "latency_kept", "heldout_size")  # tables as the commands wrote them


def main() -> None:
    check = asked_to_check(__doc__)
    parts = all_parts()
    pages = sorted((HERE / "pages").glob("*.md.in"))
    written = {ROOT / "docs" / page.stem: filled(page, parts) for page in pages if page.stem != "headline.md"}
    readme = ROOT / "README.md"
    headline = filled(HERE / "pages/headline.md.in", parts)
    written[readme] = HEADLINE.sub(lambda found: found[1] + headline + found[2], readme.read_text())
    write_or_check(written, "benchmarks/paper/write.py", check=check)


def all_parts() -> dict[str, str]:
    """Whatever a template may ask for, by its name there."""
    study = json.loads((HERE / "results.json").read_text())
    pictures = json.loads((HERE / "figures.json").read_text())
    policies, beyond = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("policies", "beyond"))
    kept = {name: (RESULTS / f"{name}.md").read_text().strip() for name in KEPT}
    step = json.loads((ROOT / "docs/benchmarks/training-h200.json").read_text())
    latency = latency_text.load_files()
    rows = study["rows"]
    irenes = {name: stages for name, stages in study["training"].items() if IRENE_RUN.fullmatch(name)}
    name, stages = next((name, stages) for name, stages in irenes.items() if "-s0-" in name)
    return {
        **kept,
        **facts(study, beyond, latency),
        "hardware": ", ".join(dict.fromkeys(row["hardware"] for row in rows)),
        # short tables
        "headline": short_tables.headline(best_cascades(study["small_first"], DATASETS), study),
        "ladder": short_tables.ladder(study["small_first"], rows),
        "time": short_tables.fastest(latency),
        "paper_tables": short_tables.paper_tables(rows),
        "equal": short_tables.equal_members(study),
        "robustness": short_tables.robustness(beyond),
        # full ones
        "methods": tables.method_tables(rows),
        "against": tables.against_tables(study["against"], study["warm_started"]),
        "asked": tables.asked_table(study["asked"]),
        "better_policies": in_lines(policies_text.conclusion(policies)),
        "cascades": tables.cascade_tables(study["small_first"], rows),
        "joint": tables.joint_table(rows),
        "taught": taught_text.section(study["taught"], study["teachers"], rows),
        "searched": searched_text.section(study["searched"]),
        "latency": latency_text.section(latency),
        "beyond": beyond_text.section(beyond),
        "speed": tables.speed_table(study["speed"], study["side_by_side"]),
        "step": tables.step_table(step),
        "peak": str(step["peak_tflops"]),
        "times": tables.time_table(rows),
        "total_time": in_lines(tables.total_time(rows, study["time"]["card_s"])),
        "ratios": epoch_ratios(irenes),
        "halting_of": setting_title("-".join(name.split("-")[i] for i in (0, 1, -1))),
        "halting": tables.halting_table(stages),
        # pictures
        "headline_figures": "\n\n".join(picture(SMALL_FIRST, dataset) for dataset in headline_data(study)),
        "frontier": "\n\n".join(picture("pareto", slug) for slug in pictures["pareto"]),
        "figures": figure_list(pictures),
    }


def epoch_ratios(irenes: dict[str, dict[str, Any]]) -> str:
    """How much longer an epoch of a later member takes, in the run whose neighbours on the card changed least."""

    def unsteady(name: str) -> float:
        return max(float(stage["epoch_s_unsteady"]) for stage in irenes[name].values())

    name = min(irenes, key=unsteady)
    first, *later = [stage["median_epoch_s"] for stage in irenes[name].values()]
    ratios = ", ".join(f"t = {t}: {seconds / first:.2f}" for t, seconds in enumerate(later, 2))
    return f"{ratios}\n(medians of `{name}`, of all runs of IRENE the one whose epochs varied least)"


def figure_list(pictures: dict[str, dict[str, Any]]) -> str:
    """Every figure there is data for, under its question."""
    parts = []
    for study, by_setting in pictures.items():
        if by_setting:
            shown = "\n\n".join(picture(study, slug) for slug in by_setting)
            parts.append(f"## {CAPTIONS[study]}\n\n{shown}")
    return "\n\n".join(parts)


def picture(study: str, slug: str) -> str:
    shown = setting_title(slug) if "-" in slug else title(slug)
    return f"{shown}:\n\n![{CAPTIONS[study]}: {shown}](figures/{picture_name(study, slug)})"


if __name__ == "__main__":
    main()
