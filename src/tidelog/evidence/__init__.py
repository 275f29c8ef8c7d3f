"""The evidence of a trial for the audit: plain files, one schema for every stage.

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

``event_schema.py`` defines the rows of events; ``to_row`` is pure, so the simulator's events and a broker's
become the same rows. ``process_events.py`` adds the events of processes (starts, recoveries, keeper sessions)
to the events of the core. ``tables.py`` defines the tables of a trial, ``folder.py`` the folder of a trial
with its ``trial.json``, ``outcomes.py`` what an error means for a send.

``journals/`` are written during the trial, with the standard library alone: ``recorder.py`` writes a broker's
events to ``event_files.py``; ``clients.py`` writes sends and reads to files that survive a crash of their
writer (``slots.py``); ``lines.py`` is for rare rows. ``parquet/`` turns journals into tables: ``sealing.py``
one journal, ``recovery.py`` all journals of a trial, ``growing.py`` journals still being written,
``parts.py`` the files. ``importers/`` converts histories of other tools. ``docs/reference/events.md`` and
``docs/reference/evidence.md`` describe the files.

The rules of the folder: no decision of a broker depends on evidence; files are only appended to; and a
failure to record loses the record, but never harms the broker.
"""
