"""Consumer groups, the classic protocol: members, assignments and committed offsets.

Pure like the core: no clock, no randomness, no IO. A coordinator (``coordinator.py``) receives requests and
the time, and appends effects: answers, records for its partition of ``__consumer_offsets``, a wake-up. The
broker executes the effects on a replicated log; tests execute them in memory.
"""
