"""The cluster as its controller sees it: elections, topics, in-sync replicas, requests to brokers."""
