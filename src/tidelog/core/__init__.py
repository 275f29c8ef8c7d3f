"""The replication rules of a Kafka-like log, written once, as plain state machines.

Rules of this package:

* No IO, no clock, no randomness: time is an argument, every output is an *effect*.
* End offsets are exclusive everywhere: ``log_end_offset`` is the next offset to be written and
  ``high_watermark`` is the first offset that is not yet committed.
* Errors of clients are an ``ErrorCode`` in a reply. A broken invariant raises ``InvariantViolation``.

The simulator (``tidelog.lab``) and the broker process drive exactly this code.
"""
