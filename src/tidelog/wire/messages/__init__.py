"""The messages, one module per API, each with its request, its response and its range of versions."""
