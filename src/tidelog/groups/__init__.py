"""Consumer groups, the classic protocol: who is a member, who gets what, and where everybody has got to.

Pure like the core: no clock, no dice, no IO. A coordinator (``coordinator.py``) is told requests and the time
and appends effects: answers, records to be written to its partition of ``__consumer_offsets``, a wake-up.
The broker carries them out on a replicated log; a simulator may do it in memory.
"""
