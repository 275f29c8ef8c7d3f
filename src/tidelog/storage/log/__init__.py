"""One log in segment files: reading, writing, indexes, recovery, retention."""
