"""Files that are written while a trial runs, so that the death of a process costs at most the last record."""
