"""Cascades with their weights on a backend, streamed over images and timed: the work of latency.py."""
