"""Log compaction: which log is next, and one pass over its segments."""
