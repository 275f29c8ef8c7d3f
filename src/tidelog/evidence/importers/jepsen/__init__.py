"""Histories of Jepsen's Kafka workload as evidence, so that they can be audited like a trial of our own.

``edn.py`` reads the notation in which Jepsen writes, ``operations.py`` what an operation says,
``positions.py`` follows the position of each consumer, and ``history.py`` writes the folder.

The rules of the folder: one operation at a time, whatever the length of the history; what is not understood
is refused by line and column, and never guessed.
"""
