"""One partition on one broker: its log, and the roles of leader and follower."""
