"""Cascades as folders that run elsewhere: members as graphs, and a loader that needs neither irene nor torch."""
