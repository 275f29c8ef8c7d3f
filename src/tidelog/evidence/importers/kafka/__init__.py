"""Log folders of Apache Kafka brokers as evidence, so that an audit can compare replicas that exist already.

``log_folders.py`` finds the brokers and their partitions, ``replica.py`` reads a replica's files,
``placing.py`` brings segment files into the evidence, ``metadata_log.py`` reads KRaft's own log (its records
are in ``metadata_records.py``), ``coordinator_log.py`` the transaction coordinator's, ``server_logs.py`` what
brokers and controllers wrote in words. ``happenings.py`` makes events of these three; ``folder_import.py``
writes the folder.

The rules of the folder: the source is only read. Memory holds what is known of each partition, never records.
A file that a broker may still write to is read once, from the copy in the evidence.
"""
