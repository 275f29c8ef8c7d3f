"""Segment files as Arrow: Apache Kafka's or tidelog's, whole or damaged, compressed or not. No Spark here.

``reader.py`` is the way in. ``scan.py`` finds batches in a file, ``batches.py`` reads their headers,
``decoding.py`` sorts the sound from the doubtful, ``fields.py`` decodes the records of many sound batches
with numpy (``varints.py``, ``places.py``), ``careful.py`` those of a doubtful one, and ``rows.py`` makes the
Arrow of ``columns.py``. ``texts.py`` names keys and values as the evidence does.
"""
