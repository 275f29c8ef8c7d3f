"""The network between a trial's processes, in our hands: relays, or network namespaces."""
