"""The replication rules of a Kafka-like log, written once, as plain state machines.

Rules of this package:

* No IO, no clock, no dice: time comes in as an argument, everything that leaves is an *effect*.
* End offsets are exclusive everywhere: ``log_end_offset`` is the next offset to be written and
  ``high_watermark`` is the first offset that is not yet committed.
* What a client may see is an ``ErrorCode`` in a reply. A broken invariant raises ``InvariantViolation``.

The simulator (``tidelog.lab``) and the broker process drive exactly this code.
"""
