"""How the processes of a cluster are joined, and what can be done to their links."""
