"""`python -m irene` is the `irene` command; torchrun starts it this way."""

from __future__ import annotations

import sys

from irene.cli import main

sys.exit(main())
