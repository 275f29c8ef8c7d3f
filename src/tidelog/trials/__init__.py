"""Trials: workloads on a cluster while faults happen. The named ones are files in ``scenarios/``."""
