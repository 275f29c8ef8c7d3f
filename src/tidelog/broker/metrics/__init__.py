"""Metrics of a broker, for Prometheus."""
