"""The coordination service behind ``core.keeper_port``: ZooKeeper, or tidelog's own."""
