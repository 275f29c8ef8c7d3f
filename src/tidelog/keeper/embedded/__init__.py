"""Our own keeper: one process, its protocol, its journal, and the client of it."""
