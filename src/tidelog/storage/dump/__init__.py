"""Read the files of a log, written by tidelog or by Apache Kafka.

Every reader is a generator of rows, dictionaries with a `kind`. Rules of the package: readers verify
everything; an error becomes a row of kind `finding` with its position; no reader raises because of a file's
content; no reader keeps more than one batch in memory.
"""
