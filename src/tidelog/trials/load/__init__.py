"""The load of a long trial: who sends and reads what, and the processes in which they do."""
