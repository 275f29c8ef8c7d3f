"""Histories of Jepsen's Kafka workload as evidence, so that they can be audited like a trial.

``edn.py`` reads Jepsen's notation, ``operations.py`` the operations, ``positions.py`` follows the position of
each consumer, and ``history.py`` writes the folder.

The rules of the folder: one operation in memory at a time; unknown content is refused with line and column,
and never guessed.
"""
