"""Consumer groups on a real broker: the pure coordinators of ``tidelog.groups`` on replicated partitions.

``coordinators`` knows which partitions of ``__consumer_offsets`` are led here, ``led_partition`` carries out
the effects of one coordinator, ``loading`` reads its log. The handlers speak to ``coordinators`` only.
"""
