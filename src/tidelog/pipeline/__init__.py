"""The audit on Spark: what producers were promised × what every replica holds × what consumers read.

``session.py`` opens Spark, ``java.py`` finds something to run it on, ``errors.py`` is how the pipeline says
no. ``segments/`` turns segment files into Arrow without knowing Spark; ``sources/`` are the Spark data
sources over it and over live topics.

Only this package imports pyspark, and only inside it: `import tidelog.pipeline` alone starts nothing.
"""
