"""The keeper port on ZooKeeper, through kazoo."""
