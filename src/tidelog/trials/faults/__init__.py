"""What is done to a cluster: drawn beforehand, carried out in time, undone, written down."""
