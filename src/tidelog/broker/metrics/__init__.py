"""What a broker counts, and how Prometheus gets it."""
