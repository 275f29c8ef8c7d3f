"""Settings by their names in Kafka: kinds of values, and the files they are written in."""
