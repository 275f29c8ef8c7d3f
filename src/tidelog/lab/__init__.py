"""The deterministic world in which the core can be watched failing.

One virtual clock, one network, disks, a keeper of three members, clients: everything a cluster needs, with
every failure under control. Nothing here draws a random number by itself: the search (``lab/search``)
holds the only die, so a schedule is a list of choices and can be replayed to the byte.
"""
