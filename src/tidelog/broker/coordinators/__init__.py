"""Consumer groups on a real broker: the pure coordinators of ``tidelog.groups`` on replicated partitions.

``coordinators`` knows which partitions of ``__consumer_offsets`` this broker leads, ``led_partition``
executes the effects of one coordinator, ``loading`` reads its log. The handlers call only ``coordinators``.
"""
