"""What a trial leaves behind for the audit: plain files, one schema for every stage.

=============  ===========================================  ==================================================
evidence       says                                         files
=============  ===========================================  ==================================================
ledger         what producers were promised                 ``ledger/*.parquet``
reads          what consumers saw                           ``reads/*.parquet``
events         what every broker did, and by which rule     ``events-<broker>-<start ms>[.<part>].jsonl``, and
                                                            at the end of a trial ``events/*.parquet``
replica logs   what every replica holds                     the log folders themselves, listed in ``replicas``
faults         what was done to the cluster                 ``faults/*.parquet``
=============  ===========================================  ==================================================

``event_schema.py`` is the meaning of an event's row and ``to_row`` makes one: pure, so the simulator's events
and a broker's become the same rows. ``process_events.py`` adds what only processes go through (starts,
recoveries, keeper sessions) to the events of the core. ``tables.py`` says what the tables of a trial are,
``folder.py`` is the folder of a trial with its ``trial.json``.

``journals/`` is what is written while it happens, with the standard library alone: ``recorder.py`` writes a
broker's events to ``event_files.py``; what happens fast goes to a file that survives the death of its writer
(``slots.py``), ``clients.py`` is what producers and consumers put there; ``lines.py`` is for what happens
slowly. ``parquet/`` makes the tables of it: ``sealing.py`` one journal, ``recovery.py`` all that a trial
left, ``growing.py`` while it is written, ``parts.py`` the files. ``importers/`` brings the histories of other
tools. The pages for readers of the files are ``docs/reference/events.md`` and ``docs/reference/evidence.md``.

The rules of the folder: evidence is observed, never consulted, so nothing a broker decides depends on it; a
file is only ever appended to; and what cannot be recorded costs the record, never the broker.
"""
