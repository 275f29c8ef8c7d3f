"""The coordination service behind the port ``core.coordination``: what ZooKeeper is to Kafka."""
