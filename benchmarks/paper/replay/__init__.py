"""Questions answered by replaying the banks of packed runs: nothing is trained here but policies."""
