"""Everything the page asks for, computed without a server. Standard library only."""
