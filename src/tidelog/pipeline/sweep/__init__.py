"""The sweep: very many simulated trials over a grid of configurations, on Spark; and the atlas made of them.

``cells.py`` is a configuration and its name, ``mixes.py`` what may fail, ``grid.py`` and ``grid_file.py``
which cells are wanted, ``sizing.py`` how long that takes. ``rows.py`` is the schema of a trial,
``player.py`` plays trials in a process that may die, ``spark_jobs.py`` has Spark do it, ``store.py`` is the
folder and knows what is missing in it, ``campaign.py`` goes from one to the next. ``summary.py`` counts per
cell on Spark, ``intervals.py`` says how sure that is, ``schedules.py`` shrinks one failure of each bad
cell. ``atlas/`` is the page; ``questions.py`` answers the documents' questions from the counts.

Only ``spark_jobs.py``, ``store.py``, ``summary.py`` and ``schedules.py`` touch Spark; the rest is plain
Python that workers import too.
"""
