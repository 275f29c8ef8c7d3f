"""A small Kafka client: one blocking connection, administration, and connections for asyncio."""
