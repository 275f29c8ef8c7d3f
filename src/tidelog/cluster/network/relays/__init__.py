"""What a switchboard is made of, from the rules down to the sockets.

``rules`` holds the rules of the network and ``addresses`` knows where nodes listen. ``exchange`` has a
``relay`` for each way from one node to another: its port (``listening_port``), and each
``relayed_connection`` with a ``lane`` in each direction, which ``labels`` helps to tell one message from
another, and where ``rewriting`` changes some.
"""
