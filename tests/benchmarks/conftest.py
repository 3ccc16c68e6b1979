"""The benchmarks are scripts and no package: their folders are put where Python looks."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2] / "benchmarks"
sys.path[:0] = [str(ROOT / "paper"), str(ROOT)]
