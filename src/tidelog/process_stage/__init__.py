"""A scenario on real processes: its commands, its conditions, and the comparison with the simulator."""
