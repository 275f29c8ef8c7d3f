"""A Kafka-compatible replicated log that can tell whether a promised record can be lost, and show how.

The packages form layers and import downwards only; the contracts are in pyproject.toml.
"""

__version__ = "0.1.0"
