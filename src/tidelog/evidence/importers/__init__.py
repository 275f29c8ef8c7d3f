"""Histories of other tools as evidence."""
