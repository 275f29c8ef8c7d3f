"""What a trial leaves behind for the audit: plain files, one schema for every stage.

=============  ===========================================  ==================================================
evidence       says                                         files
=============  ===========================================  ==================================================
events         what every broker did, and by which rule     ``events-<broker>-<start ms>[.<part>].jsonl``
ledger         what producers were promised                 (not recorded yet)
reads          what consumers saw                           (not recorded yet)
replica logs   what every replica holds                     the log folders themselves
=============  ===========================================  ==================================================

``schemas.py`` is the meaning of an event's row and ``to_row`` makes one: pure, so the simulator's events and
a broker's become the same rows. ``process.py`` adds what only processes go through (starts, recoveries,
keeper sessions) to the events of the core. ``recorder.py`` writes a broker's events to files, ``files.py``
knows their names and how many are kept, ``reader.py`` reads them back. The page for readers of the files is
``docs/reference/events.md``.

The rules of the folder: evidence is observed, never consulted, so nothing a broker decides depends on it; a
file is only ever appended to; and what cannot be recorded costs the record, never the broker.
"""
