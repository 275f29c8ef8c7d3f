"""A scenario on real processes: what each of its commands does, and what its conditions ask."""
