"""What a scenario is about, wherever it is played: on the simulator or on real processes."""
