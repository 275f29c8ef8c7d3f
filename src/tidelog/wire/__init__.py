"""Kafka's wire protocol: bytes to messages and back, with no IO, clock or randomness."""
