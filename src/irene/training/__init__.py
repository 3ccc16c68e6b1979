"""How are the members trained? One optimisation loop; methods differ by loss, schedule and data."""
