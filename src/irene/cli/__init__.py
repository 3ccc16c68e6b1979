"""The `irene` command."""

from __future__ import annotations

from irene.cli.app import main

__all__ = ["main"]
