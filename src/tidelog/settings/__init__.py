"""Settings by their names in Kafka: kinds of values, tables, and the files they are written in."""
