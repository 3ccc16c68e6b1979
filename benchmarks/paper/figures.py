"""Draw docs/figures/*.svg from the committed JSON files.

    python benchmarks/paper/figures.py [--png DIR]

`--png` leaves a copy of each picture as .png in another folder.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from irene.pictures import rendered

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from documents import ROOT
from pages.pictures import drawn

FIGURES = ROOT / "docs/figures"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--png", type=Path)
    arguments = parser.parse_args()
    FIGURES.mkdir(exist_ok=True)
    for old in FIGURES.glob("*.svg"):
        old.unlink()
    for name, figure in drawn().items():
        (FIGURES / name).write_bytes(rendered(figure, "svg"))
        if arguments.png:
            arguments.png.mkdir(parents=True, exist_ok=True)
            (arguments.png / name).with_suffix(".png").write_bytes(rendered(figure, "png"))


if __name__ == "__main__":
    main()
