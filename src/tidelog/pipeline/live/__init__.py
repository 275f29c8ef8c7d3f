"""The audit while things happen: gaps, duplicates and rewrites, reported within seconds.

``memory.py`` is what is remembered of one partition and what contradicts it, without Spark. ``query.py`` is
the streaming query around it, one memory per partition. ``findings.py`` is what is found, and keeps it, each
finding once. ``targets.py`` is what can be followed, ``following.py`` runs the query until there is nothing
left to follow.
"""
