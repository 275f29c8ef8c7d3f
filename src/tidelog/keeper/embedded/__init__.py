"""The embedded keeper: server, protocol, journal and client."""
