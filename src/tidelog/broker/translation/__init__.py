"""Messages of the core to and from Kafka's bytes."""
