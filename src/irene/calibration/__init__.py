"""From a bank of held-out outputs to an operating point: fit, choose a threshold, promise, and watch for drift."""
