"""Histories of Jepsen's Kafka workload as evidence, so that they can be audited like a trial of our own.

``edn.py`` reads the notation in which Jepsen writes, ``ops.py`` what an operation says, ``places.py`` follows
where each consumer waits, and ``importing.py`` writes the folder.

The rules of the folder: one operation at a time, whatever the length of the history; what is not understood
is refused by line and column, and never guessed.
"""
