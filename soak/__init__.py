"""Trials without end: `make soak`, or `python -m soak --help`. What came out: docs/reliability.md.

rounds       one trial after the other, each in processes of its own, and what is kept of it
processes    the processes of a trial from outside: memory of the brokers, and whatever is left
table        what all rounds come to
"""
