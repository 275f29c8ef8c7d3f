"""Brokers and a keeper as processes on this machine: started, watched, hurt and ended."""
