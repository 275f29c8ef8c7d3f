"""Searching for schedules that break an invariant, and counting what happens in many."""
