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

``schemas.py`` is the meaning of an event's row and ``to_row`` makes one: pure, so the simulator's events and
a broker's become the same rows. ``process.py`` adds what only processes go through (starts, recoveries,
keeper sessions) to the events of the core. ``recorder.py`` writes a broker's events to files, ``files.py``
knows their names and how many are kept, ``reader.py`` reads them back. The page for readers of the files is
``docs/reference/events.md``.

``tables.py`` says what the tables of a trial are, ``arrow.py`` how Arrow spells them, ``parquet.py`` writes
and reads their files. What happens fast is first written to a journal that survives the death of its writer:
``slots.py`` is the file, ``journals.py`` what clients put there, ``sealing.py`` how it becomes Parquet;
``lines.py`` is for what happens slowly. ``folder.py`` is the folder of a trial with its ``trial.json``, and
``recovery.py`` brings what journals hold into the tables. The page is ``docs/reference/evidence.md``.

The rules of the folder: evidence is observed, never consulted, so nothing a broker decides depends on it; a
file is only ever appended to; and what cannot be recorded costs the record, never the broker.
"""
