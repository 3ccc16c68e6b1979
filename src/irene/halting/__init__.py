"""When does a sample stop? The maths of halting, the policies, and what they look at."""
