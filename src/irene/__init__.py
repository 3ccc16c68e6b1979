"""Deep ensembles that stop early."""

from __future__ import annotations

__version__ = "0.1.0"
