"""The audit while things happen: gaps, duplicates and rewrites, told within seconds.

``memory.py`` is what is remembered of one partition and what contradicts it, without Spark. ``query.py`` is
the streaming query around it, one memory per partition. ``findings.py`` keeps what was found, each finding
once. ``following.py`` runs the query until there is nothing left to follow.
"""
