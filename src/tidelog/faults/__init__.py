"""What can be done to a cluster, real or simulated."""
