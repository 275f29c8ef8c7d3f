"""A broker as a process: the core of ``tidelog.core`` behind sockets, files, a keeper and a clock.

Nothing in here decides anything about replication. Frames become core messages, core effects become frames;
``node.py`` is where the two meet, ``apis/`` holds one file per Kafka API, ``peers.py`` the way out to
other brokers.
"""
