"""A Spark session that needs no preparation: Java, settings, progress."""
