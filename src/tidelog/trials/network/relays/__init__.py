"""What a switchboard is made of, from the rules down to the sockets.

``links`` holds the rules of the network and ``places`` knows where nodes listen. ``exchange`` has a ``relay``
for each way from one node to another: its port (``doors``), and ``connections`` with a ``lane`` in each
direction, which ``speech`` helps to tell one message from another, and where ``rewriting`` changes some.
"""
