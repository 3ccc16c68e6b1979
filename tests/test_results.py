from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_documents_say_what_the_committed_figures_say() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/paper/write.py", "--check"], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
