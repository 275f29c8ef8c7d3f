"""Segment files as Arrow."""
