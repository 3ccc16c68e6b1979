"""The search for IRENE's hyper-parameters: what is tried, what comes of it, and what decides."""
