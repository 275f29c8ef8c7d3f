"""The options of commands that have many. What several commands share is in ``cli.options``."""
