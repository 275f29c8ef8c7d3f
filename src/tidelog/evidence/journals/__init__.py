"""Files written while a trial runs, so that a killed process loses at most the last record."""
