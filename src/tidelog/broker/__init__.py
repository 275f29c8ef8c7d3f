"""A broker as a process: the core of ``tidelog.core`` behind sockets, files, a keeper and a clock.

This package makes no decision about replication. Frames become core messages, core effects become frames.
``node.py`` connects the two, ``apis/`` holds one file per Kafka API, ``peers/`` the connections to other
brokers.
"""
