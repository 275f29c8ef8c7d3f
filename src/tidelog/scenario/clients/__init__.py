"""Clients of a scenario: no IO, no clock of their own; a host sends for them and wakes them."""
