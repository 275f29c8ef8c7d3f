"""What is in the files of a log, written by tidelog or by Apache Kafka.

Every reader is a generator of rows, dictionaries with a `kind`. Rules of the package: nothing is believed
before it was checked, what is wrong becomes a row of kind `finding` with its place, no reader raises because
of what a file holds, and none keeps more of a file in memory than one batch.
"""
